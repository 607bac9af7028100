//! `[admin]`: the admin API and who may use it.

use crate::reader::{Node, Schema, Table};
use crate::reference::resolve;
use crate::sections::listen;
use oncefold_core::Digest;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

pub(crate) const SCHEMA: Schema = Schema { title: "[admin]", keys: &["listen", "tokens"], later: &[] };
pub(crate) const TOKEN_SCHEMA: Schema =
    Schema { title: "[[admin.tokens]]", keys: &["name", "role", "sha256"], later: &[] };

const VARIABLE: &str = "ONCEFOLD_ADMIN_LISTEN";
const NAME_BYTES_MAX: usize = 64;

/// Settings of the admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Its address; port 0 is any. Loopback where there are no tokens.
    pub listen: SocketAddr,
    /// Who may use it; with none, one token is made at start and printed.
    pub tokens: Vec<AdminToken>,
}

impl Default for Admin {
    fn default() -> Self {
        Self { listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8081)), tokens: vec![] }
    }
}

/// A person or program that may use the admin API. `Debug` does not show the hash.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken {
    /// Who it is, for the audit log.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// SHA-256 of the token.
    pub sha256: Digest,
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminToken").field("name", &self.name).field("role", &self.role).finish_non_exhaustive()
    }
}

/// What a token's holder may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Read.
    Viewer,
    /// Read and change.
    Operator,
}

impl Role {
    /// Its name in the config.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
        }
    }
}

pub(crate) fn read(root: &Table<'_>) -> Admin {
    let section = root.section("admin", &SCHEMA);
    let context = section.context;
    let tokens = section.get("tokens");
    let nodes = tokens.and_then(|n| n.items("a list of { name, role, sha256 }")).unwrap_or_default();
    let mut admin = Admin::default();
    for node in &nodes {
        read_token(node, &mut admin.tokens);
    }
    let Some(setting) = section.setting("listen", VARIABLE) else { return admin };
    let Some(address) = listen::address(context, &setting) else { return admin };
    if nodes.is_empty() && !address.ip().is_loopback() {
        context.problem(
            &setting.place,
            "without tokens the admin API listens on loopback only",
            "make one with `oncefold token new` and put the line it prints under [admin], or listen at 127.0.0.1",
        );
    }
    admin.listen = address;
    admin
}

fn read_token(node: &Node<'_>, tokens: &mut Vec<AdminToken>) {
    let Some(table) = node.table(&TOKEN_SCHEMA) else { return };
    let name = required(&table, "name").and_then(|n| name_of(&n, tokens));
    let role =
        required(&table, "role").and_then(|n| n.choice(&[("viewer", Role::Viewer), ("operator", Role::Operator)]));
    let sha256 = required(&table, "sha256").and_then(|n| hash_of(&n, tokens));
    if let (Some(name), Some(role), Some(sha256)) = (name, role, sha256) {
        tokens.push(AdminToken { name, role, sha256 });
    }
}

fn required<'a>(table: &Table<'a>, key: &'static str) -> Option<Node<'a>> {
    let node = table.get(key);
    if node.is_none() {
        table.missing(key, "paste the whole line that `oncefold token new` prints");
    }
    node
}

fn name_of(node: &Node<'_>, tokens: &[AdminToken]) -> Option<String> {
    let text = node.text("the name of who holds the token")?;
    if text.is_empty() || text.len() > NAME_BYTES_MAX || text.chars().any(char::is_control) {
        node.problem("is no name for a token", format!("write 1 to {NAME_BYTES_MAX} bytes without control characters"));
        return None;
    }
    if tokens.iter().any(|t| t.name == text) {
        node.problem("another token has this name", "give each its own: the audit log tells them apart by it");
        return None;
    }
    Some(text.to_owned())
}

fn hash_of(node: &Node<'_>, tokens: &[AdminToken]) -> Option<Digest> {
    let text = node.text("the SHA-256 of the token, 64 hex digits, or a reference to it")?;
    let text = resolve(node.context, &node.place, text)?.text;
    let Some(sha256) = Digest::parse_hex(&text) else {
        node.problem(
            "is not 64 hex digits",
            "write the SHA-256 of the token, not the token; `oncefold token new` prints both",
        );
        return None;
    };
    if tokens.iter().any(|t| t.sha256 == sha256) {
        node.problem("another token has this hash", "make one for each holder with `oncefold token new`");
        return None;
    }
    Some(sha256)
}
