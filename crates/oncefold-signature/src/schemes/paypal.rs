//! Scheme `paypal`: RSA over `{transmission id}|{transmission time}|{webhook id}|{CRC-32 of the body}`. The source's
//! secrets are webhook ids.
//!
//! The CRC-32 is all that binds the body, and anyone can make another body with the same one: a captured signature fits
//! a forged amount. What moves money has to be asked for at PayPal.

use crate::certificate::{CertificateRequest, RsaHash, SigningCertificate};
use crate::diagnosis;
use crate::encoding;
use crate::request::Request;
use crate::scheme::{Prepared, Verifier};
use crate::secret::{KeyError, Secret, require_some};
use crate::signed_url::SignedUrl;
use crate::time::UnixTime;
use crate::verdict::{Rejection, RejectionReason, Verified, excerpt};

const ID: &str = "PayPal-Transmission-Id";
const TIME: &str = "PayPal-Transmission-Time";
const SIGNATURE: &str = "PayPal-Transmission-Sig";
const CERTIFICATE_URL: &str = "PayPal-Cert-Url";
const ALGORITHM: &str = "PayPal-Auth-Algo";

/// Where certificates may come from, and whom they are for then.
const HOSTS: [(&str, &str); 2] = [
    ("api.paypal.com", "messageverificationcerts.paypal.com"),
    ("api.sandbox.paypal.com", "messageverificationcerts.sandbox.paypal.com"),
];
const PATH: &str = "/v1/notifications/certs/";

/// Settings of scheme `paypal`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PayPalScheme {
    /// Certificates that are trusted as they are; none to have them fetched.
    pub certificates: Vec<SigningCertificate>,
}

impl PayPalScheme {
    pub(crate) fn prepare(&self, secrets: &[Secret]) -> Result<Verifier, KeyError> {
        require_some(secrets)?;
        let prepared = PreparedPayPal { scheme: self.clone(), webhook_ids: secrets.to_vec() };
        Ok(Verifier::of(prepared, Vec::new()))
    }
}

/// The pinned URL that a delivery names, and whom the certificate there is for.
fn certificate_url<'a>(req: &Request<'a>) -> Result<CertificateRequest<'a>, Rejection> {
    let value = req.sole_header(CERTIFICATE_URL)?;
    let pinned = std::str::from_utf8(value).ok().and_then(|text| {
        let url = SignedUrl::parse(text).filter(|url| url.scheme == "https" && url.query.is_none())?;
        let (_, name) = HOSTS.iter().find(|(host, _)| *host == url.authority)?;
        let file = url.path.strip_prefix(PATH)?;
        let plain = !file.is_empty() && file.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        (plain && url.text() == text).then(|| CertificateRequest { url: text.into(), names: vec![(*name).to_owned()] })
    });
    pinned.ok_or_else(|| {
        let detail = format!("header {CERTIFICATE_URL} is no https URL of PayPal's certificates: {}", excerpt(value));
        Rejection::of(RejectionReason::UntrustedUrl, detail)
    })
}

/// What is signed, in front of and behind the webhook id.
struct Transmission<'a> {
    id: &'a [u8],
    time: &'a [u8],
    crc32: String,
    signature: Vec<u8>,
}

impl<'a> Transmission<'a> {
    fn read(req: &Request<'a>) -> Result<Self, Rejection> {
        let (id, time) = (req.sole_header(ID)?, req.sole_header(TIME)?);
        if id.contains(&b'|') || time.contains(&b'|') {
            let detail = format!("header {ID} or {TIME} holds a |, so the signed text could be read two ways");
            return Err(Rejection::of(RejectionReason::MalformedHeader, detail));
        }
        let algorithm = req.sole_header(ALGORITHM)?;
        if !algorithm.eq_ignore_ascii_case(b"SHA256withRSA") {
            let detail = format!("header {ALGORITHM} is {}, SHA256withRSA is taken", excerpt(algorithm));
            return Err(Rejection::of(RejectionReason::MalformedHeader, detail));
        }
        let text = req.sole_header(SIGNATURE)?;
        let signature = encoding::rsa_signature(text).ok_or_else(|| {
            diagnosis::malformed_signature(&format!("header {SIGNATURE}"), text, "base64 of an RSA signature")
        })?;
        Ok(Self { id, time, crc32: crc32fast::hash(req.body).to_string(), signature })
    }

    fn text(&self, webhook_id: &str) -> Vec<u8> {
        [self.id, self.time, webhook_id.as_bytes(), self.crc32.as_bytes()].join(&b'|')
    }
}

struct PreparedPayPal {
    scheme: PayPalScheme,
    webhook_ids: Vec<Secret>,
}

impl PreparedPayPal {
    fn signed_by(&self, req: &Request<'_>, certificates: &[SigningCertificate]) -> Result<Verified, Rejection> {
        let transmission = Transmission::read(req)?;
        certificate_url(req)?;
        if certificates.is_empty() {
            let detail = "the certificate that signed is not at hand; state `certificates`, or let it be fetched";
            return Err(Rejection::of(RejectionReason::UntrustedCertificate, detail));
        }
        let fits = |id: &Secret| {
            let text = transmission.text(id.text());
            certificates.iter().any(|certificate| certificate.signed(RsaHash::Sha256, &text, &transmission.signature))
        };
        match self.webhook_ids.iter().position(fits) {
            Some(index) => Ok(Verified { secret_index: Some(index), signed_at_s: None }),
            None => {
                let count = self.webhook_ids.len();
                let detail = format!("under none of {count} webhook id(s) does the signature fit the certificate");
                Err(Rejection::of(RejectionReason::NoMatchingSignature, detail))
            }
        }
    }
}

impl Prepared for PreparedPayPal {
    fn verify(&self, req: &Request<'_>, _now: UnixTime) -> Result<Verified, Rejection> {
        self.signed_by(req, &self.scheme.certificates)
    }

    fn certificate_needed<'a>(&self, req: &Request<'a>) -> Option<CertificateRequest<'a>> {
        self.scheme.certificates.is_empty().then(|| certificate_url(req).ok()).flatten()
    }

    fn verify_with(
        &self,
        req: &Request<'_>,
        _now: UnixTime,
        certificate: &SigningCertificate,
    ) -> Result<Verified, Rejection> {
        self.signed_by(req, std::slice::from_ref(certificate))
    }

    fn diagnose(&self, req: &Request<'_>, _now: UnixTime, rejection: &Rejection) -> Vec<String> {
        match rejection.reason {
            RejectionReason::MissingHeader => diagnosis::about_header(SIGNATURE, req),
            RejectionReason::NoMatchingSignature => vec![
                "the webhook id is another listener's (secrets hold PayPal's webhook ids), the body was changed on its way, or \
                 the certificate is another one's"
                    .to_owned(),
            ],
            _ => Vec::new(),
        }
    }
}
