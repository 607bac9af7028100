use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Whether the worker is consuming; for `/readyz`.
#[derive(Debug, Default)]
pub struct Health {
    problems: Mutex<BTreeMap<String, String>>,
}

impl Health {
    /// What keeps the worker from its job, as (part, why), by part; nothing while it consumes.
    pub fn problems(&self) -> Vec<(String, String)> {
        self.lock().iter().map(|(part, why)| (part.clone(), why.clone())).collect()
    }

    /// Whether every consumer runs and the database takes verdicts.
    pub fn is_consuming(&self) -> bool {
        self.lock().is_empty()
    }

    /// Notes a problem; tells whether it is another one than before.
    pub(crate) fn fail(&self, part: &str, why: impl Into<String>) -> bool {
        let why = why.into();
        self.lock().insert(part.to_owned(), why.clone()).is_none_or(|before| before != why)
    }

    pub(crate) fn mend(&self, part: &str) {
        self.lock().remove(part);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
