//! `secrets` of a source: written out or by reference, any one may match.

use crate::reader::{Place, Table};
use crate::reference::{self, resolve};
use oncefold_signature::Secret;
use std::path::PathBuf;

/// The secrets of one source as far as they could be had.
#[derive(Default)]
pub(crate) struct Secrets {
    pub values: Vec<Secret>,
    /// Where each stands.
    pub places: Vec<Place>,
    /// Where secrets are written out.
    pub literals: Vec<Place>,
    /// Files that hold one.
    pub files: Vec<PathBuf>,
    /// Whether one of the list could not be had; the problem is recorded.
    pub broken: bool,
    /// Whether `secrets` is there at all.
    pub stated: bool,
}

const EXPECTED: &str = "a list of texts, such as [\"env:SHOP_SECRET\"]";

pub(crate) fn read(source: &Table<'_>) -> Secrets {
    let mut secrets = Secrets::default();
    let Some(node) = source.get("secrets") else { return secrets };
    secrets.stated = true;
    let Some(items) = node.items(EXPECTED) else {
        secrets.broken = true;
        return secrets;
    };
    for item in items {
        let text = item.text("a text: \"env:NAME\", \"file:/path\" or the secret itself");
        secrets.files.extend(text.and_then(reference::file_of));
        let resolved = text.and_then(|text| resolve(item.context, &item.place, text));
        let Some(resolved) = resolved else {
            secrets.broken = true;
            continue;
        };
        if resolved.literal {
            secrets.literals.push(item.place.clone());
            if resolved.text.starts_with('$') {
                item.context.warn(
                    &item.place,
                    "starts with `$`: it is taken as it is, no variable is put in",
                    "write \"env:NAME\" if a variable was meant",
                );
            }
        }
        match Secret::new(&resolved.text) {
            Ok(secret) => {
                secrets.values.push(secret);
                secrets.places.push(item.place);
            }
            Err(_) => {
                item.problem("the secret is empty: anyone could sign", "set it to the value the provider shows");
                secrets.broken = true;
            }
        }
    }
    secrets
}
