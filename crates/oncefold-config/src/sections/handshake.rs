//! `handshake` of a source: how its provider tests the endpoint.

use crate::reader::{Node, Schema};
use crate::reference::{self, resolve};
use oncefold_signature::{Handshake, Scheme, Secret};
use std::path::PathBuf;

pub(crate) const SCHEMA: Schema =
    Schema { title: "[sources.X.handshake]", keys: &["kind", "verify_token"], later: &[] };

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Slack,
    Meta,
    Zoom,
    Dropbox,
    MicrosoftGraph,
    Okta,
    Sns,
    Xero,
    Discord,
    WooCommerce,
    Probe,
}

const KINDS: [(&str, Kind); 11] = [
    ("slack", Kind::Slack),
    ("meta", Kind::Meta),
    ("zoom", Kind::Zoom),
    ("dropbox", Kind::Dropbox),
    ("microsoft-graph", Kind::MicrosoftGraph),
    ("okta", Kind::Okta),
    ("sns", Kind::Sns),
    ("xero", Kind::Xero),
    ("discord", Kind::Discord),
    ("woocommerce", Kind::WooCommerce),
    ("probe", Kind::Probe),
];

/// `scheme` is that of the source; files that hold a token are added to `files`.
pub(crate) fn read(node: &Node<'_>, scheme: Option<&Scheme>, files: &mut Vec<PathBuf>) -> Option<Handshake> {
    if !node.is_table() {
        return handshake(node, node.choice(&KINDS)?, None, scheme);
    }
    let table = node.table(&SCHEMA)?;
    let Some(kind_node) = table.get("kind") else {
        table.missing("kind", "name the provider, such as kind = \"meta\"");
        return None;
    };
    let kind = kind_node.choice(&KINDS)?;
    let token = table.get("verify_token");
    if let Some(token) = token.as_ref().filter(|_| kind != Kind::Meta) {
        token.problem("only kind \"meta\" has a token", "remove it");
    }
    let token = match token {
        Some(token) => {
            let text = token.text("the token you chose at the provider, such as \"env:META_VERIFY_TOKEN\"")?;
            files.extend(reference::file_of(text));
            let resolved = resolve(token.context, &token.place, text)?;
            match Secret::new(&resolved.text) {
                Ok(secret) => Some(secret),
                Err(_) => {
                    token.problem("is empty: anyone could show it", "choose a text, and enter it at the provider");
                    return None;
                }
            }
        }
        None => None,
    };
    handshake(&kind_node, kind, token, scheme)
}

fn handshake(node: &Node<'_>, kind: Kind, token: Option<Secret>, scheme: Option<&Scheme>) -> Option<Handshake> {
    Some(match kind {
        Kind::Slack => Handshake::Slack,
        Kind::Zoom => Handshake::Zoom,
        Kind::Dropbox => Handshake::Dropbox,
        Kind::MicrosoftGraph => Handshake::MicrosoftGraph,
        Kind::Okta => Handshake::Okta,
        Kind::Xero => Handshake::Xero,
        Kind::Discord => Handshake::Discord,
        Kind::WooCommerce => Handshake::WooCommerce,
        Kind::Probe => Handshake::Probe,
        Kind::Meta => match token {
            Some(verify_token) => Handshake::Meta { verify_token },
            None => {
                node.context.warn(
                    &node.place,
                    "without its token Meta cannot subscribe",
                    "set handshake = { kind = \"meta\", verify_token = \"env:META_VERIFY_TOKEN\" }",
                );
                return None;
            }
        },
        Kind::Sns => match scheme {
            Some(Scheme::Sns(scheme)) => Handshake::Sns { topics: scheme.topics.clone() },
            Some(_) => {
                node.problem("goes with scheme \"sns\"", "set `verify.scheme`, or remove it");
                return None;
            }
            None => return None,
        },
    })
}
