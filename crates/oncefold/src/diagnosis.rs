//! Why a delivery did not verify, worked out when somebody looks: from the rejected log, with the secrets of the config.

use oncefold_admin::Diagnose;
use oncefold_config::SourceConfig;
use oncefold_core::store::RejectedDelivery;
use oncefold_signature::{Request, Scheme, UnixTime, Verdict};
use std::sync::{Arc, PoisonError, RwLock};

/// Explains with the sources of the config and the secrets in force. Clones share them.
#[derive(Clone, Debug)]
pub struct Diagnosis(Arc<RwLock<Vec<SourceConfig>>>);

impl Diagnosis {
    /// With these sources.
    pub fn with(sources: &[SourceConfig]) -> Self {
        Self(Arc::new(RwLock::new(sources.to_vec())))
    }

    /// Has a source that is known explained with other secrets from now on.
    pub fn exchange(&self, fresh: &SourceConfig) {
        let mut sources = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(source) = sources.iter_mut().find(|source| source.name() == fresh.name()) {
            *source = fresh.clone();
        }
    }
}

/// Another source under whose keys the delivery verifies.
fn other_owner<'a>(
    sources: &'a [SourceConfig],
    source: &SourceConfig,
    verifies: impl Fn(&SourceConfig) -> bool,
) -> Option<&'a SourceConfig> {
    let mut others = sources.iter().filter(|other| other.name() != source.name() && signs(other));
    others.find(|other| verifies(other))
}

/// Whether the source's deliveries carry a signature: a credential is not in the log, and without either nothing was
/// rejected.
fn signs(source: &SourceConfig) -> bool {
    source.scheme.credential_place().is_none() && source.scheme != Scheme::None
}

impl Diagnose for Diagnosis {
    fn diagnose(&self, delivery: &RejectedDelivery) -> Vec<String> {
        // A copy, so that nobody waits for an explanation to be worked out: the keys in it are shared.
        let sources = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(source) = sources.iter().find(|source| *source.name() == delivery.source) else {
            return vec!["the source is not in this process's config".to_owned()];
        };
        if !signs(source) {
            return vec![];
        }
        let Some(body) = &delivery.body else {
            return vec!["the body was too long to be kept: capture the request, and ask `oncefold verify`".to_owned()];
        };
        let headers: Vec<_> = delivery.request.headers.iter().map(|(n, v)| (n.as_str(), v.as_bytes())).collect();
        let now = UnixTime::from_micros(delivery.at.as_micros());
        let judged = |source: &SourceConfig, then: &mut dyn FnMut(&Request<'_>, UnixTime)| {
            let request = Request {
                method: &delivery.request.method,
                url: source.public_url.as_deref(),
                query: &delivery.request.query,
                path_token: None,
                headers: &headers,
                body,
            };
            if source.verifier.certificate_needed(&request).is_none() {
                then(&request, now);
            }
        };
        let mut lines = vec![];
        judged(source, &mut |request, now| match source.verifier.verify(request, now) {
            Verdict::Valid(_) => lines.push("it verifies with the present secrets: they were changed since".to_owned()),
            Verdict::Invalid(rejection) => {
                let said = source.verifier.diagnose(request, now, &rejection);
                lines.extend(said.lines().filter(|line| *line != delivery.detail).map(str::to_owned));
            }
        });
        let fits = |other: &SourceConfig| {
            let mut fits = false;
            judged(other, &mut |request, now| fits = other.verifier.verify(request, now).is_valid());
            fits
        };
        if let Some(other) = other_owner(&sources, source, fits) {
            lines.push(format!(
                "it verifies at source `{}`: the provider has the wrong URL, or the two secrets are swapped",
                other.name()
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oncefold_config::Config;
    use oncefold_core::store::RejectedRequest;
    use oncefold_core::{SourceName, Timestamp};
    use oncefold_signature::Secret;

    const NOW_S: i64 = 1_767_323_045;
    const ONE: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    const OTHER: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn diagnosis() -> Diagnosis {
        Diagnosis::with(&sources(ONE))
    }

    fn sources(one: &str) -> Vec<SourceConfig> {
        let text = format!(
            "[sources.one]\npreset = 'svix'\nsecrets = ['{one}']\n[sources.other]\npreset = 'svix'\nsecrets = ['{OTHER}']\n\
             [sources.open]\nverify = {{ scheme = 'token', in = 'path' }}\nsecrets = ['0123456789abcdef']\n"
        );
        Config::parse("test", &text, &|_| None).unwrap().config.sources
    }

    /// A delivery to `source` that was signed with a secret over a body, and came with another.
    fn delivery(source: &str, secret: &str, signed: &[u8], came: Option<&[u8]>) -> RejectedDelivery {
        let svix = diagnosis().0.read().unwrap()[0].scheme.clone();
        let request = Request { method: "POST", url: None, query: "", path_token: None, headers: &[], body: signed };
        let signed = svix.sign(&Secret::new(secret).unwrap(), "m", &request, UnixTime::from_secs(NOW_S)).unwrap();
        RejectedDelivery {
            source: SourceName::parse(source).unwrap(),
            at: Timestamp::from_micros(NOW_S * 1_000_000),
            reason: "no_matching_signature".to_owned(),
            detail: "recorded".to_owned(),
            request: RejectedRequest {
                method: "POST".to_owned(),
                headers: signed.headers,
                ..RejectedRequest::default()
            },
            body: came.map(|body| body.to_vec().into()),
        }
    }

    #[test]
    fn it_says_whose_secret_fits() {
        let lines = diagnosis().diagnose(&delivery("one", OTHER, b"{}", Some(b"{}")));
        assert!(lines.iter().any(|line| line.contains("source `other`")), "{lines:?}");
        assert!(!lines.concat().contains(OTHER) && !lines.concat().contains(ONE));
    }

    #[test]
    fn it_explains_with_the_secrets_in_force() {
        const NEXT: &str = "whsec_b3RoZXIga2V5IG9mIGVub3VnaCBieXRlcw==";
        let (all, delivery) = (diagnosis(), delivery("one", NEXT, b"{}", Some(b"{}")));
        let says =
            || all.clone().diagnose(&delivery).iter().any(|line| line.contains("verifies with the present secrets"));
        assert!(!says());
        all.exchange(&sources(NEXT)[0]);
        assert!(says());
    }

    #[test]
    fn it_says_how_the_body_was_changed() {
        let lines = diagnosis().diagnose(&delivery("one", ONE, b"{}", Some(b"{}\n")));
        assert!(lines.iter().any(|line| line.starts_with("body changed")), "{lines:?}");
        assert!(!lines.iter().any(|line| line.contains("source `other`")), "{lines:?}");
    }

    #[test]
    fn it_says_nothing_that_it_cannot_know() {
        let all = diagnosis();
        assert!(all.diagnose(&delivery("one", ONE, b"{}", None))[0].contains("oncefold verify"));
        assert!(all.diagnose(&delivery("one", ONE, b"{}", Some(b"{}")))[0].contains("changed since"));
        assert_eq!(all.diagnose(&delivery("open", ONE, b"{}", Some(b"{}"))), Vec::<String>::new());
        assert!(all.diagnose(&delivery("gone", ONE, b"{}", Some(b"{}")))[0].contains("not in this process's config"));
    }
}
