use super::before_or_all;
use crate::error::store_error;
use oncefold_core::event::EventStatus;
use oncefold_core::store::{EventFilter, StoreError};
use oncefold_core::time::Timestamp;
use sqlx::SqliteConnection;

/// One filter, over candidates that are found in another way.
macro_rules! filtered {
    ($conn:expr, $filter:expr, $candidates:literal) => {{
        let EventFilter { source, event_type, reason, entity, key, event_id, .. } = $filter;
        let status = $filter.status.map(EventStatus::as_str);
        let (since, until) = ($filter.since.map(Timestamp::as_micros), $filter.until.map(Timestamp::as_micros));
        let (before, limit) = (before_or_all($filter.before), i64::from($filter.limit));
        sqlx::query_scalar!(
            r#"SELECT e.id AS "id!: Vec<u8>" FROM "# + $candidates
                + r#" WHERE e.id < ?10
                  AND (?1 IS NULL OR e.source = ?1)
                  AND (?2 IS NULL OR e.type = ?2)
                  AND (?3 IS NULL OR e.status = ?3)
                  AND (?4 IS NULL OR (e.status IN ('dead', 'retrying') AND e.reason = ?4))
                  AND ((?5 IS NULL AND ?6 IS NULL)
                       OR EXISTS (SELECT 1 FROM changes c
                                  WHERE c.event = e.id AND (?5 IS NULL OR c.entity = ?5) AND (?6 IS NULL OR c.key = ?6)))
                  AND (?7 IS NULL OR e.event_id = ?7)
                  AND (?8 IS NULL OR e.received_at_us >= ?8)
                  AND (?9 IS NULL OR e.received_at_us < ?9)
                  ORDER BY e.id DESC LIMIT ?11"#,
            source,
            event_type,
            status,
            reason,
            entity,
            key,
            event_id,
            since,
            until,
            before,
            limit
        )
        .fetch_all($conn)
        .await
        .map_err(store_error)
    }};
}

/// Ids of the events of a page, newest first. Candidates come from the narrowest index that the filter allows.
pub(super) async fn matching(conn: &mut SqliteConnection, filter: &EventFilter) -> Result<Vec<Vec<u8>>, StoreError> {
    let parked = [EventStatus::Dead, EventStatus::Retrying, EventStatus::Queued];
    if filter.event_id.is_some() {
        filtered!(
            conn,
            filter,
            "(WITH RECURSIVE s (name) AS (
                  SELECT min(source) FROM events
                  UNION ALL
                  SELECT (SELECT min(source) FROM events WHERE source > s.name) FROM s WHERE s.name IS NOT NULL)
              SELECT name FROM s WHERE name IS NOT NULL) s
             CROSS JOIN events e ON e.source = s.name AND e.event_id = ?7"
        )
    } else if filter.reason.is_some() || filter.status.is_some_and(|status| parked.contains(&status)) {
        filtered!(
            conn,
            filter,
            "(SELECT * FROM events INDEXED BY events_parked WHERE status IN ('dead', 'retrying', 'queued')) e"
        )
    } else if filter.entity.is_some() && filter.key.is_some() {
        filtered!(
            conn,
            filter,
            "(SELECT DISTINCT event FROM changes WHERE entity = ?5 AND key = ?6) of_entity
             CROSS JOIN events e ON e.id = of_entity.event"
        )
    } else {
        filtered!(conn, filter, "events e")
    }
}
