//! Who may do what: bearer tokens (RFC 6750) of which only the SHA-256 is known here.

use crate::api::SharedApi;
use crate::problem::Problem;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, header};
use oncefold_core::store::Actor;
use sha2::{Digest as _, Sha256};
use std::fmt;
use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};

/// What a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// To look.
    Viewer,
    /// To look and to act.
    Operator,
}

/// A configured token. The token itself is known to its holder alone.
#[derive(Clone)]
pub struct AdminToken {
    /// What its holder is called in the audit and in logs.
    pub name: String,
    /// What it allows.
    pub role: Role,
    /// SHA-256 of the token.
    pub sha256: [u8; 32],
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminToken").field("name", &self.name).field("role", &self.role).finish_non_exhaustive()
    }
}

/// SHA-256 of a token, as the config holds it.
pub fn hash_token(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// What an endpoint asks of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing: it holds no data.
    Open,
    /// A token of at least this role.
    AtLeast(Role),
}

/// Lets a request pass whose token has the role, and tells the handler who asks.
pub async fn authenticate(
    State((api, needed)): State<(SharedApi, Role)>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(presented) = bearer(request.headers()) else {
        return Problem::unauthorized("Bearer").into_response();
    };
    let Some(token) = find(&api.tokens, presented) else {
        return Problem::unauthorized("Bearer error=\"invalid_token\"").into_response();
    };
    if token.role < needed {
        return Problem::forbidden().into_response();
    }
    request.extensions_mut().insert(Actor(token.name.clone()));
    next.run(request).await
}

/// The token of the one `Authorization` header; the scheme's name is case-insensitive (RFC 9110, section 11.1).
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next()?.as_bytes();
    if values.next().is_some() {
        return None;
    }
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    (scheme.eq_ignore_ascii_case(b"Bearer ") && !token.is_empty()).then_some(token)
}

/// Compares with every token, and always with all of them, so that timing tells nothing.
fn find<'t>(tokens: &'t [AdminToken], presented: &[u8]) -> Option<&'t AdminToken> {
    let digest: [u8; 32] = Sha256::digest(presented).into();
    let mut found = Choice::from(0);
    let mut index = 0_u64;
    for (position, token) in (0_u64..).zip(tokens) {
        let same = token.sha256.ct_eq(&digest);
        index.conditional_assign(&position, same);
        found |= same;
    }
    if bool::from(found) { tokens.get(usize::try_from(index).ok()?) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(name: &str, role: Role) -> AdminToken {
        AdminToken { name: name.to_owned(), role, sha256: hash_token(&format!("{name}-secret")) }
    }

    /// FIPS 180-4 example: SHA-256 of "abc".
    #[test]
    fn a_token_is_hashed_with_sha256() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex::encode(hash_token("abc")), expected);
    }

    #[test]
    fn each_token_is_found_by_its_secret_only() {
        let tokens = [token("a", Role::Viewer), token("b", Role::Operator), token("c", Role::Viewer)];
        for name in ["a", "b", "c"] {
            assert_eq!(find(&tokens, format!("{name}-secret").as_bytes()).unwrap().name, name);
        }
        assert!(find(&tokens, b"d-secret").is_none());
        assert!(find(&tokens, b"").is_none());
        assert!(find(&[], b"a-secret").is_none());
        // Who has read the config has no token.
        assert!(find(&tokens, &tokens[0].sha256).is_none());
        assert!(find(&tokens, hex::encode(tokens[0].sha256).as_bytes()).is_none());
    }

    #[test]
    fn only_one_bearer_header_is_a_token() {
        let headers = |values: &[&'static str]| {
            let mut map = HeaderMap::new();
            for value in values {
                map.append(header::AUTHORIZATION, http::HeaderValue::from_static(value));
            }
            map
        };
        assert_eq!(bearer(&headers(&["Bearer x y"])), Some(&b"x y"[..]));
        assert_eq!(bearer(&headers(&["bEARER x"])), Some(&b"x"[..]));
        for none in [&[][..], &["Bearer"], &["Bearer "], &["Basic x"], &["x"], &["Bearer x", "Bearer x"]] {
            assert_eq!(bearer(&headers(none)), None, "{none:?}");
        }
    }

    #[test]
    fn a_token_shows_no_hash() {
        let shown = format!("{:?}", token("ops", Role::Operator));
        assert_eq!(shown, "AdminToken { name: \"ops\", role: Operator, .. }");
    }
}
