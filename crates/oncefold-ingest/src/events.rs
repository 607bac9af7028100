//! The events of a verified delivery: one, or one for each item or element. Each travels with its exact bytes.

use crate::answer::Refusal;
use crate::body::reserve;
use crate::delivery::Delivery;
use crate::inflate::{Encoding, Inflated, gunzip};
use crate::intake::Kept;
use crate::settings::SourceKeys;
use bytes::Bytes;
use futures_util::future::join_all;
use oncefold_core::locator::Document;
use oncefold_core::model::BodyFormat;
use oncefold_core::{Digest, EventUuid, Facts, FactsJson, Message, json, prepare};
use oncefold_signature::Verified;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// Most events of one delivery; what would be more is kept as one event, for a person to look at.
const EVENTS_MAX: usize = 1_000;

/// An event that is durable, and where.
pub(crate) type KeptEvent = (Arc<Message>, Kept);

impl Delivery {
    /// Makes every event of the delivery durable: all of them, or the delivery is refused and comes again.
    pub(crate) async fn keep(
        &self,
        keys: &SourceKeys,
        items: Vec<(&[u8], Verified)>,
    ) -> Result<Vec<KeptEvent>, Refusal> {
        let (messages, _share) = self.messages(keys, items)?;
        if let [message] = messages.as_slice() {
            let kept = self.tally.intake.keep(message).await?;
            return Ok(messages.into_iter().zip([kept]).collect());
        }
        let kept = join_all(messages.iter().map(|message| self.tally.intake.keep(message))).await;
        messages.into_iter().zip(kept).map(|(message, kept)| kept.map(|kept| (message, kept))).collect()
    }

    /// The events, and what their inflated bytes hold of what may be in hand.
    fn messages(
        &self,
        keys: &SourceKeys,
        items: Vec<(&[u8], Verified)>,
    ) -> Result<(Vec<Arc<Message>>, Option<OwnedSemaphorePermit>), Refusal> {
        let settings = &self.source.settings;
        let (query, token) = (self.query(), self.path_token.as_deref());
        let recorded = self.source.recorder.record(&self.parts.headers, query, token);
        let mut facts = Facts {
            trace_id: self.tally.trace().to_owned(),
            content_type: recorded.content_type,
            headers: recorded.headers,
            query: recorded.query,
            scheme: keys.scheme_name.clone(),
            secret_index: None,
        };
        let (inflated, share) = self.inflated()?;
        let mut messages = vec![];
        for (item, verified) in items {
            let body = match &inflated {
                Some(inflated) => inflated.clone(),
                None => self.body.bytes.slice_ref(item),
            };
            let body = match settings.model.format {
                BodyFormat::Query if body.is_empty() => Bytes::copy_from_slice(facts.query.as_bytes()),
                _ => body,
            };
            facts.secret_index = verified.secret_index;
            let encoded = FactsJson::encode(&facts);
            let events = split(settings.split.as_deref(), &body);
            messages.extend(events.into_iter().map(|body| Arc::new(self.message(&facts, encoded.clone(), body))));
        }
        Ok((messages, share))
    }

    /// The inflated body and its share of what may be in hand, where it is compressed. What cannot be inflated is kept as
    /// it came: it verified.
    fn inflated(&self) -> Result<(Option<Bytes>, Option<OwnedSemaphorePermit>), Refusal> {
        if Encoding::of(&self.parts.headers) != Encoding::Gzip {
            return Ok((None, None));
        }
        let limits = &self.tally.intake.body_limits;
        match gunzip(&self.body.bytes, limits.max_body) {
            Inflated::Whole(body) => {
                let share = reserve(limits, body.len())?;
                Ok((Some(body), Some(share)))
            }
            Inflated::Broken => Ok((None, None)),
            Inflated::TooLong => Err(Refusal::TooLarge(limits.max_body)),
        }
    }

    /// The event as it travels. What its id and type cannot be read from is not refused: a worker parks it.
    fn message(&self, facts: &Facts, encoded: FactsJson, body: Bytes) -> Message {
        let source = &self.source.settings.model;
        let parts = self.source.identity.as_ref();
        let parsed = parts.and_then(|parts| prepare::read(source.format, &body, parts).ok());
        let document = Document { json: parsed.as_ref(), headers: &facts.headers, query: &facts.query };
        let digest = Digest::of(&body);
        let identity = prepare::identify(source, &document, &digest, self.received_at);
        Message {
            id: EventUuid::generate(self.received_at, self.tally.intake.entropy.as_ref()),
            source: source.name.clone(),
            event_id: identity.event_id.unwrap_or_else(|_| Message::fallback_event_id(&digest)),
            event_type: identity.event_type.ok(),
            received_at: self.received_at,
            generation: 0,
            attempts: 0,
            digest,
            facts: encoded,
            body,
        }
    }
}

/// The elements of the array there; the whole where there is none, or too many.
fn split(pointer: Option<&[String]>, body: &Bytes) -> Vec<Bytes> {
    let elements = pointer.and_then(|tokens| json::elements(body, tokens)).filter(|all| all.len() <= EVENTS_MAX);
    match elements {
        Some(elements) => elements.into_iter().map(|element| body.slice_ref(element)).collect(),
        None => vec![body.clone()],
    }
}
