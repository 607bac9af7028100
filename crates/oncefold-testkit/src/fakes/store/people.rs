use super::{FakeStore, KeptAnswer};
use async_trait::async_trait;
use oncefold_core::EventStatus;
use oncefold_core::limits::IDEMPOTENT_ANSWER_MAX;
use oncefold_core::store::{ActStore, Answer, Discard, Idempotency, Refusal, Replay, StoreError, audit_text};

#[async_trait]
impl ActStore for FakeStore {
    async fn replay(&self, replay: &Replay) -> Result<Result<(), Refusal>, StoreError> {
        self.call("replay", |state| {
            let Some(event) = state.events.get_mut(&replay.id) else { return Ok(Err(Refusal::NotFound)) };
            if !event.record.status.takes_replay() {
                return Ok(Err(Refusal::WrongStatus(event.record.status)));
            }
            if event.body.is_none() {
                return Ok(Err(Refusal::BodyGone));
            }
            event.put_back(replay.now);
            state.audit.push(format!("{} replays {}", audit_text(&replay.actor.0), replay.id));
            Ok(Ok(()))
        })
    }

    async fn discard(&self, discard: &Discard) -> Result<Result<(), Refusal>, StoreError> {
        self.call("discard", |state| {
            let Some(event) = state.events.get_mut(&discard.id) else { return Ok(Err(Refusal::NotFound)) };
            if !event.record.status.takes_discard() {
                return Ok(Err(Refusal::WrongStatus(event.record.status)));
            }
            event.record.status = EventStatus::Discarded;
            event.record.settled_at = Some(discard.now);
            (event.record.dead_at, event.record.error) = (None, None);
            let (actor, reason) = (audit_text(&discard.actor.0), audit_text(&discard.reason));
            state.audit.push(format!("{actor} discards {}: {reason}", discard.id));
            Ok(Ok(()))
        })
    }

    async fn begin_idempotent(&self, request: &Idempotency) -> Result<Answer, StoreError> {
        self.call("begin_idempotent", |state| {
            state.answers.retain(|_, kept| kept.since >= request.expired_before);
            let at = (request.actor.0.clone(), request.key.clone());
            Ok(match state.answers.get(&at) {
                Some(kept) if kept.request != request.request => Answer::Differs,
                Some(KeptAnswer { answer: Some(answer), .. }) => answer.clone(),
                Some(kept) if kept.since >= request.now.minus(IDEMPOTENT_ANSWER_MAX) => Answer::InProgress,
                _ => {
                    let kept = KeptAnswer { request: request.request, since: request.now, answer: None };
                    state.answers.insert(at, kept);
                    Answer::Fresh
                }
            })
        })
    }

    async fn finish_idempotent(&self, request: &Idempotency, answer: Option<(u16, String)>) -> Result<(), StoreError> {
        self.call("finish_idempotent", |state| {
            let at = (request.actor.0.clone(), request.key.clone());
            match answer {
                None => drop(state.answers.remove(&at)),
                Some((status, body)) => {
                    if let Some(kept) = state.answers.get_mut(&at) {
                        kept.answer = Some(Answer::Known { status, body });
                    }
                }
            }
            Ok(())
        })
    }
}
