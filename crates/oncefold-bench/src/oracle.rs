//! What must hold after every run, whoever ran: each acked event is in the log with its exact bytes, and each entity has
//! the state of the highest version among the logged events.

use crate::event;
use anyhow::{Result, bail};
use std::collections::{HashMap, HashSet};

/// What a store holds.
#[derive(Debug, Default)]
pub struct Held {
    /// Event ids of applied events.
    pub events: Vec<String>,
    /// Key of each entity, the event id that it shows, and its amount.
    pub entities: Vec<(String, String, i64)>,
    /// Rows of `bodies` whose digest is their event's.
    pub bodies: i64,
    /// Rows of `changes`.
    pub changes: i64,
}

impl Held {
    /// Reads a PostgreSQL store.
    pub async fn in_postgres(url: &str) -> Result<Self> {
        let mut store = crate::services::connect(url).await?;
        let read = sqlx::query_scalar("SELECT event_id FROM events WHERE source = $1 AND status = 'applied'");
        let events = read.bind(event::SOURCE).fetch_all(&mut store).await?;
        let entities = sqlx::query_as(
            "SELECT n.key, v.event_id, (n.state ->> 'amount')::bigint FROM entities n JOIN events v ON v.id = n.event",
        );
        let entities = entities.fetch_all(&mut store).await?;
        let bodies = "SELECT count(*) FROM bodies b JOIN events e USING (id) WHERE sha256(b.body) = e.body_digest";
        let bodies = sqlx::query_scalar(bodies).fetch_one(&mut store).await?;
        let changes = sqlx::query_scalar("SELECT count(*) FROM changes").fetch_one(&mut store).await?;
        Ok(Self { events, entities, bodies, changes })
    }

    /// Reads a SQLite store.
    pub async fn in_sqlite(file: &std::path::Path) -> Result<Self> {
        let mut store = crate::embedded::reader(file).await?;
        let read = sqlx::query_scalar("SELECT event_id FROM events WHERE source = ? AND status = 'applied'");
        let events = read.bind(event::SOURCE).fetch_all(&mut store).await?;
        let entities = sqlx::query_as(
            "SELECT n.key, v.event_id, n.state ->> 'amount' FROM entities n JOIN events v ON v.id = n.event",
        );
        let entities = entities.fetch_all(&mut store).await?;
        let bodies = "SELECT count(*) FROM bodies b JOIN events e USING (id)";
        let bodies = sqlx::query_scalar(bodies).fetch_one(&mut store).await?;
        let changes = sqlx::query_scalar("SELECT count(*) FROM changes").fetch_one(&mut store).await?;
        Ok(Self { events, entities, bodies, changes })
    }

    /// Fails unless it is what these acks promise.
    pub fn check(&self, acked: impl IntoIterator<Item = u64>) -> Result<()> {
        let mut logged = HashSet::with_capacity(self.events.len());
        let mut newest: HashMap<String, u64> = HashMap::new();
        for id in &self.events {
            let n = event::number(id)?;
            if !logged.insert(n) {
                bail!("oracle: {id} is in the log twice");
            }
            let held = newest.entry(event::key(n)).or_default();
            *held = n.max(*held);
        }
        let lost: Vec<u64> = acked.into_iter().filter(|n| !logged.contains(n)).collect();
        if let Some(first) = lost.first() {
            bail!("oracle: {} acked events are not in the log, among them {}", lost.len(), event::id(*first));
        }
        let rows = i64::try_from(logged.len())?;
        if (self.bodies, self.changes) != (rows, rows) {
            bail!("oracle: {rows} events, but {} bodies and {} changes", self.bodies, self.changes);
        }
        if self.entities.len() != newest.len() {
            bail!("oracle: {} entities instead of {}", self.entities.len(), newest.len());
        }
        for (key, shown, amount) in &self.entities {
            let Some(n) = newest.get(key) else { bail!("oracle: nothing is known of the entity {key}") };
            if *shown != event::id(*n) || *amount != i64::try_from(event::amount(*n))? {
                bail!("oracle: {key} shows {shown} and {amount} instead of {}", event::id(*n));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(numbers: &[u64]) -> Held {
        let rows = i64::try_from(numbers.len()).unwrap();
        let entity = |n: &u64| (event::key(*n), event::id(*n), i64::try_from(event::amount(*n)).unwrap());
        let events = numbers.iter().map(|n| event::id(*n)).collect();
        Held { events, entities: numbers.iter().map(entity).collect(), bodies: rows, changes: rows }
    }

    #[test]
    fn what_is_right_passes_and_each_fault_is_seen() {
        held(&[1, 2, 3]).check([1, 3]).unwrap();
        held(&[1, 2]).check([1, 3]).unwrap_err();
        held(&[1, 2, 2]).check([1]).unwrap_err();
        Held { bodies: 2, ..held(&[1, 2, 3]) }.check([1]).unwrap_err();
        let mut wrong = held(&[1, 2, 3]);
        wrong.entities[1].2 += 1;
        wrong.check([1]).unwrap_err();
        // 1 and 20,001 are about one entity; the later must show.
        let mut older = held(&[1, 20_001]);
        older.entities.pop();
        older.check([1]).unwrap_err();
    }
}
