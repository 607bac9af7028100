//! Which acks and rejects settle a set of messages.

use oncefold_core::queue::{Settlement, Tag};
use std::collections::BTreeMap;

/// One frame to the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Acks every unsettled message up to this one.
    AckThrough(u64),
    /// Acks this one.
    Ack(u64),
    /// Rejects this one, without putting it back.
    Reject(u64),
}

/// The steps that settle these of the `unsettled` tags (those received and not settled before, with anything beside
/// them), and no other. Tags that are not unsettled are left out: the broker would close the channel over them.
///
/// `AckThrough` covers all below it, so it may only be used while no lower tag is left open or still to be rejected.
pub(crate) fn plan<V>(unsettled: &BTreeMap<u64, V>, settlements: &[(Tag, Settlement)]) -> Vec<Step> {
    let fates: BTreeMap<u64, Settlement> = settlements.iter().map(|(tag, settlement)| (tag.0, *settlement)).collect();
    let Some((&last, _)) = fates.last_key_value() else { return Vec::new() };
    let mut steps = Vec::new();
    let mut open_below = false;
    for &tag in unsettled.range(..=last).map(|(tag, _)| tag) {
        match (fates.get(&tag), steps.last_mut()) {
            (None, _) => open_below = true,
            (Some(Settlement::Reject), _) => steps.push(Step::Reject(tag)),
            (Some(Settlement::Ack), _) if open_below => steps.push(Step::Ack(tag)),
            (Some(Settlement::Ack), Some(Step::AckThrough(through))) => *through = tag,
            (Some(Settlement::Ack), _) => steps.push(Step::AckThrough(tag)),
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn settlements(fates: &str) -> Vec<(Tag, Settlement)> {
        (1..)
            .zip(fates.chars())
            .filter_map(|(tag, fate)| match fate {
                'a' => Some((Tag(tag), Settlement::Ack)),
                'r' => Some((Tag(tag), Settlement::Reject)),
                _ => None,
            })
            .collect()
    }

    fn all(count: u64) -> BTreeMap<u64, ()> {
        (1..=count).map(|tag| (tag, ())).collect()
    }

    #[test]
    fn one_frame_for_a_batch_that_went_well() {
        assert_eq!(plan(&all(9), &settlements("aaaaa")), [Step::AckThrough(5)]);
    }

    #[test]
    fn rejects_part_the_runs_and_what_is_open_ends_them() {
        assert_eq!(
            plan(&all(9), &settlements("aaraa.ar")),
            [Step::AckThrough(2), Step::Reject(3), Step::AckThrough(5), Step::Ack(7), Step::Reject(8)]
        );
    }

    #[test]
    fn foreign_and_settled_tags_are_left_out() {
        let mut unsettled = all(3);
        unsettled.remove(&2);
        assert_eq!(plan(&unsettled, &settlements("aaaa")), [Step::AckThrough(3)]);
        assert_eq!(plan(&unsettled, &settlements(".a")), []);
        assert_eq!(plan(&unsettled, &[]), []);
    }

    /// Plays the steps as the broker does, for every way to settle up to six messages of which some were settled before.
    #[test]
    fn every_message_gets_its_own_fate() {
        for count in 1..=6u32 {
            for case in 0..4u32.pow(count) {
                let fates: String =
                    (0..count).map(|n| [".", "a", "r", "x"][(case / 4u32.pow(n) % 4) as usize]).collect();
                let gone: BTreeSet<u64> = (1..).zip(fates.chars()).filter(|(_, f)| *f == 'x').map(|(t, _)| t).collect();
                let unsettled: BTreeMap<u64, ()> =
                    all(count.into()).into_iter().filter(|(t, ())| !gone.contains(t)).collect();
                let mut at_broker: BTreeSet<u64> = unsettled.keys().copied().collect();
                let mut seen = vec!['.'; count as usize];
                for step in plan(&unsettled, &settlements(&fates)) {
                    let (covered, fate): (Vec<u64>, char) = match step {
                        Step::AckThrough(tag) => (at_broker.range(..=tag).copied().collect(), 'a'),
                        Step::Ack(tag) => (vec![tag], 'a'),
                        Step::Reject(tag) => (vec![tag], 'r'),
                    };
                    for tag in covered {
                        assert!(at_broker.remove(&tag), "{fates}: {tag} was not unsettled");
                        seen[tag as usize - 1] = fate;
                    }
                }
                assert_eq!(seen.into_iter().collect::<String>(), fates.replace('x', "."));
            }
        }
    }
}
