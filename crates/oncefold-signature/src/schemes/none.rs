//! Scheme `none`: for sources that a network guards. Has to be written out in the config.

use crate::request::Request;
use crate::scheme::{Prepared, Verifier};
use crate::secret::{KeyError, Secret};
use crate::time::UnixTime;
use crate::verdict::{Rejection, Verified};

/// Secrets beside `none` would look as if they guarded something.
pub(crate) fn prepare(secrets: &[Secret]) -> Result<Verifier, KeyError> {
    if !secrets.is_empty() {
        return Err(KeyError::settings(
            "scheme \"none\" takes no secrets; remove them, or choose a scheme that uses them",
        ));
    }
    Ok(Verifier::of(AcceptAll, vec!["scheme \"none\": anyone who reaches the source can send events".to_owned()]))
}

struct AcceptAll;

impl Prepared for AcceptAll {
    fn verify(&self, _req: &Request<'_>, _now: UnixTime) -> Result<Verified, Rejection> {
        Ok(Verified { secret_index: None, signed_at_s: None })
    }

    fn diagnose(&self, _req: &Request<'_>, _now: UnixTime, _rejection: &Rejection) -> Vec<String> {
        Vec::new()
    }
}
