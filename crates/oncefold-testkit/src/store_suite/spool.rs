//! `SpoolStore`.

use crate::builders::{at, message};
use oncefold_core::message::Message;
use oncefold_core::store::{ClaimSpooled, SpoolStore, StoreError};
use std::collections::BTreeSet;
use std::sync::Arc;

async fn claim(spool: &dyn SpoolStore, seconds: u64, lease_s: u64, limit: u32) -> Vec<(i64, Message)> {
    let claim = ClaimSpooled { now: at(seconds), lease_until: at(seconds + lease_s), limit };
    spool.claim_spooled(claim).await.unwrap().into_iter().map(|s| (s.sequence, s.message)).collect()
}

/// Messages come back as they were, byte for byte, "oldest first", at most `limit`.
pub async fn what_is_spooled_comes_back_in_order(spool: Arc<dyn SpoolStore>) {
    let untyped = message("shop", "e1", vec![0, 0xFF, b'\n']).event_type(None).received_at(at(9)).build();
    let messages = [untyped, message("bank", "é", "").build(), message("shop", "e1", "{}").build()];
    assert_eq!(spool.spool_depth().await.unwrap(), 0);
    spool.spool(&messages.clone().map(Arc::new)).await.unwrap();
    spool.spool(&[]).await.unwrap();
    assert_eq!(spool.spool_depth().await.unwrap(), 3);
    let first: Vec<_> = claim(&*spool, 10, 5, 2).await;
    assert_eq!(first.iter().map(|(_, m)| m).collect::<Vec<_>>(), messages[..2].iter().collect::<Vec<_>>());
    let second = claim(&*spool, 10, 5, 2).await;
    assert_eq!(second.iter().map(|(_, m)| m).collect::<Vec<_>>(), messages[2..].iter().collect::<Vec<_>>());
    assert!(first[0].0 < first[1].0 && first[1].0 < second[0].0);
    assert_eq!(claim(&*spool, 14, 5, 2).await, []);
}

/// A lease that ran out gives it to somebody else; what was removed is gone.
pub async fn what_is_not_removed_comes_again(spool: Arc<dyn SpoolStore>) {
    let messages = ["a", "b", "c"].map(|id| Arc::new(message("shop", id, "{}").build()));
    spool.spool(&messages).await.unwrap();
    let taken = claim(&*spool, 0, 5, 10).await;
    spool.remove_spooled(&[taken[0].0, taken[2].0]).await.unwrap();
    spool.remove_spooled(&[taken[0].0]).await.unwrap();
    spool.remove_spooled(&[]).await.unwrap();
    assert_eq!(spool.spool_depth().await.unwrap(), 1);
    assert_eq!(claim(&*spool, 4, 5, 10).await, []);
    assert_eq!(claim(&*spool, 5, 5, 10).await, taken[1..2]);
}

/// "Those that were never taken first, then those whose lease ran out first": what cannot be sent keeps nothing back.
pub async fn what_keeps_failing_keeps_nothing_back(spool: Arc<dyn SpoolStore>) {
    let messages = ["a", "b", "c", "d", "e"].map(|id| Arc::new(message("shop", id, "{}").build()));
    spool.spool(&messages).await.unwrap();
    let mut taken = vec![];
    for seconds in [0, 10, 20, 30] {
        let claimed = claim(&*spool, seconds, 5, 2).await;
        taken.push(claimed.iter().map(|(_, m)| m.event_id.clone()).collect::<Vec<_>>().concat());
    }
    assert_eq!(taken, ["ab", "cd", "ae", "bc"]);
}

/// Relays that run at once take other rows.
pub async fn claims_at_once_take_other_rows(spool: Arc<dyn SpoolStore>) {
    let messages: Vec<_> = (0..200).map(|n| Arc::new(message("shop", &format!("e{n}"), "{}").build())).collect();
    spool.spool(&messages).await.unwrap();
    let takers = (0..4).map(|_| {
        let spool = Arc::clone(&spool);
        tokio::spawn(async move {
            let mut taken = vec![];
            for _ in 0..20 {
                let claim = ClaimSpooled { now: at(0), lease_until: at(60), limit: 7 };
                match spool.claim_spooled(claim).await {
                    Err(StoreError::Conflict(_)) => {}
                    rows => taken.extend(rows.unwrap().into_iter().map(|row| row.sequence)),
                }
            }
            taken
        })
    });
    let mut taken = vec![];
    for taker in takers.collect::<Vec<_>>() {
        taken.extend(taker.await.unwrap());
    }
    taken.extend(claim(&*spool, 0, 60, 500).await.into_iter().map(|(sequence, _)| sequence));
    assert_eq!((taken.len(), taken.iter().collect::<BTreeSet<_>>().len()), (200, 200));
}
