//! Every provider vector through the preset that it names, judged by its `verdict`, in one table.
//! Source: the providers' published vectors and SDKs; each names its own in `provenance`.

use super::*;
use oncefold_signature::{Request, UnixTime, Verdict};
use serde_json::Value;

const VECTORS: &str = include_str!("../../testdata/vectors.json");

/// Presets without a signature to verify; they come with fetching.
const LATER: [&str; 3] = ["gopay", "hubspot-v1", "mollie-classic"];

/// One recorded delivery.
#[derive(Clone)]
pub(super) struct Vector {
    pub preset: String,
    pub name: String,
    pub secrets: Vec<String>,
    pub method: String,
    pub url: String,
    /// What the path ends in, where that is the credential.
    pub path_token: Option<String>,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
    pub now: UnixTime,
    pub is_valid: bool,
    /// A verdict for each event, where events are signed one by one.
    pub items: Option<Vec<bool>>,
    pub certificate: Option<String>,
    pub why: String,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

fn from_base64(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).unwrap()
}

impl Vector {
    fn read(vector: &Value) -> Self {
        let headers = vector["headers"].as_object().unwrap();
        let items = vector["items"].as_array();
        Self {
            preset: text(&vector["preset"]),
            name: format!("{}/{}", text(&vector["preset"]), text(&vector["name"])),
            secrets: vector["secrets"].as_array().unwrap().iter().map(text).collect(),
            method: text(&vector["method"]),
            url: text(&vector["url"]),
            path_token: None,
            headers: headers.iter().map(|(name, value)| (name.clone(), text(value).into_bytes())).collect(),
            body: match vector["body_b64"].as_str() {
                Some(encoded) => from_base64(encoded),
                None => text(&vector["body"]).into_bytes(),
            },
            now: UnixTime::from_secs(vector["now"].as_i64().unwrap()),
            is_valid: vector["verdict"] == "valid",
            items: items.map(|items| items.iter().map(|item| item == "valid").collect()),
            certificate: vector["test_cert_pem"].as_str().map(str::to_owned),
            why: text(&vector["why"]),
        }
    }

    /// Those whose presets are shipped.
    pub fn all() -> Vec<Self> {
        let vectors: Vec<Value> = serde_json::from_str(VECTORS).unwrap();
        vectors.iter().map(Self::read).filter(|vector| !LATER.contains(&vector.preset.as_str())).collect()
    }

    /// The source as a user states it: the preset, the secrets, the URL, the certificate.
    pub fn source(&self) -> Result<SourceConfig, Problems> {
        let names: Vec<_> = (0..self.secrets.len()).map(|index| format!("SECRET_{index}")).collect();
        let variables: Vec<_> =
            names.iter().zip(&self.secrets).map(|(name, secret)| (name.as_str(), secret.as_str())).collect();
        let mut lines = format!("[sources.x]\npreset = '{}'\nurl = '{}'\n", self.preset, self.url);
        if !names.is_empty() {
            let listed: Vec<_> = names.iter().map(|name| format!("'env:{name}'")).collect();
            lines.push_str(&format!("secrets = [{}]\n", listed.join(", ")));
        }
        let file = self.certificate.as_ref().map(|pem| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), pem).unwrap();
            file
        });
        if let Some(file) = &file {
            lines.push_str(&format!("certificates = ['{}']\n", file.path().display()));
        }
        load_with(&lines, &variables).map(|mut loaded| loaded.config.sources.remove(0))
    }

    pub fn with_request<T>(&self, then: impl FnOnce(&Request<'_>) -> T) -> T {
        let headers: Vec<(&str, &[u8])> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        then(&Request {
            method: &self.method,
            url: Some(&self.url),
            query: self.url.split_once('?').map_or("", |(_, query)| query),
            path_token: self.path_token.as_deref(),
            headers: &headers,
            body: &self.body,
        })
    }

    /// The verdict, and what a person would read.
    fn judged(&self) -> (bool, String) {
        let source = match self.source() {
            Ok(source) => source,
            Err(problems) => {
                // A secret that cannot be used verifies nothing; any other problem is one of the preset.
                let of_secrets = problems.problems.iter().all(|p| p.path.starts_with("sources.x.secrets["));
                assert!(of_secrets, "{}: {problems}", self.name);
                return (false, problems.to_string());
            }
        };
        match self.with_request(|request| source.verifier.verify(request, self.now)) {
            Verdict::Valid(verified) => (true, format!("{verified:?}")),
            Verdict::Invalid(rejection) => (false, format!("{}: {}", rejection.reason, rejection.detail)),
        }
    }
}

#[test]
fn every_vector_gets_its_verdict() {
    let vectors = Vector::all();
    assert_eq!(vectors.len(), 217);
    let failures: Vec<_> = vectors
        .iter()
        .filter_map(|vector| {
            let (is_valid, why) = vector.judged();
            (is_valid != vector.is_valid).then(|| {
                let Vector { name, is_valid: expected, why: reason, .. } = vector;
                format!("{name}: valid is {is_valid} ({why}), expected {expected}: {reason}")
            })
        })
        .collect();
    assert!(failures.is_empty(), "{} vectors fail:\n{}", failures.len(), failures.join("\n"));
}

/// The items of these are listed as libraries see them: by their values, with the last of two equal names.
const STRICTER: [&str; 2] = ["adyen/duplicate-key-success", "adyen/non-injective-join-reading-2"];

#[test]
fn every_item_gets_its_verdict() {
    let mut items_seen = 0;
    for vector in Vector::all() {
        let Some(expected) = vector.items.as_ref().filter(|_| !STRICTER.contains(&vector.name.as_str())) else {
            continue;
        };
        let verifier = vector.source().unwrap().verifier;
        let items = vector.with_request(|request| {
            let items = verifier.verify_items(request, vector.now).unwrap_or_default();
            items.iter().map(|item| item.verdict.is_valid()).collect::<Vec<_>>()
        });
        assert_eq!(&items, expected, "{}", vector.name);
        items_seen += items.len();
    }
    assert_eq!(items_seen, 33);
}
