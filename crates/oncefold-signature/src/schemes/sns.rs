//! Scheme `sns`: Amazon SNS over HTTP(S). RSA over fields of the body, SHA-1 in signature version 1, SHA-256 in 2. There
//! are no secrets.
//!
//! A signature proves that some topic of some account at AWS sent this, and anyone may have one: what says that it is
//! yours is the list of topics.

use crate::certificate::{CertificateRequest, RsaHash, SigningCertificate};
use crate::encoding;
use crate::json_members::Members;
use crate::request::Request;
use crate::scheme::{Prepared, Verifier};
use crate::secret::{KeyError, Secret};
use crate::signed_url::SignedUrl;
use crate::time::UnixTime;
use crate::verdict::{Rejection, RejectionReason, Verified, excerpt};

/// Settings of scheme `sns`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SnsScheme {
    /// Topics (ARNs) whose messages are taken; empty for any topic of anybody.
    pub topics: Vec<String>,
    /// Certificates that are trusted as they are; none to have them fetched.
    pub certificates: Vec<SigningCertificate>,
}

impl SnsScheme {
    pub(crate) fn prepare(&self, secrets: &[Secret]) -> Result<Verifier, KeyError> {
        if !secrets.is_empty() {
            return Err(KeyError::settings(
                "scheme \"sns\" takes no secrets: Amazon signs with its own key; state `topics`",
            ));
        }
        let open = self.topics.is_empty();
        let warning =
            "scheme \"sns\" without `topics`: anyone with an account at AWS can send events; list your topics' ARNs";
        Ok(Verifier::of(self.clone(), open.then(|| warning.to_owned()).into_iter().collect()))
    }
}

/// Fields that are signed, in order. Notifications may lack `Subject`, and it is left out then.
const NOTIFICATION: [&str; 6] = ["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"];
const CONFIRMATION: [&str; 7] = ["Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"];

fn malformed(detail: impl Into<String>) -> Rejection {
    Rejection::of(RejectionReason::MalformedBody, detail)
}

/// What is read of one message.
struct Message {
    text: String,
    hash: RsaHash,
    signature: Vec<u8>,
    topic: String,
}

fn members(body: &[u8]) -> Result<Members<'_>, Rejection> {
    let text = std::str::from_utf8(body).ok();
    text.and_then(Members::parse).ok_or_else(|| malformed("the body is no JSON object, or has a name twice"))
}

fn required(members: &Members<'_>, name: &str) -> Result<String, Rejection> {
    let text = members.text(name).map_err(|name| malformed(format!("{name} is no text")))?;
    text.ok_or_else(|| malformed(format!("the body has no {name}")))
}

impl Message {
    fn read(members: &Members<'_>) -> Result<Self, Rejection> {
        let signed: &[&str] = match required(members, "Type")?.as_str() {
            "Notification" => &NOTIFICATION,
            "SubscriptionConfirmation" | "UnsubscribeConfirmation" => &CONFIRMATION,
            other => return Err(malformed(format!("Type is {}, which SNS does not send", excerpt(other.as_bytes())))),
        };
        let mut text = String::new();
        for name in signed {
            if *name == "Subject" && members.text(name) == Ok(None) {
                continue;
            }
            text.push_str(&format!("{name}\n{}\n", required(members, name)?));
        }
        let hash = match required(members, "SignatureVersion")?.as_str() {
            "1" => RsaHash::Sha1,
            "2" => RsaHash::Sha256,
            _ => return Err(malformed("SignatureVersion is neither 1 nor 2")),
        };
        let signature = members
            .text("Signature")
            .ok()
            .flatten()
            .ok_or_else(|| Rejection::of(RejectionReason::MissingSignature, "the body has no Signature"))?;
        let signature = encoding::rsa_signature(signature.as_bytes()).ok_or_else(|| {
            Rejection::of(RejectionReason::MalformedSignature, "Signature is no RSA signature in base64")
        })?;
        Ok(Self { text, hash, signature, topic: required(members, "TopicArn")? })
    }
}

/// Whether the URL is https at SNS itself.
pub(crate) fn is_at_sns(url: &str) -> bool {
    let Some(parts) = SignedUrl::parse(url).filter(|parts| parts.scheme == "https") else { return false };
    let region = parts
        .authority
        .strip_prefix("sns.")
        .and_then(|rest| rest.strip_suffix(".amazonaws.com").or_else(|| rest.strip_suffix(".amazonaws.com.cn")));
    let plain = |region: &str| region.len() >= 3 && region.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    region.is_some_and(plain) && parts.text() == url && url.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The pinned URL of the certificate, and whom that is for.
fn certificate_url(members: &Members<'_>) -> Result<String, Rejection> {
    let url = required(members, "SigningCertURL")?;
    let parts = SignedUrl::parse(&url);
    let is_pem = parts.is_some_and(|parts| parts.query.is_none() && parts.path.ends_with(".pem"));
    if is_pem && is_at_sns(&url) {
        return Ok(url);
    }
    let detail = format!("SigningCertURL is no https URL of a certificate at SNS: {}", excerpt(url.as_bytes()));
    Err(Rejection::of(RejectionReason::UntrustedUrl, detail))
}

impl SnsScheme {
    fn signed_by(&self, req: &Request<'_>, certificates: &[SigningCertificate]) -> Result<Verified, Rejection> {
        let members = members(req.body)?;
        let message = Message::read(&members)?;
        certificate_url(&members)?;
        if certificates.is_empty() {
            let detail = "the certificate that signed is not at hand; state `certificates`, or let it be fetched";
            return Err(Rejection::of(RejectionReason::UntrustedCertificate, detail));
        }
        let text = message.text.as_bytes();
        if !certificates.iter().any(|certificate| certificate.signed(message.hash, text, &message.signature)) {
            let detail = "the signature does not fit the certificate: the body was changed, or another key signed it";
            return Err(Rejection::of(RejectionReason::NoMatchingSignature, detail));
        }
        if !self.topics.is_empty() && !self.topics.contains(&message.topic) {
            let detail = format!("the topic {} is none of `topics`", message.topic.escape_default());
            return Err(Rejection::of(RejectionReason::WrongSender, detail));
        }
        Ok(Verified { secret_index: None, signed_at_s: None })
    }
}

impl Prepared for SnsScheme {
    fn verify(&self, req: &Request<'_>, _now: UnixTime) -> Result<Verified, Rejection> {
        self.signed_by(req, &self.certificates)
    }

    fn certificate_needed<'a>(&self, req: &Request<'a>) -> Option<CertificateRequest<'a>> {
        if !self.certificates.is_empty() {
            return None;
        }
        let url = certificate_url(&members(req.body).ok()?).ok()?;
        let host = SignedUrl::parse(&url)?.host().to_owned();
        Some(CertificateRequest { url: url.into(), names: vec!["sns.amazonaws.com".to_owned(), host] })
    }

    fn verify_with(
        &self,
        req: &Request<'_>,
        _now: UnixTime,
        certificate: &SigningCertificate,
    ) -> Result<Verified, Rejection> {
        self.signed_by(req, std::slice::from_ref(certificate))
    }

    fn diagnose(&self, _req: &Request<'_>, _now: UnixTime, _rejection: &Rejection) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(test)]
#[path = "sns_tests.rs"]
mod tests;
