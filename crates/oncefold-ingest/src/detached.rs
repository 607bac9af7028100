//! A delivery in hand, worked on by the task of its connection for as long as that is there, which costs no task of its
//! own. When the HTTP library drops it (the client went away), it goes on as a task.

use crate::answer::Response;
use crate::intake::Intake;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::runtime::Handle;

type Delivering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Ends with the answer, or with none where the delivery panicked.
pub(crate) struct Detached {
    /// None once it is done.
    delivering: Option<Delivering>,
    intake: Arc<Intake>,
}

impl Detached {
    pub(crate) fn of(delivering: impl Future<Output = Response> + Send + 'static, intake: Arc<Intake>) -> Self {
        Self { delivering: Some(Box::pin(delivering)), intake }
    }
}

impl Future for Detached {
    type Output = Option<Response>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(delivering) = self.delivering.as_mut() else { return Poll::Ready(None) };
        // As in a task of its own, a panic ends this delivery and nothing else of the connection.
        let polled = catch_unwind(AssertUnwindSafe(|| delivering.as_mut().poll(context)));
        let ended = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(answer)) => Some(answer),
            Err(_) => None,
        };
        self.delivering = None;
        Poll::Ready(ended)
    }
}

impl Drop for Detached {
    fn drop(&mut self) {
        let Some(delivering) = self.delivering.take() else { return };
        let abandon = self.intake.abandon.clone();
        // Where everything in hand is dropped, or no runtime is left, nothing goes on.
        if let (false, Ok(runtime)) = (abandon.is_cancelled(), Handle::try_current()) {
            self.intake.tasks.spawn_on(async move { abandon.run_until_cancelled(delivering).await }, &runtime);
        }
    }
}
