use super::{Event, FakeStore};
use async_trait::async_trait;
use oncefold_core::store::{
    AttemptRecord, DeadLetterGroup, EntityFilter, EntityRecord, EventFilter, EventRecord, HistoryRecord, ReadStore,
    SourceRecord, StoreError, StoredBody,
};
use oncefold_core::{EventStatus, EventUuid};
use std::collections::BTreeMap;

fn matches(filter: &EventFilter, event: &Event) -> bool {
    let record = &event.record;
    let is = |wanted: &Option<String>, have: Option<&str>| wanted.as_deref().is_none_or(|wanted| have == Some(wanted));
    let concerns = filter.entity.is_none() && filter.key.is_none()
        || record
            .changes
            .iter()
            .any(|change| is(&filter.entity, Some(change.entity.as_str())) && is(&filter.key, Some(&change.key)));
    concerns
        && is(&filter.source, Some(record.source.as_str()))
        && is(&filter.event_type, record.event_type.as_deref())
        && is(&filter.event_id, Some(&record.event_id))
        && is(&filter.reason, record.error.as_ref().map(|(reason, _)| reason.as_str()))
        && filter.status.is_none_or(|status| status == record.status)
        && filter.since.is_none_or(|since| record.received_at >= since)
        && filter.until.is_none_or(|until| record.received_at < until)
        && filter.before.is_none_or(|before| record.id < before)
}

#[async_trait]
impl ReadStore for FakeStore {
    async fn events(&self, filter: &EventFilter) -> Result<Vec<EventRecord>, StoreError> {
        self.call("events", |state| {
            let found = state.events.values().rev().filter(|event| matches(filter, event));
            Ok(found.take(filter.limit as usize).map(|event| event.record.clone()).collect())
        })
    }

    async fn event(&self, id: EventUuid) -> Result<Option<EventRecord>, StoreError> {
        self.call("event", |state| Ok(state.events.get(&id).map(|event| event.record.clone())))
    }

    async fn attempts(&self, id: EventUuid) -> Result<Vec<AttemptRecord>, StoreError> {
        self.call("attempts", |state| Ok(state.events.get(&id).map(|e| e.attempts.clone()).unwrap_or_default()))
    }

    async fn body(&self, id: EventUuid) -> Result<Option<StoredBody>, StoreError> {
        self.call("body", |state| {
            let event = state.events.get(&id);
            let content_type = event.and_then(|event| event.record.facts.content_type.clone());
            Ok(event.and_then(|event| event.body.clone()).map(|body| StoredBody { body, content_type }))
        })
    }

    async fn dead_letter_groups(&self) -> Result<Vec<DeadLetterGroup>, StoreError> {
        self.call("dead_letter_groups", |state| {
            let mut groups: BTreeMap<_, DeadLetterGroup> = BTreeMap::new();
            for event in state.events.values().filter(|event| event.record.status == EventStatus::Dead) {
                let record = &event.record;
                let reason = record.error.as_ref().map(|(reason, _)| reason.clone()).unwrap_or_default();
                let group = groups
                    .entry((record.source.clone(), record.event_type.clone(), reason.clone()))
                    .or_insert_with(|| DeadLetterGroup {
                        source: record.source.clone(),
                        event_type: record.event_type.clone(),
                        reason,
                        count: 0,
                        oldest: record.received_at,
                        newest: record.received_at,
                        example: record.id,
                    });
                group.count += 1;
                group.oldest = group.oldest.min(record.received_at);
                if record.received_at >= group.newest {
                    (group.newest, group.example) = (record.received_at, record.id);
                }
            }
            let mut groups: Vec<_> = groups.into_values().collect();
            groups.sort_by_key(|group| std::cmp::Reverse(group.count));
            Ok(groups)
        })
    }

    async fn entities(&self, filter: &EntityFilter) -> Result<Vec<EntityRecord>, StoreError> {
        self.call("entities", |state| {
            let found = state.entities.iter().filter(|(at, entity)| {
                filter.entity.as_ref().is_none_or(|kind| at.0 == *kind)
                    && filter.key_prefix.as_ref().is_none_or(|prefix| at.1.starts_with(prefix))
                    && filter.deleted.is_none_or(|deleted| entity.record.deleted == deleted)
                    && filter.after.as_ref().is_none_or(|after| *at > after)
            });
            Ok(found.take(filter.limit as usize).map(|(_, entity)| entity.record.clone()).collect())
        })
    }

    async fn entity(&self, entity: &str, key: &str) -> Result<Option<EntityRecord>, StoreError> {
        self.call("entity", |state| {
            Ok(state.entities.get(&(entity.to_owned(), key.to_owned())).map(|entity| entity.record.clone()))
        })
    }

    async fn history(
        &self,
        entity: &str,
        key: &str,
        before: Option<EventUuid>,
        limit: u32,
    ) -> Result<Vec<HistoryRecord>, StoreError> {
        self.call("history", |state| {
            let of_entity = state.history.iter().filter(|((e, k), _)| e == entity && k == key);
            let mut found: Vec<HistoryRecord> = of_entity.map(|(_, record)| record.clone()).collect();
            found.retain(|record| before.is_none_or(|before| record.event < before));
            found.sort_by_key(|record| std::cmp::Reverse((record.event, record.at)));
            // The cursor is an event: a page does not end amid the changes of one.
            let last = found.get((limit as usize).saturating_sub(1)).map(|record| record.event);
            found.retain(|record| last.is_none_or(|last| record.event >= last));
            Ok(found)
        })
    }

    async fn sources(&self) -> Result<Vec<SourceRecord>, StoreError> {
        self.call("sources", |state| {
            let known = state.sources.iter();
            Ok(known.map(|(name, at)| SourceRecord { name: name.clone(), first_seen_at: *at }).collect())
        })
    }
}
