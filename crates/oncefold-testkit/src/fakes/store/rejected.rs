use super::FakeStore;
use async_trait::async_trait;
use oncefold_core::limits::REJECTED_ROWS_MAX;
use oncefold_core::store::{RejectedDelivery, RejectedRecord, RejectedStore, StoreError};

#[async_trait]
impl RejectedStore for FakeStore {
    async fn record_rejected(&self, deliveries: &[RejectedDelivery]) -> Result<(), StoreError> {
        self.call("record_rejected", |state| {
            for delivery in deliveries {
                state.next_sequence += 1;
                state.rejected.push(RejectedRecord { sequence: state.next_sequence, delivery: delivery.clone() });
                let of_source = |record: &RejectedRecord| record.delivery.source == delivery.source;
                if state.rejected.iter().filter(|record| of_source(record)).count() > REJECTED_ROWS_MAX as usize
                    && let Some(oldest) = state.rejected.iter().position(of_source)
                {
                    state.rejected.remove(oldest);
                }
            }
            Ok(())
        })
    }

    async fn rejected(
        &self,
        source: Option<&str>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<RejectedRecord>, StoreError> {
        self.call("rejected", |state| {
            let found = state.rejected.iter().rev().filter(|record| {
                source.is_none_or(|source| record.delivery.source.as_str() == source)
                    && before.is_none_or(|before| record.sequence < before)
            });
            Ok(found.take(limit as usize).cloned().collect())
        })
    }
}
