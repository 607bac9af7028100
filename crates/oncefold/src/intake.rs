//! Intake from the config: its sources, and what it asks of providers.

use crate::client::Client;
use crate::failure::Failure;
use async_trait::async_trait;
use oncefold_config::{Config, SourceConfig};
use oncefold_ingest::{IntakeSource, Outbound, OutboundAnswer, Respond, SourceKeys};
use oncefold_signature::{Scheme, TrustRoots};
use std::time::Duration;

/// Longest wait for a provider's certificate or confirmation.
const PROVIDER_MAX: Duration = Duration::from_secs(5);

/// A source of the config as intake has it.
///
/// # Errors
/// When it states something HTTP cannot carry.
pub fn source(source: &SourceConfig) -> Result<IntakeSource, Failure> {
    let wrong = |what: &str| Failure::config(format!("source `{}`: {what}", source.name()));
    let methods = source.methods.iter().map(|m| m.parse()).collect::<Result<_, _>>();
    let status = http::StatusCode::from_u16(source.respond.status).map_err(|_| wrong("respond.status"))?;
    let content_type = source.respond.content_type.parse().map_err(|_| wrong("respond.content_type"))?;
    let has_body = !source.respond.body.is_empty() && !source.respond.content_type.is_empty();
    Ok(IntakeSource {
        model: source.model.clone(),
        keys: keys(source),
        methods: methods.map_err(|_| wrong("methods"))?,
        split: source.split.clone(),
        takes_gzip: source.takes_gzip,
        respond: Respond {
            status,
            body: source.respond.body.clone().into(),
            content_type: has_body.then_some(content_type),
        },
        public_url: source.public_url.clone(),
        path_token: source.path_token,
        redact_headers: source.redact.headers.clone(),
        redact_query: source.redact.query.clone(),
    })
}

/// What verifies a source's deliveries.
pub fn keys(source: &SourceConfig) -> SourceKeys {
    SourceKeys {
        verifier: source.verifier.clone(),
        scheme_name: source.scheme.name().to_owned(),
        secrets: source.secrets.clone(),
        handshake: source.handshake.clone(),
    }
}

/// The roots this system trusts, where any source has certificates fetched.
pub fn system_roots(config: &Config) -> TrustRoots {
    let fetches = |source: &SourceConfig| match &source.scheme {
        Scheme::PayPal(scheme) => scheme.certificates.is_empty(),
        Scheme::Sns(scheme) => scheme.certificates.is_empty(),
        _ => false,
    };
    if !config.sources.iter().any(fetches) {
        return TrustRoots::of([]);
    }
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        tracing::warn!(
            "this system trusts no certificates: sources of schemes paypal and sns refuse every delivery; \
             install ca-certificates, or state `certificates`"
        );
    }
    TrustRoots::of(found.certs.iter().map(AsRef::as_ref))
}

/// The hosts of providers, over HTTPS.
#[derive(Clone, Debug)]
pub struct Providers(Client);

impl Default for Providers {
    fn default() -> Self {
        Self(Client::with_timeout(PROVIDER_MAX))
    }
}

#[async_trait]
impl Outbound for Providers {
    async fn get(&self, url: &str) -> Result<OutboundAnswer, String> {
        if !url.starts_with("https://") {
            return Err("only https is asked".to_owned());
        }
        let (client, url) = (self.0.clone(), url.to_owned());
        let asked = tokio::task::spawn_blocking(move || client.get(&url, &[])).await;
        let answer = asked.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        Ok(OutboundAnswer { status: answer.status, body: answer.body.into_bytes() })
    }
}
