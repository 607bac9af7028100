//! What is here and not settled: AMQP messages by delivery tag, their events by a tag of our own. The broker settles
//! messages, workers settle events; a message is settled when the last of its events is.

use bytes::Bytes;
use oncefold_core::SourceName;
use oncefold_core::queue::{Settlement, Tag};
use std::collections::BTreeMap;

/// A group as it came, to read an event of it again.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) source: SourceName,
    pub(crate) data: Bytes,
}

/// A message that is here.
#[derive(Debug)]
pub(crate) struct Held {
    /// Events that are not settled.
    open: usize,
    /// Which of its events were rejected, from 0.
    rejected: Vec<usize>,
    /// None where it carries one event.
    group: Option<Group>,
}

/// A message all of whose events are settled.
#[derive(Debug)]
pub(crate) struct Complete {
    pub(crate) delivery: u64,
    pub(crate) rejected: Vec<usize>,
    pub(crate) group: Option<Group>,
}

#[derive(Debug)]
struct Event {
    delivery: u64,
    /// Its place within the message.
    position: usize,
    bytes: usize,
    is_given: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    messages: BTreeMap<u64, Held>,
    events: BTreeMap<u64, Event>,
    next: u64,
    given: usize,
    given_bytes: usize,
}

impl Ledger {
    /// A message came, with events of so many bytes each. Gives the events' tags.
    pub(crate) fn came(&mut self, delivery: u64, bytes: &[usize], group: Option<Group>) -> Vec<Tag> {
        self.messages.insert(delivery, Held { open: bytes.len(), rejected: vec![], group });
        let events = bytes.iter().enumerate().map(|(position, &bytes)| {
            let tag = self.next;
            self.next += 1;
            self.events.insert(tag, Event { delivery, position, bytes, is_given: false });
            Tag(tag)
        });
        events.collect()
    }

    /// An event goes to whom it is for.
    pub(crate) fn give(&mut self, tag: Tag) {
        if let Some(event) = self.events.get_mut(&tag.0).filter(|event| !event.is_given) {
            event.is_given = true;
            self.given += 1;
            self.given_bytes += event.bytes;
        }
    }

    /// Whether events were given and are not settled.
    pub(crate) fn is_any_given(&self) -> bool {
        self.given > 0
    }

    /// Bytes of what was given and is not settled.
    pub(crate) fn given_bytes(&self) -> usize {
        self.given_bytes
    }

    /// The messages that are not settled.
    pub(crate) fn messages(&self) -> &BTreeMap<u64, Held> {
        &self.messages
    }

    /// Notes what becomes of given events, each once; others are left out. Gives the messages that are complete by this;
    /// they stay here until they are [gone](Self::gone).
    pub(crate) fn settle(&mut self, settlements: &[(Tag, Settlement)]) -> Vec<Complete> {
        let mut complete = vec![];
        for (tag, settlement) in settlements {
            if !self.events.get(&tag.0).is_some_and(|event| event.is_given) {
                continue;
            }
            let Some(event) = self.events.remove(&tag.0) else { continue };
            self.given -= 1;
            self.given_bytes -= event.bytes;
            let Some(held) = self.messages.get_mut(&event.delivery) else { continue };
            held.open -= 1;
            if *settlement == Settlement::Reject {
                held.rejected.push(event.position);
            }
            if held.open == 0 {
                let (rejected, group) = (std::mem::take(&mut held.rejected), held.group.take());
                complete.push(Complete { delivery: event.delivery, rejected, group });
            }
        }
        complete
    }

    /// The broker was told.
    pub(crate) fn gone(&mut self, delivery: u64) {
        self.messages.remove(&delivery);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group() -> Option<Group> {
        Some(Group { source: SourceName::parse("shop").unwrap(), data: Bytes::new() })
    }

    fn settle(ledger: &mut Ledger, fates: &[(u64, Settlement)]) -> Vec<(u64, Vec<usize>)> {
        let settlements: Vec<_> = fates.iter().map(|(tag, settlement)| (Tag(*tag), *settlement)).collect();
        let complete = ledger.settle(&settlements).into_iter();
        complete.map(|complete| (complete.delivery, complete.rejected)).collect()
    }

    #[test]
    fn a_message_is_complete_with_the_last_of_its_events() {
        use Settlement::{Ack, Reject};
        let mut ledger = Ledger::default();
        assert_eq!(ledger.came(7, &[10], None), [Tag(0)]);
        assert_eq!(ledger.came(9, &[1, 2, 3], group()), [Tag(1), Tag(2), Tag(3)]);
        (0..4).for_each(|tag| ledger.give(Tag(tag)));
        assert_eq!(ledger.given_bytes(), 16);
        assert_eq!(settle(&mut ledger, &[(0, Ack), (2, Reject)]), [(7, vec![])]);
        assert_eq!(
            (ledger.given_bytes(), ledger.messages().len()),
            (4, 2),
            "a message stays until the broker was told"
        );
        ledger.gone(7);
        assert_eq!(settle(&mut ledger, &[(3, Reject), (1, Ack)]), [(9, vec![1, 2])]);
        ledger.gone(9);
        assert!(ledger.messages().is_empty() && !ledger.is_any_given() && ledger.events.is_empty());
    }

    #[test]
    fn what_was_not_given_or_is_settled_changes_nothing() {
        let mut ledger = Ledger::default();
        ledger.came(1, &[5, 5], group());
        ledger.give(Tag(0));
        ledger.give(Tag(0));
        assert_eq!(ledger.given_bytes(), 5);
        let twice = [(0, Settlement::Ack), (0, Settlement::Ack), (1, Settlement::Ack), (99, Settlement::Reject)];
        assert_eq!(settle(&mut ledger, &twice), [], "the second event was never given");
        assert!(!ledger.is_any_given());
        ledger.give(Tag(1));
        assert_eq!(settle(&mut ledger, &[(1, Settlement::Ack)]), [(1, vec![])]);
    }
}
