//! `respond` of a source: what an accepted delivery is answered.

use crate::reader::{Node, Schema};

pub(crate) const SCHEMA: Schema =
    Schema { title: "[sources.X.respond]", keys: &["status", "body", "content_type"], later: &[] };

const BODY_BYTES_MAX: usize = 4096;

/// The answer to an accepted delivery, first or repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Respond {
    /// 200 to 299.
    pub status: u16,
    /// The exact body.
    pub body: String,
    /// Its media type; of no use with an empty body.
    pub content_type: String,
}

impl Default for Respond {
    fn default() -> Self {
        Self { status: 200, body: "{\"status\":\"accepted\"}".to_owned(), content_type: "application/json".to_owned() }
    }
}

pub(crate) fn read(node: &Node<'_>) -> Respond {
    let mut respond = Respond::default();
    let Some(table) = node.table(&SCHEMA) else { return respond };
    if let Some(status) = table.get("status").and_then(|n| n.integer(200..=299)) {
        respond.status = u16::try_from(status).unwrap_or(respond.status);
    }
    let bodiless = matches!(respond.status, 204 | 205);
    if bodiless {
        respond.body = String::new();
    }
    if let Some(node) = table.get("body")
        && let Some(body) = node.text("the answer's body in quotes")
    {
        if body.len() > BODY_BYTES_MAX {
            node.problem("is too long", format!("write at most {BODY_BYTES_MAX} bytes"));
        } else if bodiless && !body.is_empty() {
            node.problem(format!("status {} has no body", respond.status), "remove the body, or choose status 200");
        }
        respond.body = body.to_owned();
    }
    if let Some(node) = table.get("content_type")
        && let Some(text) = node.text("a media type such as \"text/plain\"")
    {
        if text.is_empty() || !text.bytes().all(|b| (0x20..0x7F).contains(&b)) {
            node.problem("is no media type", "write one such as \"text/plain\"");
        }
        respond.content_type = text.to_owned();
    }
    respond
}
