//! Whatever the order, duplication, batching and interleaving of workers: the same entities, each event once.

use super::support::{all_events, apply_batch, claim_due};
use crate::builders::{applies, at, batch, change, item, message, repeat_of, retries};
use oncefold_core::id::{Digest, EventUuid};
use oncefold_core::message::Message;
use oncefold_core::prepare::Prepared;
use oncefold_core::store::{EntityFilter, Settled, Store};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// A sequence of numbers from a seed (SplitMix64; Steele, Lea, Flood 2014): the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            let other = usize::try_from(self.below(at as u64 + 1)).expect("a position");
            list.swap(at, other);
        }
    }
}

/// One change as plain values.
#[derive(Clone, Debug)]
struct Fact {
    entity: &'static str,
    key: String,
    epoch: u32,
    version: u64,
    deleted: bool,
    rank: u32,
    document: String,
}

impl Fact {
    fn state(&self) -> Option<String> {
        (!self.deleted).then(|| format!("\"{}\"", self.document))
    }
}

/// An event as plain values: its identity, and what it says.
#[derive(Clone, Debug)]
struct Told {
    message: Message,
    facts: Vec<Fact>,
}

fn tell(numbers: &mut Numbers, event_id: u64, body: String) -> Told {
    let facts = (0..numbers.below(3)).map(|_| Fact {
        entity: ["order", "payment"][usize::from(numbers.below(2) == 1)],
        key: format!("k{}", numbers.below(5)),
        epoch: 1 + u32::from(numbers.below(8) == 0),
        version: numbers.below(6),
        deleted: numbers.below(4) == 0,
        rank: u32::from(numbers.below(2) == 1),
        document: format!("d{}", numbers.below(12)),
    });
    let facts = facts.collect();
    Told { message: message("shop", &format!("e{event_id}"), body).build(), facts }
}

fn plan(told: &Told) -> Prepared {
    let changes = told.facts.iter().map(|fact| {
        let mut built = change(&fact.key, fact.version).entity(fact.entity).epoch(fact.epoch).rank(fact.rank);
        built = built.document(&fact.document);
        built.state = fact.state();
        built.build()
    });
    applies(changes.collect())
}

/// The oracle: of an entity's facts the one whose tuple of plain values is the highest. No fold, no order key.
fn oracle(told: &[Told]) -> BTreeMap<(String, String), (Option<String>, String)> {
    let mut best: BTreeMap<(String, String), &Fact> = BTreeMap::new();
    let order = |f: &Fact| (f.epoch, f.version, f.deleted, f.rank, *Digest::of(f.document.as_bytes()).as_bytes());
    for fact in told.iter().flat_map(|t| &t.facts) {
        let winner = best.entry((fact.entity.to_owned(), fact.key.clone())).or_insert(fact);
        if order(fact) > order(winner) {
            *winner = fact;
        }
    }
    best.into_iter().map(|(name, fact)| (name, (fact.state(), fact.version.to_string()))).collect()
}

async fn entities(store: &dyn Store) -> BTreeMap<(String, String), (Option<String>, String)> {
    let found = store.entities(&EntityFilter { limit: 500, ..EntityFilter::default() }).await.expect("entities");
    found.into_iter().map(|e| ((e.entity.to_string(), e.key), (e.state, e.version))).collect()
}

type Delivery = (Message, Prepared);

/// Everything told, some of it failing at first, some of it more than once, in any order.
fn deliveries(numbers: &mut Numbers, told: &[Told]) -> Vec<Delivery> {
    let mut deliveries = vec![];
    for one in told {
        let plan_of = |numbers: &mut Numbers| if numbers.below(6) == 0 { retries(at(5)) } else { plan(one) };
        deliveries.push((one.message.clone(), plan_of(numbers)));
        for _ in 0..numbers.below(3) {
            let copy = if numbers.below(3) == 0 { one.message.clone() } else { repeat_of(&one.message) };
            deliveries.push((copy, plan_of(numbers)));
        }
    }
    numbers.shuffle(&mut deliveries);
    deliveries
}

/// Applies deliveries in batches of any size by as many workers as asked for; answers how often each event (by its
/// body, which is its own) was applied.
async fn work(store: &Arc<dyn Store>, numbers: &mut Numbers, deliveries: Vec<Delivery>, workers: usize) -> Applied {
    let mut queues: Vec<Vec<Vec<Delivery>>> = vec![vec![]; workers];
    let mut left = deliveries.into_iter().peekable();
    while left.peek().is_some() {
        let size = 1 + usize::try_from(numbers.below(12)).expect("small");
        let worker = usize::try_from(numbers.below(workers as u64)).expect("small");
        queues[worker].push(left.by_ref().take(size).collect());
    }
    let running = queues.into_iter().map(|batches| {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            let mut applied = Applied::new();
            for deliveries in batches {
                let items = deliveries.iter().map(|(message, plan)| item(message, plan.clone())).collect();
                let outcomes = apply_batch(&*store, batch(at(10), items)).await;
                for ((message, _), outcome) in deliveries.iter().zip(outcomes) {
                    if outcome.settled == Settled::Applied {
                        *applied.entry(message.digest).or_default() += 1;
                    }
                }
            }
            applied
        })
    });
    let mut applied = Applied::new();
    for worker in running.collect::<Vec<_>>() {
        for (digest, times) in worker.await.expect("the worker ends") {
            *applied.entry(digest).or_default() += times;
        }
    }
    applied
}

type Applied = HashMap<Digest, u32>;

async fn round(store: Arc<dyn Store>, seed: u64, workers: usize) {
    let mut numbers = Numbers(seed);
    let mut told: Vec<Told> = (0..60).map(|n| tell(&mut numbers, n, format!("{seed}/{n}"))).collect();
    // Some ids come with other bytes: variants, whose changes count like any.
    let variants: Vec<Told> = (0..12)
        .map(|n| {
            let event_id = numbers.below(60);
            tell(&mut numbers, event_id, format!("{seed}/variant{n}"))
        })
        .collect();
    told.extend(variants);
    let deliveries = deliveries(&mut numbers, &told);
    let mut applied = work(&store, &mut numbers, deliveries, workers).await;
    // What failed is sent again until it lands, as the scheduler does.
    let plans: HashMap<Digest, Prepared> = told.iter().map(|t| (t.message.digest, plan(t))).collect();
    loop {
        let due = claim_due(&*store, at(20)).await;
        if due.is_empty() {
            break;
        }
        let again = due.into_iter().map(|message| (message.clone(), plans[&message.digest].clone())).collect();
        for (digest, times) in work(&store, &mut numbers, again, workers).await {
            *applied.entry(digest).or_default() += times;
        }
    }
    assert_eq!(entities(&*store).await, oracle(&told), "seed {seed}, {workers} workers");
    for one in &told {
        assert_eq!(applied.get(&one.message.digest), Some(&1), "seed {seed}: {} is applied once", one.message.event_id);
    }
    let events = all_events(&*store).await;
    let ids: HashSet<EventUuid> = events.iter().map(|e| e.id).collect();
    assert_eq!((events.len(), ids.len()), (told.len(), told.len()), "seed {seed}: every event is in the log once");
    assert!(events.iter().all(|e| e.status.as_str() == "applied"));
    histories_agree(&*store, seed).await;
}

/// What was kept of the changes says the same as the states: the highest version ever `applied` or `noop` won.
async fn histories_agree(store: &dyn Store, seed: u64) {
    let found = store.entities(&EntityFilter { limit: 500, ..EntityFilter::default() }).await.expect("entities");
    for entity in found {
        let history = store.history(entity.entity.as_str(), &entity.key, None, 500).await.expect("a history");
        let first = history.iter().filter(|h| h.verdict.as_str() == "applied").count();
        assert!(first >= 1, "seed {seed}: the first change of {} {} was applied", entity.entity, entity.key);
        let winner = history.iter().any(|h| h.event == entity.event && h.version == entity.version);
        assert!(winner, "seed {seed}: the winner of {} {} is in its history", entity.entity, entity.key);
    }
}

/// One worker, batches of any size.
pub async fn any_order_ends_in_the_same_entities(store: Arc<dyn Store>) {
    round(store, 1, 1).await;
}

/// Another set of events.
pub async fn any_duplication_ends_in_the_same_entities(store: Arc<dyn Store>) {
    round(store, 2, 1).await;
}

/// Workers that write at the same time.
pub async fn any_interleaving_ends_in_the_same_entities(store: Arc<dyn Store>) {
    round(store, 3, 4).await;
}

/// Workers that write at the same time, another set of events.
pub async fn any_number_of_workers_ends_in_the_same_entities(store: Arc<dyn Store>) {
    round(store, 4, 8).await;
}

/// One event, delivered to many workers at once under different ids: applied once, counted by each.
pub async fn one_event_at_many_workers_is_applied_once(store: Arc<dyn Store>) {
    let first = message("shop", "e1", "{}").build();
    let workers = (0..8).map(|_| {
        let (store, message) = (Arc::clone(&store), repeat_of(&first));
        tokio::spawn(async move {
            let plan = applies(vec![change("o1", 1).build()]);
            apply_batch(&*store, batch(at(1), vec![item(&message, plan)])).await.remove(0).settled
        })
    });
    let mut settled = vec![];
    for worker in workers.collect::<Vec<_>>() {
        settled.push(worker.await.expect("the worker ends"));
    }
    settled.sort_by_key(|s| *s != Settled::Applied);
    assert_eq!(settled[0], Settled::Applied);
    assert_eq!(settled[1..], [Settled::Repeat; 7]);
    let events = all_events(&*store).await;
    assert_eq!((events.len(), events[0].deliveries), (1, 8));
}

/// The same events in two batches at once, in opposite orders and under different ids, as when a source's batches are
/// written side by side: each is applied by one of the two, and a repeat for the other.
pub async fn batches_of_the_same_events_at_once_are_applied_once(store: Arc<dyn Store>) {
    for round in 0..10u64 {
        let first: Vec<Message> = (0..40).map(|n| message("shop", &format!("{round}/{n}"), "{}").build()).collect();
        let mut second: Vec<Message> = first.iter().map(repeat_of).collect();
        second.reverse();
        let writers = [first, second].map(|messages| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let plan = |n: usize| applies(vec![change(&format!("k{}", n % 7), round).build()]);
                let items = messages.iter().enumerate().map(|(n, message)| item(message, plan(n)));
                let outcomes = apply_batch(&*store, batch(at(1), items.collect())).await;
                messages
                    .into_iter()
                    .map(|m| m.event_id)
                    .zip(outcomes.into_iter().map(|o| o.settled))
                    .collect::<Vec<_>>()
            })
        });
        let mut settled: BTreeMap<String, Vec<Settled>> = BTreeMap::new();
        for writer in writers {
            for (event_id, one) in writer.await.expect("the writer ends") {
                settled.entry(event_id).or_default().push(one);
            }
        }
        for (event_id, mut both) in settled {
            both.sort_by_key(|s| *s != Settled::Applied);
            assert_eq!(both, [Settled::Applied, Settled::Repeat], "{event_id}");
        }
    }
    let events = all_events(&*store).await;
    assert!(events.len() == 400 && events.iter().all(|event| event.deliveries == 2), "each is counted twice");
}

/// Writers of one new entity at the same time: one created it, each other one is told what it really met.
pub async fn creating_at_once_has_one_first(store: Arc<dyn Store>) {
    for round in 0..20u64 {
        let key = format!("k{round}");
        let writers = (1..=4u64).map(|version| {
            let (store, key) = (Arc::clone(&store), key.clone());
            tokio::spawn(async move {
                let message = message("shop", &format!("{key}/{version}"), "{}").build();
                let changes = vec![change(&key, version).build()];
                let outcomes = apply_batch(&*store, batch(at(1), vec![item(&message, applies(changes))])).await;
                (version, outcomes[0].verdicts[0].as_str())
            })
        });
        let mut verdicts = vec![];
        for writer in writers.collect::<Vec<_>>() {
            verdicts.push(writer.await.expect("the writer ends"));
        }
        assert!(verdicts.contains(&(4, "applied")), "{verdicts:?}");
        assert!(verdicts.iter().all(|(_, verdict)| ["applied", "stale"].contains(verdict)), "{verdicts:?}");
        let history = store.history("order", &key, None, 10).await.expect("a history");
        assert_eq!(history.len(), 4);
        assert_eq!(store.entity("order", &key).await.unwrap().unwrap().version, "4");
    }
}
