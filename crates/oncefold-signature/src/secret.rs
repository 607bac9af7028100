//! Secrets, and what can be wrong with them at load.

use std::fmt;

/// A secret as the operator wrote it, without the white space that pasting or mounting adds. The scheme decides how it
/// becomes key bytes. `Debug` never shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

/// A secret was empty, or nothing but white space: with an empty key anyone can sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the secret is empty; set it to the value the provider shows")]
pub struct EmptySecret;

impl Secret {
    /// Trims surrounding white space (a byte order mark too) and refuses what is then empty.
    pub fn new(text: &str) -> Result<Self, EmptySecret> {
        let trimmed = text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
        if trimmed.is_empty() { Err(EmptySecret) } else { Ok(Self(trimmed.into())) }
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A secret, or the settings around it, cannot be used. The message names the secret by its place and the mend, never
/// by its text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", place(*.index))]
pub struct KeyError {
    /// Which of the source's secrets, counted from 0; none where the fault is not in one secret.
    pub index: Option<usize>,
    /// What is wrong and how to mend it.
    pub problem: String,
}

fn place(index: Option<usize>) -> String {
    index.map_or_else(String::new, |index| format!("secrets[{index}]: "))
}

impl KeyError {
    pub(crate) fn at(index: usize, problem: impl Into<String>) -> Self {
        Self { index: Some(index), problem: problem.into() }
    }

    pub(crate) fn settings(problem: impl Into<String>) -> Self {
        Self { index: None, problem: problem.into() }
    }
}

/// Prefix of a Standard Webhooks public key.
pub(crate) const PUBLIC_KEY_PREFIX: &str = "whpk_";
/// Prefix of a Standard Webhooks private signing key, which a receiver must never hold.
pub(crate) const PRIVATE_KEY_PREFIX: &str = "whsk_";
/// Shortest key, in bytes, that Standard Webhooks may use and literal keys may use without a warning.
pub(crate) const SHORTEST_GOOD_KEY: usize = 16;

/// Refuses what is not a shared secret: a public key is known to anyone, so an HMAC made with it proves nothing.
pub(crate) fn refuse_asymmetric(index: usize, secret: &Secret) -> Result<(), KeyError> {
    if secret.text().starts_with(PUBLIC_KEY_PREFIX) {
        return Err(KeyError::at(
            index,
            "is a public key (whpk_…) and cannot be an HMAC key; use the shared secret, or scheme \"standard-webhooks\"",
        ));
    }
    if secret.text().starts_with(PRIVATE_KEY_PREFIX) {
        return Err(KeyError::at(
            index,
            "is a private signing key (whsk_…); a receiver needs the whpk_… or whsec_… one",
        ));
    }
    Ok(())
}

/// At least one secret has to be there.
pub(crate) fn require_some(secrets: &[Secret]) -> Result<(), KeyError> {
    if secrets.is_empty() {
        return Err(KeyError::settings("the source has no secrets; set `secrets = [\"env:NAME\"]`"));
    }
    Ok(())
}

/// A warning for every literal key that is shorter than it should be.
pub(crate) fn short_key_warning(index: usize, length: usize) -> Option<String> {
    (length < SHORTEST_GOOD_KEY).then(|| {
        format!("secrets[{index}]: the key has {length} bytes; under {SHORTEST_GOOD_KEY} it may be guessed, ask for a longer one")
    })
}
