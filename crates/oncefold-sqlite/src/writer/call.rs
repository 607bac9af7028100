use super::Work;
use async_trait::async_trait;
use oncefold_core::store::StoreError;
use sqlx::SqliteConnection;
use std::pin::Pin;

/// An operation while it runs.
pub(crate) type Running<'c, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'c>>;

/// An operation as the writer sees it.
#[async_trait]
pub(super) trait Operation: Send {
    /// Does the work inside the writer's transaction; again from the start where that was rolled back.
    async fn run(&mut self, conn: &mut SqliteConnection) -> Result<(), StoreError>;

    /// Tells whoever waits, after the commit.
    fn answer(self: Box<Self>, outcome: Result<(), StoreError>);
}

/// Parameters, what to do with them, and whom to tell.
pub(super) struct Call<P, T, A> {
    params: P,
    work: Work<P, T>,
    done: Option<T>,
    after: A,
}

impl<P, T, A> Call<P, T, A> {
    pub(super) fn of(params: P, work: Work<P, T>, after: A) -> Self {
        Self { params, work, done: None, after }
    }
}

#[async_trait]
impl<P, T, A> Operation for Call<P, T, A>
where
    P: Send + Sync + 'static,
    T: Send + 'static,
    A: FnOnce(Result<T, StoreError>) + Send + 'static,
{
    async fn run(&mut self, conn: &mut SqliteConnection) -> Result<(), StoreError> {
        self.done = None;
        self.done = Some((self.work)(conn, &self.params).await?);
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<(), StoreError>) {
        let not_run = || StoreError::Failed("the operation was not run".to_owned());
        let Self { done, after, .. } = *self;
        after(outcome.and_then(|()| done.ok_or_else(not_run)));
    }
}
