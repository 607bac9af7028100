use oncefold_core::id::{EventUuid, SourceName};
use oncefold_core::message::Message;
use oncefold_core::queue::QueueName;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// What this process holds of each queue, by the queue's name.
pub(crate) struct Lines {
    lines: Mutex<HashMap<String, Arc<Line>>>,
    /// The lowest sequence of this process's own publishes: no process before it held what came later.
    first_own: AtomicI64,
}

impl Default for Lines {
    fn default() -> Self {
        Self { lines: Mutex::default(), first_own: AtomicI64::new(i64::MAX) }
    }
}

impl Lines {
    pub(crate) fn line(&self, name: &str) -> Arc<Line> {
        let mut lines = locked(&self.lines);
        if let Some(line) = lines.get(name) {
            return line.clone();
        }
        let line = Arc::new(Line::named(name));
        lines.insert(name.to_owned(), line.clone());
        line
    }

    /// What has a lower sequence may have been held by the process before this one.
    pub(crate) fn first_own(&self) -> i64 {
        self.first_own.load(Ordering::Relaxed)
    }

    /// The rows of work queues that this process holds of these messages, in their order.
    pub(crate) fn rows_of<'a>(&self, messages: impl Iterator<Item = &'a Message>) -> Vec<Option<HeldRow>> {
        let mut line: Option<(&SourceName, Arc<Line>)> = None;
        let rows = messages.map(|message| {
            let line = match &line {
                Some((source, line)) if **source == message.source => line,
                _ => {
                    let found = self.line(&QueueName::Work(message.source.clone()).to_string());
                    &line.insert((&message.source, found)).1
                }
            };
            let sequence = line.sequence_of(message)?;
            Some(HeldRow { line: line.clone(), sequence })
        });
        rows.collect()
    }

    /// Messages of these sources were committed, from this sequence on: wakes who waits for them.
    pub(crate) fn published<'a>(&self, first: i64, sources: impl Iterator<Item = &'a SourceName>) {
        self.first_own.fetch_min(first, Ordering::Relaxed);
        let mut counts: HashMap<&SourceName, u64> = HashMap::new();
        for source in sources {
            *counts.entry(source).or_default() += 1;
        }
        for (source, count) in counts {
            self.line(&QueueName::Work(source.clone()).to_string()).arrived(count);
        }
    }
}

/// A row that this process holds.
#[derive(Clone)]
pub(crate) struct HeldRow {
    line: Arc<Line>,
    pub(crate) sequence: i64,
}

impl HeldRow {
    /// It travels on to the dead letters when it is settled: it must not go with the verdict on a copy that is alike.
    pub(crate) fn travels_on(&self) {
        if let Some(held) = locked(&self.line.state).held.get_mut(&self.sequence) {
            held.travels_on = true;
        }
    }

    /// Whether it may go with a verdict.
    pub(crate) fn may_go(&self) -> bool {
        locked(&self.line.state).held.get(&self.sequence).is_none_or(|held| !held.travels_on)
    }

    /// It was deleted, but whoever holds it has not settled it yet.
    pub(crate) fn is_deleted(&self) {
        if let Some(held) = locked(&self.line.state).held.get_mut(&self.sequence) {
            held.is_deleted = true;
        }
    }
}

/// What a copy of an event is on the queue: its id, and the generation it was put there in.
type Copied = (EventUuid, u32);

/// One queue, as this process sees it.
pub(crate) struct Line {
    pub(crate) name: String,
    state: Mutex<State>,
    /// Held while rows are taken: two subscriptions never take the same one.
    pub(crate) taking: tokio::sync::Mutex<()>,
    /// Subscriptions there are.
    takers: Mutex<usize>,
    arrivals: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// Everything up to here was taken or settled, but for what was given back.
    taken_to: i64,
    held: BTreeMap<i64, Held>,
    /// The sequence of what is held; of copies that are alike, the last.
    sequences: HashMap<Copied, i64>,
}

struct Held {
    /// Unless no verdict can be about it: it cannot be read, or was given up.
    copied: Option<Copied>,
    /// A verdict of dead is on record, or about to be.
    travels_on: bool,
    /// It went with its verdict.
    is_deleted: bool,
}

impl State {
    fn remove(&mut self, sequence: i64) -> bool {
        let Some(held) = self.held.remove(&sequence) else { return false };
        if let Some(copied) = held.copied
            && self.sequences.get(&copied) == Some(&sequence)
        {
            self.sequences.remove(&copied);
        }
        true
    }
}

impl Line {
    fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            state: Mutex::default(),
            taking: tokio::sync::Mutex::default(),
            takers: Mutex::default(),
            arrivals: watch::Sender::new(0),
        }
    }

    /// A subscription comes. What `note` hands to the writer for the first of them gets there in the order of coming and
    /// going.
    pub(crate) fn come(&self, note: impl FnOnce(bool)) {
        let mut takers = locked(&self.takers);
        *takers += 1;
        note(*takers == 1);
    }

    /// A subscription goes; as [`Self::come`], for the last of them.
    pub(crate) fn go(&self, note: impl FnOnce(bool)) {
        let mut takers = locked(&self.takers);
        *takers -= 1;
        note(*takers == 0);
    }

    /// Counts what this process brought to the queue.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.arrivals.subscribe()
    }

    pub(crate) fn arrived(&self, count: u64) {
        self.arrivals.send_modify(|arrivals| *arrivals += count);
    }

    /// Where taking goes on, and what lies beyond that is held nevertheless.
    pub(crate) fn position(&self) -> (i64, Vec<i64>) {
        let state = locked(&self.state);
        (state.taken_to, state.held.range(state.taken_to.saturating_add(1)..).map(|(sequence, _)| *sequence).collect())
    }

    /// Holds a row, which brings this message where a verdict is to be expected.
    pub(crate) fn hold(&self, sequence: i64, message: Option<&Message>) {
        let copied = message.map(|message| (message.id, message.generation));
        let mut state = locked(&self.state);
        state.taken_to = state.taken_to.max(sequence);
        state.held.insert(sequence, Held { copied, travels_on: false, is_deleted: false });
        if let Some(copied) = copied {
            state.sequences.insert(copied, sequence);
        }
    }

    fn sequence_of(&self, message: &Message) -> Option<i64> {
        locked(&self.state).sequences.get(&(message.id, message.generation)).copied()
    }

    /// Rows of the file that are held.
    pub(crate) fn held(&self) -> u64 {
        locked(&self.state).held.values().filter(|held| !held.is_deleted).count() as u64
    }

    /// Those of these that are not deleted already.
    pub(crate) fn left_of(&self, mut sequences: Vec<i64>) -> Vec<i64> {
        let state = locked(&self.state);
        sequences.retain(|sequence| state.held.get(sequence).is_none_or(|held| !held.is_deleted));
        sequences
    }

    /// These are gone from the queue.
    pub(crate) fn forget(&self, sequences: &[i64]) {
        let mut state = locked(&self.state);
        for sequence in sequences {
            state.remove(*sequence);
        }
    }

    /// These may be taken again.
    pub(crate) fn give_back(&self, sequences: &[i64]) {
        let mut state = locked(&self.state);
        for sequence in sequences {
            if state.remove(*sequence) {
                state.taken_to = state.taken_to.min(sequence - 1);
            }
        }
        drop(state);
        self.arrived(sequences.len() as u64);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
