//! `certificates` of a source: PEM files of those who sign, trusted as they are.

use crate::reader::Node;
use crate::reference::resolve;
use oncefold_signature::{Scheme, SigningCertificate};

const EXPECTED: &str = "a list of PEM files, such as [\"/etc/oncefold/paypal.pem\"]";

/// Puts the certificates into the scheme, where it verifies with some.
pub(crate) fn read(node: &Node<'_>, scheme: Option<&mut Scheme>) {
    let Some(items) = node.items(EXPECTED) else { return };
    if items.is_empty() {
        node.problem("is an empty list", "name a PEM file, or remove it to have certificates fetched");
    }
    let read: Vec<_> = items.iter().filter_map(certificate).collect();
    match scheme {
        Some(Scheme::PayPal(scheme)) => scheme.certificates = read,
        Some(Scheme::Sns(scheme)) => scheme.certificates = read,
        Some(other) => {
            let name = other.name();
            node.problem(format!("scheme {name:?} verifies with no certificate"), "remove it");
        }
        None => {}
    }
}

/// A path, or a reference as secrets have them.
fn certificate(node: &Node<'_>) -> Option<SigningCertificate> {
    let text = node.text("a PEM file, such as \"/etc/oncefold/paypal.pem\"")?;
    let is_reference = ["env:", "file:"].iter().any(|prefix| text.starts_with(prefix));
    let reference = if is_reference { text.to_owned() } else { format!("file:{text}") };
    let pem = resolve(node.context, &node.place, &reference)?.text;
    match SigningCertificate::given(pem.as_bytes()) {
        Ok(certificate) => Some(certificate),
        Err(error) => {
            node.problem(error.to_string(), "give a file with a certificate in PEM form");
            None
        }
    }
}
