//! How many messages to let the broker send ahead.
//!
//! AMQP's prefetch counts messages; its byte form is not implemented by RabbitMQ, and the client buffers whatever
//! arrives, so the count is the only bound on memory. It starts as if every body were 1 MiB, the largest that intake takes
//! unless told otherwise, and follows the mean size that is seen. What it cannot do: foresee a run of large messages after
//! many small ones; then up to one prefetch of them arrives before the count shrinks.
//!
//! A message may carry several events: what is counted at the broker is messages, what is meant are events, so the count
//! also follows the mean number of events of a message.

use oncefold_core::queue::Prefetch;

/// The size of body that is assumed before any was seen.
const ASSUMED_BYTES: usize = 1 << 20;
/// One part in so many of the mean is the latest size.
const MEAN_OVER: f64 = 16.0;

/// The count in force, and the sizes seen.
#[derive(Debug)]
pub(crate) struct Window {
    limit: Prefetch,
    mean_bytes: f64,
    mean_events: f64,
    seen: u64,
    /// Prefetch of the running consumer; 0 where none runs.
    count: usize,
    /// Of what is unsettled, so many were delivered to the running consumer.
    delivered: usize,
}

impl Window {
    pub(crate) fn within(limit: Prefetch) -> Self {
        Self { limit, mean_bytes: 0.0, mean_events: 1.0, seen: 0, count: 0, delivered: 0 }
    }

    /// A consumer was started with this prefetch.
    pub(crate) fn started(&mut self, count: usize) {
        self.count = count;
        self.delivered = 0;
    }

    /// The running consumer was sent a message of so many bytes with so many events.
    pub(crate) fn observe(&mut self, bytes: usize, events: usize) {
        let weight = if self.seen == 0 { 1.0 } else { 1.0 / MEAN_OVER };
        self.mean_bytes += (bytes as f64 - self.mean_bytes) * weight;
        self.mean_events += (events as f64 - self.mean_events) * weight;
        self.seen += 1;
        self.delivered += 1;
    }

    /// So many of the running consumer's messages were settled.
    pub(crate) fn settled(&mut self, messages: usize) {
        self.delivered = self.delivered.saturating_sub(messages);
    }

    /// How many messages may be unsettled.
    fn target(&self) -> usize {
        let size = if self.seen == 0 { ASSUMED_BYTES as f64 } else { self.mean_bytes.max(1.0) };
        let fitting = self.limit.bytes as f64 / size;
        // Rounded up to a power of two: it wavers with the load, and each change costs a consumer.
        let events = self.mean_events.max(1.0).log2().ceil().exp2();
        fitting.min(f64::from(self.limit.messages) / events).max(1.0) as usize // saturates
    }

    /// The prefetch of a consumer that should replace the running one while `unsettled` messages are held: `Some(0)` means
    /// to stop for now. None where the running one will do.
    pub(crate) fn replacement(&self, unsettled: usize) -> Option<usize> {
        let target = self.target();
        let room = target.saturating_sub(unsettled);
        if self.count == 0 {
            return (unsettled == 0 || room >= target.div_ceil(2)).then_some(room.max(1));
        }
        let too_many = self.count > target.saturating_mul(2) || (target == 1 && self.count > 1);
        // The broker has sent all it may, and more would fit; or nothing is held, so that the whole target can be set.
        let starved = self.delivered >= self.count && room > 0 && room >= target / 4;
        let enough = if target == usize::from(self.limit.messages) { target } else { target - target / 5 };
        let idle = unsettled == 0 && self.seen >= self.count as u64 && self.count < enough;
        (too_many || starved || idle).then_some(room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// Plays a queue that always has messages of this size: the window after `rounds` of receive-all, settle-all, and the
    /// most messages that were ever held.
    fn play(window: &mut Window, bytes: usize, rounds: usize) -> usize {
        let mut most = 0;
        for _ in 0..rounds {
            let mut held = 0;
            loop {
                while let Some(count) = window.replacement(held) {
                    window.started(count);
                    if count == 0 {
                        break;
                    }
                }
                if window.delivered >= window.count {
                    break;
                }
                window.observe(bytes, 1);
                held += 1;
                most = most.max(held);
            }
            window.settled(held);
        }
        most
    }

    #[test]
    fn small_messages_get_the_whole_prefetch() {
        let mut window = Window::within(Prefetch { messages: 1000, bytes: 64 * MIB });
        assert_eq!(window.replacement(0), Some(64), "cautious at first");
        let most = play(&mut window, 1500, 4);
        assert_eq!((most, window.count), (1000, 1000));
    }

    #[test]
    fn large_messages_stay_within_the_bytes() {
        let mut window = Window::within(Prefetch { messages: 1000, bytes: 64 * MIB });
        assert_eq!(play(&mut window, MIB, 4), 64);
        let mut window = Window::within(Prefetch { messages: 1000, bytes: 64 * MIB });
        assert!(play(&mut window, 4 * MIB, 1) <= 64);
        let later = play(&mut window, 4 * MIB, 4);
        assert!((12..=16).contains(&later), "{later} after the first were seen");
    }

    #[test]
    fn it_shrinks_when_messages_grow_and_recovers() {
        let mut window = Window::within(Prefetch { messages: 1000, bytes: 10 * MIB });
        play(&mut window, 1000, 4);
        assert_eq!(window.count, 1000);
        play(&mut window, MIB, 2);
        assert!(window.count <= 20, "within a factor of two of the bytes: {window:?}");
        play(&mut window, 1000, 40);
        assert_eq!(window.count, 1000);
    }

    #[test]
    fn one_message_always_fits_and_the_count_is_a_bound() {
        let mut window = Window::within(Prefetch { messages: 100, bytes: 1 });
        assert_eq!(play(&mut window, MIB, 3), 1);
        let mut window = Window::within(Prefetch { messages: 5, bytes: MIB });
        assert_eq!(play(&mut window, 100, 5), 5);
        let mut window = Window::within(Prefetch { messages: 0, bytes: 0 });
        assert_eq!(play(&mut window, 100, 2), 1);
    }
}
