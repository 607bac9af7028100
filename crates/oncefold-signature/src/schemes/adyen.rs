//! Scheme `adyen`: standard notifications, whose items are signed one by one, inside the body.
//!
//! An item's `additionalData.hmacSignature` covers eight fields joined by `:`, not escaped, and nothing else:
//! [`UNSIGNED_FIELDS`] can be changed by whoever holds one captured item. As the joined text can be read in several
//! ways, only `merchantReference` may hold a `:`, amounts are plain integers and `success` is one of two texts. Names
//! that are there twice are refused, and an absent field counts as empty.

use crate::diagnosis::{self, Trial};
use crate::encoding;
use crate::json_members::{Members, json_text, objects};
use crate::mac::{HmacAlgorithm, KeyedMac};
use crate::request::Request;
use crate::scheme::{Item, Prepared, Verifier};
use crate::schemes::hmac::{KeyEncoding, decode_key};
use crate::secret::{KeyError, Secret, require_some, short_key_warning};
use crate::time::UnixTime;
use crate::verdict::{Rejection, RejectionReason, Verified};

const ALGORITHM: HmacAlgorithm = HmacAlgorithm::Sha256;

/// What an item's signature does not cover, besides everything else in `additionalData`.
pub const UNSIGNED_FIELDS: [&str; 6] = ["eventDate", "reason", "paymentMethod", "operations", "additionalData", "live"];

pub(crate) fn prepare(secrets: &[Secret]) -> Result<Verifier, KeyError> {
    require_some(secrets)?;
    let (mut keys, mut warnings) = (Vec::new(), Vec::new());
    for (index, secret) in secrets.iter().enumerate() {
        let key = decode_key(index, secret, KeyEncoding::Hex)?;
        warnings.extend(short_key_warning(index, key.len()));
        keys.push(KeyedMac::keyed(ALGORITHM, &key));
    }
    Ok(Verifier::of(PreparedAdyen { keys, secrets: secrets.to_vec() }, warnings))
}

fn malformed(detail: impl Into<String>) -> Rejection {
    Rejection::of(RejectionReason::MalformedBody, detail)
}

/// What is read of one item: its signature and the text that is signed.
struct SignedItem {
    signature: String,
    text: String,
}

impl SignedItem {
    /// `item` is the object inside `NotificationRequestItem`.
    fn read(item: &str) -> Result<Self, Rejection> {
        let (members, data) = Members::parse_with(item, "additionalData")
            .ok_or_else(|| malformed("an item is no JSON object, or has a name twice"))?;
        let signature = data.map(|data| data.text("hmacSignature")).transpose().map_err(not_text)?.flatten();
        let signature = signature.filter(|text| !text.is_empty()).ok_or_else(|| {
            Rejection::of(RejectionReason::MissingSignature, "an item has no additionalData.hmacSignature")
        })?;
        let field = |name| members.text(name).map_err(not_text).map(Option::unwrap_or_default);
        let (value, currency) = amount(&members)?;
        let fields = [
            ("pspReference", field("pspReference")?),
            ("originalReference", field("originalReference")?),
            ("merchantAccountCode", field("merchantAccountCode")?),
            ("merchantReference", field("merchantReference")?),
            ("amount.value", value),
            ("amount.currency", currency),
            ("eventCode", field("eventCode")?),
            ("success", field("success")?),
        ];
        let divided = fields.iter().find(|(name, text)| *name != "merchantReference" && text.contains(':'));
        if let Some((name, _)) = divided {
            return Err(malformed(format!(
                "{name} of an item holds a colon, so the signed text could be read two ways"
            )));
        }
        if !matches!(fields[7].1.as_str(), "true" | "false") {
            return Err(malformed("success of an item is neither \"true\" nor \"false\""));
        }
        Ok(Self { signature, text: fields.map(|(_, text)| text).join(":") })
    }
}

fn not_text(name: &str) -> Rejection {
    malformed(format!("{name} of an item is no text"))
}

/// Value and currency as they are signed; empty where there is no amount.
fn amount(members: &Members<'_>) -> Result<(String, String), Rejection> {
    let amount = match members.get("amount") {
        None | Some("null") => return Ok(Default::default()),
        Some(json) => Members::parse_top(json).ok_or_else(|| malformed("amount of an item is no object"))?,
    };
    let value = match amount.get("value") {
        None | Some("null") => String::new(),
        Some(json) if json.starts_with('"') => amount.text("value").map_err(not_text)?.unwrap_or_default(),
        Some(number) => number.to_owned(),
    };
    let currency = amount.text("currency").map_err(not_text)?.unwrap_or_default();
    let digits = value.strip_prefix('-').unwrap_or(&value);
    if !value.is_empty() && (digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err(malformed("amount.value of an item is no plain integer"));
    }
    let is_code = currency.len() == 3 && currency.bytes().all(|byte| byte.is_ascii_uppercase());
    if !currency.is_empty() && !is_code {
        return Err(malformed("amount.currency of an item is not three upper-case letters"));
    }
    Ok((value, currency))
}

/// The objects inside `NotificationRequestItem`, as their exact text.
fn items(body: &[u8]) -> Result<Vec<&str>, Rejection> {
    let envelope = std::str::from_utf8(body).ok().and_then(Members::parse_top).ok_or_else(|| {
        malformed(match json_text(body) {
            Some(_) => "the body is no JSON object, or has a name twice",
            None => "the body is no JSON; Adyen has a setting for JSON, this is the only format that is taken",
        })
    })?;
    let list = envelope.get("notificationItems").filter(|list| list.starts_with('['));
    let list = list.ok_or_else(|| malformed("the body has no list notificationItems: is this a platform webhook?"))?;
    let items = objects(list)
        .and_then(|items| items.iter().map(|item| item.get("NotificationRequestItem")).collect::<Option<Vec<_>>>());
    let items = items
        .ok_or_else(|| malformed("an element of notificationItems has no NotificationRequestItem, or has it twice"))?;
    if items.is_empty() {
        return Err(malformed("notificationItems is empty"));
    }
    Ok(items)
}

struct PreparedAdyen {
    keys: Vec<KeyedMac>,
    secrets: Vec<Secret>,
}

impl PreparedAdyen {
    fn verify_item(&self, item: &str) -> Result<Verified, Rejection> {
        let item = SignedItem::read(item)?;
        let text = item.signature.as_bytes();
        let signature = encoding::signature_from_base64(text, ALGORITHM.tag_len()).ok_or_else(|| {
            diagnosis::malformed_signature("additionalData.hmacSignature", text, "base64 of 32 bytes")
        })?;
        let fits = |key: &KeyedMac| key.over(&[item.text.as_bytes()]).equals(signature.as_slice());
        let position = self.keys.iter().position(fits);
        let index = position.ok_or_else(|| diagnosis::no_match("the signature of an item", self.keys.len()))?;
        Ok(Verified { secret_index: Some(index), signed_at_s: None })
    }
}

impl Prepared for PreparedAdyen {
    /// Valid where every item is; the matching secret is the last in the list that any item needs.
    fn verify(&self, req: &Request<'_>, _now: UnixTime) -> Result<Verified, Rejection> {
        let items = items(req.body)?;
        let (count, mut last) = (items.len(), None);
        for (at, item) in items.into_iter().enumerate() {
            let verified = self.verify_item(item).map_err(|rejection| {
                Rejection::of(rejection.reason, format!("item {} of {count}: {}", at + 1, rejection.detail))
            })?;
            last = last.max(verified.secret_index);
        }
        Ok(Verified { secret_index: last, signed_at_s: None })
    }

    fn verify_items<'a>(&self, req: &Request<'a>, _now: UnixTime) -> Result<Vec<Item<'a>>, Rejection> {
        let items = items(req.body)?;
        Ok(items
            .into_iter()
            .map(|item| Item { body: item.as_bytes(), verdict: self.verify_item(item).into() })
            .collect())
    }

    fn diagnose(&self, req: &Request<'_>, _now: UnixTime, rejection: &Rejection) -> Vec<String> {
        let Ok(items) = items(req.body) else { return Vec::new() };
        let refused = items.into_iter().find(|item| self.verify_item(item).is_err());
        let Some(Ok(item)) = refused.map(SignedItem::read) else { return Vec::new() };
        let signatures: Vec<_> = encoding::readings(item.signature.as_bytes()).into_iter().map(|(_, b)| b).collect();
        let escaped = escaped_text(&item.text);
        let fits = |_: usize, key: &[u8], req: &Request<'_>| {
            let tag = KeyedMac::keyed(ALGORITHM, key).over(&[req.body]);
            signatures.iter().any(|bytes| tag.equals(bytes))
        };
        let trial = Trial { secrets: &self.secrets, configured: KeyEncoding::Hex, signs_url: false, fits: &fits };
        let signed = Request { body: item.text.as_bytes(), ..*req };
        let old = Request { body: escaped.as_bytes(), ..*req };
        let old_form = (0..self.secrets.len()).find(|index| trial.fits_configured(*index, &old));
        match old_form {
            Some(index) => vec![format!(
                "the signature fits secrets[{index}] over escaped fields, the form of Adyen's old payment pages: notifications are not escaped"
            )],
            None => trial.explain(&signed, rejection),
        }
    }
}

/// The joined fields as the old payment pages wrote them; the field that may hold a colon is the fourth of eight.
fn escaped_text(text: &str) -> String {
    let fields: Vec<_> = text.split(':').collect();
    let Some(end) = fields.len().checked_sub(4).filter(|end| *end > 3) else { return text.to_owned() };
    let reference = fields[3..end].join(":").replace('\\', "\\\\").replace(':', "\\:");
    [&fields[..3], &[reference.as_str()], &fields[end..]].concat().join(":")
}

#[cfg(test)]
#[path = "adyen_tests.rs"]
mod tests;
