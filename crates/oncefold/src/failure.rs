//! How a command ends. Exit codes are the contract's: 0 done, 1 it found what it looks for or failed, 2 usage or config.

use std::fmt;

/// How a command that ran ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Done: exit 0.
    Done,
    /// It found what it looks for (an invalid signature, a pending migration, …): exit 1.
    Found,
}

impl Ended {
    /// Whether the exit code is 0.
    pub const fn is_done(self) -> bool {
        matches!(self, Self::Done)
    }
}

/// Why a command failed, for a person: what happened, and what to do.
#[derive(Debug)]
pub enum Failure {
    /// The command line or the config is wrong: exit 2.
    Config(String),
    /// Something failed while it ran: exit 1.
    Run(anyhow::Error),
}

impl Failure {
    /// A usage or config failure.
    pub fn config(message: impl fmt::Display) -> Self {
        Self::Config(message.to_string())
    }

    /// The process exit code.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) => 2,
            Self::Run(_) => 1,
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Run(error.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(message) => f.write_str(message),
            Self::Run(error) => write!(f, "{error:#}"),
        }
    }
}
