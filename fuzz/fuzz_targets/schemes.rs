//! Every preset's verifier: a delivery that was signed is edited at will. Nothing panics, and what is accepted carries a
//! signature over what came, recomputed here apart from the product: any form the provider could write it in.
#![no_main]

use arbitrary::Arbitrary;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use libfuzzer_sys::fuzz_target;
use oncefold_config::{Config, SourceConfig, presets};
use oncefold_signature::{Rejection, Request, UnixTime, Verdict};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use serde_json::Value;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::sync::LazyLock;

const NOW_S: i64 = 1_760_000_000;
const TEXT: &str = "a literal secret of 33 characters";
const HEX: &str = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056";
const WHSEC: &str = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const URL: &str = "https://hooks.example/in/x?a=1";

type Headers = Vec<(String, Vec<u8>)>;

fn hmac<M: KeyInit + Mac>(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = <M as KeyInit>::new_from_slice(key).unwrap();
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

fn sha256(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    hmac::<Hmac<Sha256>>(key, parts)
}

fn key_pair() -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(b"the seed of an ed25519 key, 32 b").unwrap()
}

fn secret(preset: &str) -> String {
    match preset {
        "adyen" | "adyen-platform" => HEX.to_owned(),
        "svix" | "standard-webhooks" | "storekit" => format!("whsec_{WHSEC}"),
        "discord" => hex::encode(key_pair().public_key().as_ref()),
        _ => TEXT.to_owned(),
    }
}

static SOURCES: LazyLock<Vec<(&'static str, SourceConfig)>> = LazyLock::new(|| {
    let of = |name: &'static str| {
        let secrets = if name == "sns" { String::new() } else { format!("secrets = [\"{}\"]\n", secret(name)) };
        let text = format!("[sources.x]\npreset = \"{name}\"\nurl = \"{URL}\"\n{secrets}");
        let loaded = Config::parse("fuzz.toml", &text, &|_| None).unwrap_or_else(|problems| panic!("{problems}"));
        (name, loaded.config.sources.into_iter().next().unwrap())
    };
    presets().iter().map(|preset| of(preset.name)).collect()
});

#[derive(Arbitrary, Debug)]
struct Edit {
    target: u8,
    at: u16,
    remove: u8,
    insert: Vec<u8>,
    kind: u8,
}

#[derive(Arbitrary, Debug)]
struct Input {
    preset: u8,
    body: Vec<u8>,
    edits: Vec<Edit>,
    late_s: i16,
}

/// A delivery as the provider makes it.
struct Delivery {
    headers: Headers,
    body: Vec<u8>,
    query: String,
    token: Option<String>,
}

impl Delivery {
    fn signed(preset: &str, source: &SourceConfig, body: &[u8]) -> Self {
        let form = b"application/x-www-form-urlencoded".to_vec();
        let mut delivery = Self {
            headers: vec![("content-type".to_owned(), form)],
            body: body.to_vec(),
            query: String::new(),
            token: None,
        };
        match preset {
            "adyen" => {
                let reference = String::from_utf8_lossy(body).into_owned();
                let text = format!("P:1:Shop:{reference}:1:EUR:A:true").replacen("P:1", "P:", 1);
                let tag = STANDARD.encode(sha256(&hex::decode(HEX).unwrap(), &[text.as_bytes()]));
                let item = serde_json::json!({"additionalData": {"hmacSignature": tag}, "pspReference": "P",
                    "merchantAccountCode": "Shop", "merchantReference": reference, "eventCode": "A", "success": "true",
                    "amount": {"value": 1, "currency": "EUR"}});
                let batch =
                    serde_json::json!({"live": "false", "notificationItems": [{"NotificationRequestItem": item}]});
                delivery.body = batch.to_string().into_bytes();
            }
            "discord" => {
                let signature = key_pair().sign(&[NOW_S.to_string().as_bytes(), body].concat());
                let signature = hex::encode(signature.as_ref()).into_bytes();
                delivery.headers.push(("X-Signature-Ed25519".to_owned(), signature));
                delivery.headers.push(("X-Signature-Timestamp".to_owned(), NOW_S.to_string().into_bytes()));
            }
            "paypal" | "sns" => {}
            _ => {
                let signed = delivery.request(|request| {
                    source.scheme.sign(&source.secrets[0], "msg_1", request, UnixTime::from_secs(NOW_S)).unwrap()
                });
                delivery.headers.extend(signed.headers.into_iter().map(|(name, value)| (name, value.into_bytes())));
                delivery.query = signed.query.unwrap_or_default();
                delivery.token = signed.path_token;
            }
        }
        delivery
    }

    fn request<T>(&self, then: impl FnOnce(&Request<'_>) -> T) -> T {
        let headers: Vec<(&str, &[u8])> = self.headers.iter().map(|(n, v)| (n.as_str(), v.as_slice())).collect();
        let token = self.token.as_deref();
        let (query, url) = (self.query.as_str(), Some(URL));
        then(&Request { method: "POST", url, query, path_token: token, headers: &headers, body: &self.body })
    }

    fn edit(&mut self, edit: &Edit) {
        let count = self.headers.len();
        let which = usize::from(edit.target) % (count + 2);
        let replace = |bytes: &mut Vec<u8>| {
            let at = usize::from(edit.at) % (bytes.len() + 1);
            let end = (at + usize::from(edit.remove) % 80).min(bytes.len());
            bytes.splice(at..end, edit.insert.iter().copied());
        };
        if which == count {
            return replace(&mut self.body);
        }
        if which > count {
            let mut query = std::mem::take(&mut self.query).into_bytes();
            replace(&mut query);
            self.query = String::from_utf8_lossy(&query).into_owned();
            return;
        }
        match edit.kind % 8 {
            0 => drop(self.headers.remove(which)),
            1 => {
                let copy = self.headers[which].clone();
                self.headers.push(copy);
            }
            2 => {
                let (name, mut value) = self.headers[which].clone();
                replace(&mut value);
                self.headers.push((name, value));
            }
            3 => {
                let other = usize::from(edit.at) % count;
                self.headers[which].1 = self.headers[other].1.clone();
            }
            _ => replace(&mut self.headers[which].1),
        }
    }

    fn values(&self, name: &str) -> Vec<&[u8]> {
        self.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_slice()).collect()
    }

    fn has(&self, name: &str, signature: &str) -> bool {
        let found = |value: &[u8]| value.windows(signature.len()).any(|window| window == signature.as_bytes());
        self.values(name).into_iter().any(found)
    }

    /// Whether the header holds the tag of the parts, in hex or base64, with any time among `times` for `None`.
    fn tagged(&self, header: &str, key: &[u8], times: &[Vec<u8>], parts: &[Option<&[u8]>]) -> bool {
        times.iter().any(|time| {
            let parts: Vec<&[u8]> = parts.iter().map(|part| part.unwrap_or(time)).collect();
            let tag = sha256(key, &parts);
            self.has(header, &hex::encode(&tag)) || self.has(header, &STANDARD.encode(&tag))
        })
    }

    fn times(&self, name: &str) -> Vec<Vec<u8>> {
        self.values(name).into_iter().map(<[u8]>::to_vec).collect()
    }

    /// The digits in a header of fields: any of them may be the time.
    fn digits(&self, name: &str) -> Vec<Vec<u8>> {
        let values = self.values(name);
        let pieces = values.into_iter().flat_map(|value| value.split(|byte| !byte.is_ascii_digit()));
        pieces.filter(|piece| !piece.is_empty()).map(<[u8]>::to_vec).collect()
    }

    fn standard_webhooks(&self, family: &str, key: &[u8]) -> bool {
        let name = |field: &str| format!("{family}-{field}");
        let ids = self.values(&name("id"));
        let times = self.times(&name("timestamp"));
        ids.iter().any(|id| {
            let parts = [Some(*id), Some(b".".as_slice()), None, Some(b"."), Some(&self.body)];
            self.tagged(&name("signature"), key, &times, &parts)
        })
    }

    /// Whether a signature over what is here is among the headers.
    fn is_signed(&self, preset: &str) -> bool {
        let body = Some(self.body.as_slice());
        let text = TEXT.as_bytes();
        let whole = |header: &str| self.tagged(header, text, &[vec![]], &[body]);
        let whsec = STANDARD.decode(WHSEC).unwrap();
        match preset {
            "svix" | "storekit" => ["svix", "webhook"].iter().any(|family| self.standard_webhooks(family, &whsec)),
            "standard-webhooks" => self.standard_webhooks("webhook", &whsec),
            "bigcommerce" => self.standard_webhooks("webhook", text),
            "stripe" => {
                self.tagged("stripe-signature", text, &self.digits("stripe-signature"), &[None, Some(b"."), body])
            }
            "paddle" => {
                self.tagged("paddle-signature", text, &self.digits("paddle-signature"), &[None, Some(b":"), body])
            }
            "slack" | "zoom" => {
                let (header, time) = match preset {
                    "slack" => ("x-slack-signature", "x-slack-request-timestamp"),
                    _ => ("x-zm-signature", "x-zm-request-timestamp"),
                };
                self.tagged(header, text, &self.times(time), &[Some(b"v0:"), None, Some(b":"), body])
            }
            "zendesk" => {
                let times = self.times("x-zendesk-webhook-signature-timestamp");
                self.tagged("x-zendesk-webhook-signature", text, &times, &[None, body])
            }
            "hubspot" => {
                let times = self.times("x-hubspot-request-timestamp");
                let parts = [Some(b"POST".as_slice()), Some(URL.as_bytes()), body, None];
                self.tagged("x-hubspot-signature-v3", text, &times, &parts)
            }
            "square" => {
                let parts = [Some(URL.as_bytes()), body];
                self.tagged("x-square-hmacsha256-signature", text, &[vec![]], &parts)
            }
            "shopify" => whole("x-shopify-hmac-sha256") || whole("shopify-hmac-sha256"),
            "github" | "meta" => whole("x-hub-signature-256"),
            "intercom" => self.has("x-hub-signature", &hex::encode(hmac::<Hmac<Sha1>>(text, &[&self.body]))),
            "mollie" => whole("x-mollie-signature"),
            "linear" => whole("linear-signature"),
            "dropbox" => whole("x-dropbox-signature"),
            "woocommerce" => whole("x-wc-webhook-signature"),
            "xero" => whole("x-xero-signature"),
            "adyen-platform" => self.tagged("hmacsignature", &hex::decode(HEX).unwrap(), &[vec![]], &[body]),
            "adyen" => adyen(&self.body),
            "discord" => self.discord(),
            "twilio" => self.twilio(),
            "zonos" => self.token.as_deref() == Some(TEXT),
            "paypal" | "sns" => false,
            other => panic!("no oracle for preset {other}"),
        }
    }

    fn discord(&self) -> bool {
        let public = key_pair().public_key().as_ref().to_vec();
        let signatures = self.values("x-signature-ed25519").into_iter().filter_map(|text| hex::decode(text).ok());
        signatures.into_iter().any(|signature| {
            let fits = |time: &Vec<u8>| {
                let text = [time.as_slice(), &self.body].concat();
                UnparsedPublicKey::new(&ED25519, &public).verify(&text, &signature).is_ok()
            };
            self.times("x-signature-timestamp").iter().any(fits)
        })
    }

    fn twilio(&self) -> bool {
        let pairs: BTreeSet<(Vec<u8>, Vec<u8>)> =
            self.body.split(|b| *b == b'&').filter(|p| !p.is_empty()).map(pair).collect();
        let form: Vec<u8> = pairs.into_iter().flat_map(|(name, value)| [name, value]).flatten().collect();
        let hash = format!("bodySHA256={}", hex::encode(Sha256::digest(&self.body)));
        let url = match self.query.as_str() {
            "" => URL.to_owned(),
            query => format!("{}?{query}", URL.split('?').next().unwrap()),
        };
        let ported = url.replacen("hooks.example", "hooks.example:443", 1);
        let candidates = [&form[..], b""];
        candidates.iter().any(|parameters| {
            // A form such as `&=` has no content to bind: its signed text is the URL, as the library's is.
            let is_bound = !parameters.is_empty() || form.is_empty() || url.contains(&hash);
            is_bound
                && [&url, &ported].iter().any(|url| {
                    let (sha1, sha256) = (
                        hmac::<Hmac<Sha1>>(TEXT.as_bytes(), &[url.as_bytes(), parameters]),
                        sha256(TEXT.as_bytes(), &[url.as_bytes(), parameters]),
                    );
                    self.has("x-twilio-signature", &STANDARD.encode(sha1))
                        || self.has("x-twilio-signature", &STANDARD.encode(sha256))
                })
        })
    }
}

/// A name and a value of a form, decoded byte by byte.
fn pair(text: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let at = text.iter().position(|byte| *byte == b'=').unwrap_or(text.len());
    let decoded = |text: &[u8]| {
        let (mut out, mut rest) = (vec![], text);
        while let [first, tail @ ..] = rest {
            let byte = tail.get(..2).filter(|_| *first == b'%').and_then(|digits| hex::decode(digits).ok());
            match byte {
                Some(byte) => {
                    out.extend(byte);
                    rest = &tail[2..];
                }
                None => {
                    out.push(if *first == b'+' { b' ' } else { *first });
                    rest = tail;
                }
            }
        }
        out
    };
    (decoded(&text[..at]), decoded(text.get(at + 1..).unwrap_or_default()))
}

/// Every item's eight fields, joined, have the tag it shows.
fn adyen(body: &[u8]) -> bool {
    let Ok(json) = serde_json::from_slice::<Value>(body) else { return false };
    let Some(items) = json["notificationItems"].as_array().filter(|items| !items.is_empty()) else { return false };
    let text = |value: Option<&Value>| match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let fields = [
        "/pspReference",
        "/originalReference",
        "/merchantAccountCode",
        "/merchantReference",
        "/amount/value",
        "/amount/currency",
        "/eventCode",
        "/success",
    ];
    items.iter().all(|item| {
        let item = &item["NotificationRequestItem"];
        let joined = fields.map(|pointer| text(item.pointer(pointer))).join(":");
        let tag = STANDARD.encode(sha256(&hex::decode(HEX).unwrap(), &[joined.as_bytes()]));
        item["additionalData"]["hmacSignature"] == tag
    })
}

fuzz_target!(|input: Input| {
    let (preset, source) = &SOURCES[usize::from(input.preset) % SOURCES.len()];
    let mut delivery = Delivery::signed(preset, source, &input.body);
    input.edits.iter().take(6).for_each(|edit| delivery.edit(edit));
    let now = UnixTime::from_secs(NOW_S + i64::from(input.late_s));
    let verdict = delivery.request(|request| source.verifier.verify(request, now));
    let all_items = delivery.request(|request| {
        let items = source.verifier.verify_items(request, now);
        items.is_ok_and(|items| !items.is_empty() && items.iter().all(|item| item.verdict.is_valid()))
    });
    assert_eq!(all_items, verdict.is_valid(), "{preset}: one by one and as a whole differ");
    match verdict {
        Verdict::Valid(verified) => {
            assert!(delivery.is_signed(preset), "{preset}: accepted without a signature over what came");
            let age_s = verified.signed_at_s.map_or(0, |at_s| (now.as_secs() - at_s).abs());
            assert!(age_s <= 300, "{preset}: {age_s} s from now");
        }
        Verdict::Invalid(rejection) => {
            assert!(rejection.detail.len() <= Rejection::MAX_DETAIL);
            let told = delivery.request(|request| source.verifier.diagnose(request, now, &rejection));
            let secret = secret(preset);
            assert!(*preset == "discord" || !told.contains(&secret), "{preset}: a secret is shown: {told}");
        }
    }
});
