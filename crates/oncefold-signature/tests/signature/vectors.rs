//! Every provider vector, judged by its `verdict`, in one table.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oncefold_signature::{HeaderFamily, Request, Scheme, Secret, StandardWebhooks, StripeScheme, UnixTime, Verdict};
use serde_json::Value;

const VECTORS: &str = include_str!("vectors.json");

fn scheme_of(preset: &str) -> Scheme {
    match preset {
        "svix" => Scheme::StandardWebhooks(StandardWebhooks::default()),
        "standard-webhooks" => {
            Scheme::StandardWebhooks(StandardWebhooks { headers: HeaderFamily::Webhook, ..StandardWebhooks::default() })
        }
        "stripe" => Scheme::Stripe(StripeScheme::default()),
        other => panic!("no scheme for preset {other}"),
    }
}

fn text<'a>(vector: &'a Value, field: &str) -> &'a str {
    vector[field].as_str().unwrap_or_else(|| panic!("vector without {field}"))
}

fn body_of(vector: &Value) -> Vec<u8> {
    match vector["body_b64"].as_str() {
        Some(encoded) => STANDARD.decode(encoded).expect("body_b64"),
        None => text(vector, "body").as_bytes().to_vec(),
    }
}

/// The verdict in one word, and what a person would read.
fn judged(vector: &Value) -> (&'static str, String) {
    let listed = vector["secrets"].as_array().expect("secrets");
    let secrets: Result<Vec<_>, _> = listed.iter().map(|secret| Secret::new(secret.as_str().expect("text"))).collect();
    let Ok(secrets) = secrets else { return ("invalid", "empty secret".to_owned()) };
    let verifier = match scheme_of(text(vector, "preset")).prepare(&secrets) {
        Ok(verifier) => verifier,
        Err(error) => return ("invalid", error.to_string()),
    };
    let headers = vector["headers"].as_object().expect("headers");
    let headers: Vec<(&str, &[u8])> =
        headers.iter().map(|(name, value)| (name.as_str(), value.as_str().expect("header text").as_bytes())).collect();
    let body = body_of(vector);
    let request = Request {
        method: text(vector, "method"),
        url: vector["url"].as_str(),
        query: "",
        path_token: None,
        headers: &headers,
        body: &body,
    };
    match verifier.verify(&request, UnixTime::from_secs(vector["now"].as_i64().expect("now"))) {
        Verdict::Valid(verified) => ("valid", format!("{verified:?}")),
        Verdict::Invalid(rejection) => ("invalid", format!("{}: {}", rejection.reason, rejection.detail)),
    }
}

#[test]
fn every_vector_gets_its_verdict() {
    let vectors: Vec<Value> = serde_json::from_str(VECTORS).expect("vectors.json");
    assert_eq!(vectors.len(), 78);
    let failures: Vec<String> = vectors
        .iter()
        .filter_map(|vector| {
            let (verdict, why) = judged(vector);
            let expected = text(vector, "verdict");
            let name = format!("{}/{}", text(vector, "preset"), text(vector, "name"));
            (verdict != expected).then(|| format!("{name}: {verdict} ({why}), expected {expected}: {}", vector["why"]))
        })
        .collect();
    assert!(failures.is_empty(), "{} vectors fail:\n{}", failures.len(), failures.join("\n"));
}
