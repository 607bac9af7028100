//! What a batch means for the event log, worked out on rows in memory in the order of its items.

use super::events::Claimed;
use super::row::Row;
use oncefold_core::event::EventStatus;
use oncefold_core::id::{EventUuid, SourceName};
use oncefold_core::message::Message;
use oncefold_core::store::{ApplyBatch, Settled, StoreError, variant_event_id};
use std::collections::HashMap;

/// A verdict that was given to an item.
#[derive(Debug)]
pub(super) struct Given {
    /// The item's position in the batch.
    pub item: usize,
    /// The attempt's number.
    pub attempt: u32,
    /// Where the event stood after it.
    pub status: EventStatus,
    /// Why it failed, if it did.
    pub error: Option<(String, String)>,
}

/// A row that is to be inserted, and whose bytes it has.
#[derive(Debug)]
pub(super) struct Fresh {
    pub row: Row,
    /// The item's position in the batch.
    pub item: usize,
}

/// A first delivery with its repeats in the batch, as they are if no row is there yet.
struct Hope {
    fresh: Fresh,
    played: Vec<(usize, Settled)>,
    given: Given,
}

/// A row that was there before.
#[derive(Debug)]
pub(super) struct Stored {
    pub row: Row,
    was_settled: bool,
    changed: bool,
}

#[derive(Clone, Copy)]
enum Place {
    Stored(usize),
    Fresh(usize),
}

/// The state of play.
pub(super) struct Play<'a> {
    batch: &'a ApplyBatch,
    hopes: Vec<Hope>,
    /// For each item: where it stands, and whether it is a variant.
    pub outcomes: Vec<Option<(Settled, bool)>>,
    /// Verdicts, in the order they were given.
    pub given: Vec<Given>,
    /// Rows that were inserted, or are to be.
    pub fresh: Vec<Fresh>,
    stored: Vec<Stored>,
    by_id: HashMap<EventUuid, Place>,
    by_name: HashMap<(SourceName, String), Place>,
}

impl<'a> Play<'a> {
    /// Works out what becomes of first deliveries if none of them was seen before.
    pub fn begin(batch: &'a ApplyBatch) -> Self {
        let mut hopes: Vec<Hope> = vec![];
        let mut by_name: HashMap<(&SourceName, &str), usize> = HashMap::with_capacity(batch.items.len());
        for (at, item) in batch.items.iter().enumerate().filter(|(_, item)| item.message.generation == 0) {
            let message = &item.message;
            if let Some(first) = by_name.get(&(&message.source, message.event_id.as_str())) {
                let hope = &mut hopes[*first];
                if hope.fresh.row.digest == message.digest {
                    hope.played.push((at, hope.fresh.row.take_delivery(message.id, batch.now)));
                }
                continue;
            }
            by_name.insert((&message.source, &message.event_id), hopes.len());
            let (row, settled) = Row::recorded(message, message.event_id.clone(), &item.prepared, batch.now);
            let given = given(at, &row);
            hopes.push(Hope { fresh: Fresh { row, item: at }, played: vec![(at, settled)], given });
        }
        Self {
            batch,
            hopes,
            outcomes: vec![None; batch.items.len()],
            given: vec![],
            fresh: vec![],
            stored: vec![],
            by_id: HashMap::new(),
            by_name: HashMap::new(),
        }
    }

    /// The rows to try to insert.
    pub fn hoped(&self) -> Vec<&Row> {
        self.hopes.iter().map(|hope| &hope.fresh.row).collect()
    }

    /// Settles the items whose rows were inserted.
    pub fn claimed(&mut self, claimed: &Claimed) {
        for hope in std::mem::take(&mut self.hopes) {
            if claimed.has(hope.fresh.row.id) {
                for (item, settled) in hope.played {
                    self.outcomes[item] = Some((settled, false));
                }
                self.given.push(hope.given);
                self.fresh.push(hope.fresh);
            }
        }
    }

    /// Messages of items that are not settled yet.
    pub fn rest(&self) -> impl Iterator<Item = &'a Message> + use<'a, '_> {
        let messages = self.batch.items.iter().map(|item| &*item.message);
        messages.zip(&self.outcomes).filter(|(_, outcome)| outcome.is_none()).map(|(message, _)| message)
    }

    /// Settles the rest by the rows that are there. Returns how many of `fresh` were inserted before: those behind are
    /// variants, to be inserted now.
    ///
    /// # Errors
    /// Where a row that kept an event from being inserted is gone again: retention was faster.
    pub fn settle_rest(&mut self, rows: Vec<Row>) -> Result<usize, StoreError> {
        let inserted = self.fresh.len();
        for row in rows {
            let place = Place::Stored(self.stored.len());
            self.by_id.insert(row.id, place);
            self.by_name.insert((row.source.clone(), row.event_id.clone()), place);
            self.stored.push(Stored { was_settled: row.status.is_settled(), changed: false, row });
        }
        for item in 0..self.batch.items.len() {
            if self.outcomes[item].is_none() {
                self.outcomes[item] = Some(self.settle(item)?);
            }
        }
        Ok(inserted)
    }

    /// Rows that were there and are no longer as they were.
    pub fn changed(&self) -> Vec<&Row> {
        self.stored.iter().filter(|stored| stored.changed).map(|stored| &stored.row).collect()
    }

    /// Events whose held bytes are to be moved: they settled in this batch.
    pub fn newly_settled(&self) -> Vec<EventUuid> {
        let settled = self.stored.iter().filter(|stored| !stored.was_settled && stored.row.status.is_settled());
        settled.map(|stored| stored.row.id).collect()
    }

    fn settle(&mut self, item: usize) -> Result<(Settled, bool), StoreError> {
        let batch = self.batch;
        let message = &*batch.items[item].message;
        if message.generation > 0 {
            return Ok((self.settle_sent_again(item), false));
        }
        if let Some(place) = self.by_id.get(&message.id) {
            return Ok((Settled::Late, self.row(*place).event_id != message.event_id));
        }
        let name = (message.source.clone(), message.event_id.clone());
        let Some(place) = self.by_name.get(&name).copied() else {
            return Err(StoreError::Conflict("retention removed an event while it came again".into()));
        };
        if self.row(place).digest == message.digest {
            return Ok((self.take_delivery(place, message.id), false));
        }
        let variant = (message.source.clone(), variant_event_id(&message.event_id, &message.digest));
        if let Some(place) = self.by_name.get(&variant).copied() {
            return Ok((self.take_delivery(place, message.id), true));
        }
        let (row, settled) = Row::recorded(message, variant.1.clone(), &batch.items[item].prepared, batch.now);
        let place = Place::Fresh(self.fresh.len());
        self.by_id.insert(row.id, place);
        self.by_name.insert(variant, place);
        self.given.push(given(item, &row));
        self.fresh.push(Fresh { row, item });
        Ok((settled, true))
    }

    fn settle_sent_again(&mut self, item: usize) -> Settled {
        let ApplyBatch { now, items, .. } = self.batch;
        let message = &items[item].message;
        let Some(Place::Stored(at)) = self.by_id.get(&message.id).copied() else { return Settled::Late };
        let stored = &mut self.stored[at];
        if stored.row.status != EventStatus::Queued || stored.row.generation != message.generation {
            return Settled::Late;
        }
        let settled = stored.row.take_verdict(&items[item].prepared, *now);
        stored.changed = true;
        self.given.push(given(item, &stored.row));
        settled
    }

    fn take_delivery(&mut self, place: Place, id: EventUuid) -> Settled {
        let now = self.batch.now;
        match place {
            Place::Fresh(at) => self.fresh[at].row.take_delivery(id, now),
            Place::Stored(at) => {
                let stored = &mut self.stored[at];
                let settled = stored.row.take_delivery(id, now);
                stored.changed |= settled != Settled::Late;
                settled
            }
        }
    }

    fn row(&self, place: Place) -> &Row {
        match place {
            Place::Stored(at) => &self.stored[at].row,
            Place::Fresh(at) => &self.fresh[at].row,
        }
    }
}

fn given(item: usize, row: &Row) -> Given {
    Given { item, attempt: row.attempts, status: row.status, error: row.error.clone() }
}
