//! `ApplyStore`: claims, repeats, variants, generations, verdicts.

use super::support::{apply_one, event};
use crate::builders::{applies, at, change, message};
use oncefold_core::change::Verdict;
use oncefold_core::event::EventStatus;
use oncefold_core::store::{Settled, Store};
use std::sync::Arc;

/// "`generation == 0` and no event `(source, event_id)`: recorded with the plan's verdict."
pub async fn a_new_event_is_recorded_with_its_verdict(store: Arc<dyn Store>) {
    let first = message("shop", "e1", "{}").build();
    let outcome = apply_one(&*store, at(1), &first, applies(vec![change("o1", 1).build()])).await;
    assert_eq!(
        (outcome.settled, outcome.variant, &outcome.verdicts[..]),
        (Settled::Applied, false, &[Verdict::Applied][..])
    );
    let record = event(&*store, first.id).await;
    assert_eq!((record.status, record.deliveries, record.attempts), (EventStatus::Applied, 1, 1));
}
