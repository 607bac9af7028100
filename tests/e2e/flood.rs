//! 20,000 events over 2,000 entities, each delivered twice in shuffled order by concurrent clients, while processes are
//! killed in the middle. The final state equals an oracle that knows nothing of the fold.

use crate::first_look::orders;
use oncefold_e2e::{Api, Backend, Deployment, Provider, Running, wait};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const EVENTS: usize = 20_000;
const ENTITIES: usize = 2_000;
const CLIENTS: usize = 16;
const SETTLE_MAX: Duration = Duration::from_secs(180);

struct Event {
    id: String,
    key: String,
    body: Vec<u8>,
    /// Version, whether it deletes, position in the rank, digest: what decides, as plain values.
    order: (u64, bool, usize, [u8; 32]),
}

/// A small generator with a seed, so that a failure can be had again.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

fn events(random: &mut Seeded) -> Vec<Event> {
    let types = [("order.other", 0), ("order.created", 1), ("order.paid", 2), ("order.deleted", 0)];
    let mut made = vec![];
    for n in 0..EVENTS {
        let key = format!("ord_{:04}", random.below(ENTITIES));
        // Few versions, so that many are equal and rank, deletes and digests decide.
        let version = random.below(8) as u64;
        let (event_type, rank) = types[[0, 1, 1, 2, 2, 1, 2, 3][random.below(8)]];
        let body = json!({"type": event_type, "id": key, "version": version, "n": n, "note": "x".repeat(200)});
        let body = body.to_string().into_bytes();
        let order = (version, event_type == "order.deleted", rank, Sha256::digest(&body).into());
        made.push(Event { id: format!("msg_{n:05}"), key, body, order });
    }
    made
}

/// Of all events of an entity, the one that is highest by plain comparison; its body is the state, or it is deleted.
fn oracle(events: &[Event]) -> BTreeMap<String, Option<Value>> {
    let mut best: BTreeMap<&str, &Event> = BTreeMap::new();
    for event in events {
        let winner = best.entry(&event.key).or_insert(event);
        if event.order > winner.order {
            *winner = event;
        }
    }
    let state = |event: &Event| (!event.order.1).then(|| serde_json::from_slice(&event.body).unwrap());
    best.into_iter().map(|(key, event)| (key.to_owned(), state(event))).collect()
}

/// The processes of a deployment, and where intake is at present.
struct Processes {
    deployment: Deployment,
    ingest: Mutex<(Running, SocketAddr)>,
    workers: Mutex<Vec<Running>>,
}

impl Processes {
    fn start(backend: Backend) -> Self {
        let deployment = Deployment::on(backend, &orders());
        let mut ingest = deployment.start(&[Self::role(backend)]);
        let address = ingest.address("intake");
        let workers = match backend {
            Backend::Embedded => vec![],
            Backend::Fleet => (0..3).map(|_| deployment.start(&["worker"])).collect(),
        };
        Self { deployment, ingest: Mutex::new((ingest, address)), workers: Mutex::new(workers) }
    }

    const fn role(backend: Backend) -> &'static str {
        match backend {
            Backend::Embedded => "serve",
            Backend::Fleet => "ingest",
        }
    }

    fn address(&self) -> SocketAddr {
        self.ingest.lock().unwrap().1
    }

    /// SIGKILL to intake (embedded: to everything), and a fresh start.
    fn kill_ingest(&self) {
        let mut ingest = self.ingest.lock().unwrap();
        ingest.0.kill();
        let mut fresh = self.deployment.start(&[Self::role(self.deployment.backend)]);
        ingest.1 = fresh.address("intake");
        ingest.0 = fresh;
    }

    /// SIGKILL to one worker; nobody starts it again.
    fn kill_worker(&self) {
        if let Some(mut worker) = self.workers.lock().unwrap().pop() {
            worker.kill();
        }
    }
}

/// Sends every event twice, shuffled, and repeats what is not acked; kills processes on the way.
fn flood(processes: &Processes, events: &[Event], random: &mut Seeded) {
    let mut order: Vec<usize> = (0..events.len()).chain(0..events.len()).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, random.below(last + 1));
    }
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let provider = Provider::of("shop");
                while let Some(at) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let event = &events[*at];
                    provider.deliver(&|| processes.address(), &event.id, &event.body);
                }
            });
        }
        let passed = |count| move |next: &AtomicUsize| next.load(Ordering::Relaxed) >= count;
        for (count, kill) in [(events.len() / 2, true), (events.len(), false), (events.len() * 3 / 2, true)] {
            let passed = passed(count);
            wait::until("deliveries are on their way", SETTLE_MAX, || if passed(&next) { Ok(()) } else { Err(count) });
            if kill { processes.kill_ingest() } else { processes.kill_worker() }
        }
    });
}

fn survives(backend: Backend) {
    let mut random = Seeded(0x5EED_0000_0001 + backend as u64);
    let events = events(&mut random);
    let processes = Processes::start(backend);
    let started = Instant::now();
    flood(&processes, &events, &mut random);
    let acked = started.elapsed();

    let mut admin = match backend {
        Backend::Embedded => None,
        Backend::Fleet => Some(processes.deployment.start(&["admin"])),
    };
    let address = match &mut admin {
        Some(admin) => admin.address("admin"),
        None => processes.ingest.lock().unwrap().0.address("admin"),
    };
    let api = Api::at(address);
    let log = wait::until("every delivery is counted, every event settled", SETTLE_MAX, || {
        let log = api.all("/events");
        let open = log.iter().filter(|e| matches!(e["status"].as_str(), Some("queued" | "retrying"))).count();
        let once = log.iter().filter(|e| e["deliveries"].as_u64() < Some(2)).count();
        if log.len() == events.len() && open == 0 && once == 0 { Ok(log) } else { Err((log.len(), open, once)) }
    });
    eprintln!("{backend:?}: 2 x {EVENTS} deliveries acked in {acked:.1?}, settled in {:.1?}", started.elapsed());

    let ids: BTreeSet<&str> = log.iter().filter_map(|e| e["event_id"].as_str()).collect();
    assert!(events.iter().all(|e| ids.contains(e.id.as_str())), "every acked event is in the log");
    for event in &log {
        assert_eq!(event["status"], "applied", "{event}");
        assert_eq!(event["attempts"], 1, "one verdict each: {event}");
        assert_eq!(event["changes"].as_array().map(Vec::len), Some(1), "applied once: {event}");
    }
    let folded: BTreeMap<String, Option<Value>> = api
        .all("/entities?entity=order")
        .into_iter()
        .map(|e| {
            (e["key"].as_str().unwrap().to_owned(), (!e["deleted"].as_bool().unwrap()).then(|| e["state"].clone()))
        })
        .collect();
    let expected = oracle(&events);
    for (key, state) in &expected {
        assert_eq!(folded.get(key), Some(state), "{key}");
    }
    assert_eq!(folded.len(), expected.len());
}

#[test]
fn flood_embedded() {
    survives(Backend::Embedded);
}

#[test]
fn flood_fleet() {
    survives(Backend::Fleet);
}
