//! Certificates that sign deliveries: given by the operator and trusted as they are, or fetched from the provider and
//! trusted for their chain and name. Fetching them is not done here.

use crate::time::UnixTime;
use ring::signature::{RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, UnparsedPublicKey};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{
    AlgorithmIdentifier, CertificateDer, InvalidSignature, ServerName, SignatureVerificationAlgorithm, TrustAnchor,
    alg_id,
};
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;
use webpki::ring::RSA_PKCS1_2048_8192_SHA256;
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, KeyUsage};

/// A certificate whose RSA key may sign deliveries.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningCertificate(CertificateDer<'static>);

/// A certificate cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// No `-----BEGIN CERTIFICATE-----`, or what stands there is no certificate.
    #[error("there is no certificate in PEM form; give the whole file, from BEGIN to END CERTIFICATE")]
    NotPem,
    /// A chain that leads to no trusted root, is out of its time or is not meant for this.
    #[error("the certificate is not trusted: {0}")]
    Untrusted(String),
    /// The certificate belongs to somebody else.
    #[error("the certificate is for none of {0}")]
    WrongName(String),
}

/// The roots that fetched certificates have to lead to.
#[derive(Clone)]
pub struct TrustRoots(Vec<TrustAnchor<'static>>);

impl TrustRoots {
    /// From root certificates in DER; what is no certificate is left out.
    pub fn of<'a>(roots: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let anchor = |der: &[u8]| {
            let der = CertificateDer::from(der.to_vec());
            webpki::anchor_from_trusted_cert(&der).ok().map(|anchor| anchor.to_owned())
        };
        Self(roots.into_iter().filter_map(anchor).collect())
    }
}

impl fmt::Debug for TrustRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TrustRoots({})", self.0.len())
    }
}

impl fmt::Debug for SigningCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningCertificate({} bytes)", self.0.len())
    }
}

fn read_pem(pem: &[u8]) -> Result<(CertificateDer<'static>, Vec<CertificateDer<'static>>), CertificateError> {
    let mut chain: Vec<_> =
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|_| CertificateError::NotPem)?;
    if chain.is_empty() {
        return Err(CertificateError::NotPem);
    }
    let leaf = chain.remove(0);
    EndEntityCert::try_from(&leaf).map_err(|_| CertificateError::NotPem)?;
    Ok((leaf, chain))
}

impl SigningCertificate {
    /// The first certificate of a PEM file that the operator gave: no chain, name or validity is checked.
    ///
    /// # Errors
    /// [`CertificateError::NotPem`].
    pub fn given(pem: &[u8]) -> Result<Self, CertificateError> {
        read_pem(pem).map(|(leaf, _)| Self(leaf))
    }

    /// The first certificate of a fetched PEM file, where the others lead from it to a root, at the given time, and it
    /// is for one of the names ([`CertificateRequest::names`]).
    ///
    /// # Errors
    /// [`CertificateError`], for the first check that fails.
    pub fn chained(pem: &[u8], roots: &TrustRoots, names: &[String], now: UnixTime) -> Result<Self, CertificateError> {
        let (leaf, intermediates) = read_pem(pem)?;
        let certificate = EndEntityCert::try_from(&leaf).map_err(|_| CertificateError::NotPem)?;
        let since_epoch = Duration::from_secs(u64::try_from(now.as_secs()).unwrap_or_default());
        let time = rustls_pki_types::UnixTime::since_unix_epoch(since_epoch);
        let usage = KeyUsage::server_auth();
        let checked =
            certificate.verify_for_usage(ALL_VERIFICATION_ALGS, &roots.0, &intermediates, time, usage, None, None);
        checked.map_err(|error| CertificateError::Untrusted(error.to_string()))?;
        let is_for = |name: &String| {
            let name = ServerName::try_from(name.as_str());
            name.is_ok_and(|name| certificate.verify_is_valid_for_subject_name(&name).is_ok())
        };
        if !names.iter().any(is_for) {
            return Err(CertificateError::WrongName(names.join(", ")));
        }
        drop(certificate);
        Ok(Self(leaf))
    }

    /// Whether this certificate's RSA key made the signature (PKCS #1 v1.5).
    pub(crate) fn signed(&self, hash: RsaHash, message: &[u8], signature: &[u8]) -> bool {
        let algorithm: &dyn SignatureVerificationAlgorithm = match hash {
            RsaHash::Sha1 => &RsaSha1,
            RsaHash::Sha256 => RSA_PKCS1_2048_8192_SHA256,
        };
        let certificate = EndEntityCert::try_from(&self.0);
        certificate.is_ok_and(|certificate| certificate.verify_signature(algorithm, message, signature).is_ok())
    }
}

/// The hash under an RSA signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RsaHash {
    Sha1,
    Sha256,
}

/// RSA over SHA-1, which SNS still signs its first signature version with. Never used for chains.
#[derive(Debug)]
struct RsaSha1;

impl SignatureVerificationAlgorithm for RsaSha1 {
    fn verify_signature(&self, public_key: &[u8], message: &[u8], signature: &[u8]) -> Result<(), InvalidSignature> {
        let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, public_key);
        key.verify(message, signature).map_err(|_| InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::RSA_ENCRYPTION
    }

    /// Of the certificate's own signature in a chain; this is used for none.
    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::RSA_PKCS1_SHA256
    }
}

/// A certificate that a delivery names and that has to be at hand to verify it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateRequest<'a> {
    /// Where it is; scheme, host and path are the provider's.
    pub url: Cow<'a, str>,
    /// Whom it has to be for: one of these.
    pub names: Vec<String>,
}

#[cfg(test)]
#[path = "certificate_tests.rs"]
mod tests;
