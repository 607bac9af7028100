//! What happened, beside what must have happened.

use super::deliver::Answers;
use super::traffic::{Expected, Kind, Traffic};
use crate::output::table;
use oncefold_core::store::{EntityFilter, EntityRecord, EventFilter, EventRecord, Store};
use oncefold_core::{EventStatus, Verdict, limits};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long the workers may take to catch up.
const SETTLE_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);
const SHOWN_ENTITIES: usize = 12;

/// What was seen.
#[derive(Debug)]
pub struct Report {
    sent: Vec<Kind>,
    answers: Answers,
    expected: Expected,
    events: Vec<EventRecord>,
    entities: BTreeMap<(String, String), EntityRecord>,
}

/// Waits until every accepted event has a verdict, then reads the log and the entities.
///
/// # Errors
/// When the store fails.
pub async fn observe(store: &dyn Store, traffic: &Traffic, answers: Answers) -> anyhow::Result<Report> {
    let deliveries = traffic.deliveries.iter().filter(|d| d.kind != Kind::Forged).count() as u64;
    let deadline = tokio::time::Instant::now() + SETTLE_MAX;
    let mut events = all_events(store).await?;
    while !caught_up(&events, deliveries) && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(POLL).await;
        events = all_events(store).await?;
    }
    let entities = all_entities(store).await?;
    let sent = traffic.deliveries.iter().map(|d| d.kind).collect();
    Ok(Report { sent, answers, expected: traffic.expected.clone(), events, entities })
}

/// Every delivery is counted, and nothing is on its way.
fn caught_up(events: &[EventRecord], deliveries: u64) -> bool {
    events.iter().map(|e| e.deliveries).sum::<u64>() >= deliveries
        && events.iter().all(|e| e.status.is_settled() || e.status == EventStatus::Dead)
}

async fn all_events(store: &dyn Store) -> anyhow::Result<Vec<EventRecord>> {
    let mut filter = EventFilter { limit: limits::PAGE_MAX, ..EventFilter::default() };
    let mut all = vec![];
    loop {
        let page = store.events(&filter).await?;
        let Some(last) = page.last() else { return Ok(all) };
        filter.before = Some(last.id);
        all.extend(page);
    }
}

async fn all_entities(store: &dyn Store) -> anyhow::Result<BTreeMap<(String, String), EntityRecord>> {
    let mut filter = EntityFilter { limit: limits::PAGE_MAX, ..EntityFilter::default() };
    let mut all = BTreeMap::new();
    loop {
        let page = store.entities(&filter).await?;
        let Some(last) = page.last() else { return Ok(all) };
        filter.after = Some((last.entity.to_string(), last.key.clone()));
        all.extend(page.into_iter().map(|e| ((e.entity.to_string(), e.key.clone()), e)));
    }
}

impl Report {
    /// Whether everything is as it must be.
    pub fn holds(&self) -> bool {
        self.answers.unexpected == 0 && self.rows().iter().all(|(_, expected, seen)| expected == seen)
    }

    /// The tables.
    pub fn render(&self) -> String {
        let rows = self.rows().into_iter().map(|(what, expected, seen)| {
            let mark = if expected == seen { "ok" } else { "DIFFERS" };
            vec![what.to_owned(), expected.to_string(), seen.to_string(), mark.to_owned()]
        });
        let mut rows: Vec<_> = rows.collect();
        let verdicts = Verdict::ALL.map(|v| (v, self.verdicts(v)));
        for (verdict, count) in verdicts.into_iter().filter(|(v, _)| *v != Verdict::Applied) {
            rows.push(vec![format!("  changes judged {verdict}"), "any".to_owned(), count.to_string(), String::new()]);
        }
        let summary = table(&["", "expected", "seen", ""], &rows);
        format!("{summary}\n\n{}", self.entities_table())
    }

    fn rows(&self) -> Vec<(&'static str, usize, usize)> {
        let forged = self.sent.iter().filter(|k| **k == Kind::Forged).count();
        let verified = self.sent.len() - forged;
        let distinct = self.expected.events + self.expected.parked;
        let repeats: u64 = self.events.iter().map(|e| e.deliveries.saturating_sub(1)).sum();
        let in_status = |status| self.events.iter().filter(|e| e.status == status).count();
        let judged: usize = Verdict::ALL.iter().map(|v| self.verdicts(*v)).sum();
        vec![
            ("deliveries sent", self.sent.len(), self.answers.sent),
            ("accepted (2xx)", verified, self.answers.accepted),
            ("rejected (401)", forged, self.answers.rejected),
            ("events in the log", distinct, self.events.len()),
            ("duplicates", verified - distinct, usize::try_from(repeats).unwrap_or(usize::MAX)),
            ("applied", self.expected.events, in_status(EventStatus::Applied)),
            ("parked (dead letters)", self.expected.parked, in_status(EventStatus::Dead)),
            ("changes judged once each", self.expected.events, judged),
            ("entities as expected", self.expected.entities.len(), self.matching()),
            ("entities in all", self.expected.entities.len(), self.entities.len()),
        ]
    }

    fn verdicts(&self, verdict: Verdict) -> usize {
        self.events.iter().flat_map(|e| &e.changes).filter(|c| c.verdict == verdict).count()
    }

    fn matching(&self) -> usize {
        let as_expected =
            |(key, state): (&(&'static str, String), &Option<Value>)| self.folded(key) == Some(state.clone());
        self.expected.entities.iter().filter(|e| as_expected(*e)).count()
    }

    /// The folded state of an entity; `Some(None)` where it is deleted, `None` where there is none.
    fn folded(&self, key: &(&'static str, String)) -> Option<Option<Value>> {
        let record = self.entities.get(&(key.0.to_owned(), key.1.clone()))?;
        Some(record.state.as_deref().and_then(|text| oncefold_core::json::parse_stored(text).ok()))
    }

    fn entities_table(&self) -> String {
        let shown = |state: Option<&Value>| state.map_or_else(|| "(deleted)".to_owned(), Value::to_string);
        let orders = self.expected.entities.iter().filter(|((entity, _), _)| *entity == "order");
        let rows = orders.take(SHOWN_ENTITIES).map(|(key, expected)| {
            let folded = self.folded(key);
            let mark = if folded.as_ref() == Some(expected) { "ok" } else { "DIFFERS" };
            let folded = folded.map_or_else(|| "(missing)".to_owned(), |state| shown(state.as_ref()));
            vec![key.1.clone(), shown(expected.as_ref()), folded, mark.to_owned()]
        });
        let head = table(&["order", "expected", "folded", ""], &rows.collect::<Vec<_>>());
        let orders = self.expected.entities.keys().filter(|(entity, _)| *entity == "order").count();
        format!("{head}\n… {SHOWN_ENTITIES} of {orders} orders; all of them and the payments are compared above")
    }
}
