//! Which publishes travel together. A source with few publishes under way sends each at once, as a message of its own.
//! With more, they wait for the next confirm of that source, and then go as one message: the busier the broker is, the
//! larger the groups, and the fewer messages it has to care for.

use crate::group;
use oncefold_core::{Message, SourceName};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// So many messages of a source may be unconfirmed on a channel; further events wait to be grouped.
const UNCONFIRMED_MAX: usize = 2;
/// Most bytes of a group; one event always fits.
const GROUP_BYTES_MAX: usize = 64 * 1024;

/// An event to be published, and whatever its owner keeps with it.
pub(crate) struct Entry<V> {
    pub(crate) message: Arc<Message>,
    pub(crate) verdict: V,
}

/// The events that wait, and how many messages of each source are unconfirmed.
pub(crate) struct Grouping<V> {
    events_max: usize,
    sources: HashMap<SourceName, OfSource<V>>,
    waiting: usize,
    waiting_bytes: usize,
}

struct OfSource<V> {
    unconfirmed: usize,
    waiting: VecDeque<Entry<V>>,
}

impl<V> Grouping<V> {
    /// With at most so many events in a group; 1 for none at all.
    pub(crate) fn of(events_max: usize) -> Self {
        Self { events_max, sources: HashMap::new(), waiting: 0, waiting_bytes: 0 }
    }

    /// Events that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Bytes of the bodies that wait.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Drops events that wait and are not `wanted` any more.
    pub(crate) fn purge(&mut self, wanted: impl Fn(&V) -> bool) {
        (self.waiting, self.waiting_bytes) = (0, 0);
        for source in self.sources.values_mut() {
            source.waiting.retain(|entry| wanted(&entry.verdict));
            self.waiting += source.waiting.len();
            self.waiting_bytes += source.waiting.iter().map(|entry| entry.message.body.len()).sum::<usize>();
        }
    }

    /// Takes an event in, and gives it back where it is to be published now, as a message of its own.
    pub(crate) fn admit(&mut self, entry: Entry<V>) -> Option<Entry<V>> {
        let none = || OfSource { unconfirmed: 0, waiting: VecDeque::new() };
        let source = self.sources.entry(entry.message.source.clone()).or_insert_with(none);
        if source.unconfirmed < UNCONFIRMED_MAX || self.events_max <= 1 {
            source.unconfirmed += 1;
            return Some(entry);
        }
        self.waiting += 1;
        self.waiting_bytes += entry.message.body.len();
        source.waiting.push_back(entry);
        None
    }

    /// A message of this source has its verdict. Gives what is to be published now, as one message: nothing where nothing
    /// waits. Events that are not `wanted` any more are dropped.
    pub(crate) fn settled(&mut self, source: &SourceName, wanted: impl Fn(&V) -> bool) -> Vec<Entry<V>> {
        let Some(of_source) = self.sources.get_mut(source) else { return vec![] };
        let (mut group, mut bytes) = (vec![], 0);
        while group.len() < self.events_max
            && let Some(next) = of_source.waiting.front()
        {
            let size = group::size(&next.message);
            if !group.is_empty() && bytes + size > GROUP_BYTES_MAX {
                break;
            }
            let Some(entry) = of_source.waiting.pop_front() else { break };
            self.waiting -= 1;
            self.waiting_bytes -= entry.message.body.len();
            if wanted(&entry.verdict) {
                bytes += size;
                group.push(entry);
            }
        }
        of_source.unconfirmed -= usize::from(group.is_empty());
        if of_source.unconfirmed == 0 && of_source.waiting.is_empty() {
            self.sources.remove(source);
        }
        group
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oncefold_testkit::builders;

    const NONE: [usize; 0] = [];

    fn entry(source: &str, n: usize, bytes: usize) -> Entry<usize> {
        Entry { message: Arc::new(builders::message(source, &n.to_string(), vec![b' '; bytes]).build()), verdict: n }
    }

    /// Admits events `from..to`; the numbers of those that go at once.
    fn admit(grouping: &mut Grouping<usize>, source: &str, range: std::ops::Range<usize>) -> Vec<usize> {
        range.filter_map(|n| grouping.admit(entry(source, n, 100))).map(|entry| entry.verdict).collect()
    }

    fn settled(grouping: &mut Grouping<usize>, source: &str) -> Vec<usize> {
        let source = SourceName::parse(source).unwrap();
        grouping.settled(&source, |n| *n != 13).into_iter().map(|entry| entry.verdict).collect()
    }

    #[test]
    fn few_go_at_once_and_what_waits_goes_together_in_order() {
        let mut grouping = Grouping::of(64);
        assert_eq!(admit(&mut grouping, "shop", 0..8), [0, 1]);
        assert_eq!(admit(&mut grouping, "other", 20..22), [20, 21], "another source has places of its own");
        assert_eq!((grouping.waiting(), grouping.waiting_bytes()), (6, 600));
        assert_eq!(settled(&mut grouping, "shop"), [2, 3, 4, 5, 6, 7]);
        assert_eq!(admit(&mut grouping, "shop", 8..10), NONE, "two are unconfirmed again");
        assert_eq!(settled(&mut grouping, "shop"), [8, 9]);
        assert_eq!(settled(&mut grouping, "shop"), NONE);
        assert_eq!(admit(&mut grouping, "shop", 30..33), [30]);
    }

    #[test]
    fn groups_are_bounded_in_events_and_bytes() {
        let mut grouping = Grouping::of(3);
        admit(&mut grouping, "shop", 0..7);
        assert_eq!(settled(&mut grouping, "shop"), [2, 3, 4]);
        assert_eq!(settled(&mut grouping, "shop"), [5, 6]);

        let mut grouping = Grouping::of(64);
        admit(&mut grouping, "shop", 0..2);
        (2..7).for_each(|n| assert!(grouping.admit(entry("shop", n, GROUP_BYTES_MAX / 3)).is_none()));
        assert!(grouping.admit(entry("shop", 7, 2 * GROUP_BYTES_MAX)).is_none());
        assert_eq!(settled(&mut grouping, "shop"), [2, 3]);
        assert_eq!(settled(&mut grouping, "shop"), [4, 5]);
        assert_eq!(settled(&mut grouping, "shop"), [6]);
        assert_eq!(settled(&mut grouping, "shop"), [7], "one always fits");
        assert_eq!((grouping.waiting(), grouping.waiting_bytes()), (0, 0));
    }

    #[test]
    fn what_nobody_waits_for_is_dropped() {
        let mut grouping = Grouping::of(64);
        admit(&mut grouping, "shop", 0..2);
        admit(&mut grouping, "shop", 13..14);
        assert_eq!(settled(&mut grouping, "shop"), NONE);
        assert_eq!(grouping.waiting(), 0);
        assert_eq!(admit(&mut grouping, "shop", 20..22), [20], "its place is free");
        assert_eq!(settled(&mut grouping, "shop"), [21]);
        (0..2).for_each(|_| drop(settled(&mut grouping, "shop")));
        assert!(grouping.sources.is_empty(), "nothing is left of the source");
    }

    /// A queue that confirms nothing would else fill the lane with events that went to the spool long ago.
    #[test]
    fn what_nobody_waits_for_can_be_purged() {
        let mut grouping = Grouping::of(64);
        admit(&mut grouping, "stuck", 10..16);
        admit(&mut grouping, "shop", 20..24);
        grouping.purge(|n| *n >= 15);
        assert_eq!((grouping.waiting(), grouping.waiting_bytes()), (3, 300));
        assert_eq!(settled(&mut grouping, "stuck"), [15]);
        assert_eq!(settled(&mut grouping, "shop"), [22, 23]);
        assert_eq!((grouping.waiting(), grouping.waiting_bytes()), (0, 0));
    }

    #[test]
    fn without_grouping_everything_goes_at_once() {
        let mut grouping = Grouping::of(1);
        assert_eq!(admit(&mut grouping, "shop", 0..9).len(), 9);
        (0..9).for_each(|_| assert_eq!(settled(&mut grouping, "shop"), NONE));
        assert!(grouping.sources.is_empty());
    }
}
