use super::*;
use crate::{preset, presets};
use oncefold_core::locator::Locator;
use oncefold_core::message::{Facts, FactsJson};
use oncefold_core::model::IdRule;
use oncefold_core::prepare::{Plan, Preparer};
use oncefold_core::{Digest, EventUuid, Message, Timestamp};
use oncefold_signature::{HeaderFamily, Scheme, StandardWebhooks, StripeScheme};
use std::sync::Arc;

const SVIX_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

fn at(text: &str) -> Locator {
    Locator::parse(text).unwrap()
}

fn source(preset: &str) -> SourceConfig {
    let text = format!("[sources.x]\npreset = '{preset}'\nsecrets = ['{SVIX_SECRET}']\n");
    load(&text).unwrap().config.sources.remove(0)
}

/// A secret in the form that the preset's scheme takes.
pub(super) fn secret_of(preset: &str) -> &'static str {
    match preset {
        "adyen" | "adyen-platform" | "discord" => "11e9c531075802432bb1ad390e7722c53621c8c8d263ade206e912161c7b480a",
        _ => SVIX_SECRET,
    }
}

#[test]
fn presets_can_be_pasted_and_named() {
    assert!(presets().is_sorted_by_key(|preset| preset.name));
    assert_eq!(presets().len(), std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/presets")).unwrap().count());
    for preset in presets() {
        let secret = secret_of(preset.name);
        let pasted = Config::parse("oncefold.toml", preset.text, &|name| {
            (!name.starts_with("ONCEFOLD_")).then(|| secret.to_owned())
        });
        let pasted = pasted.unwrap_or_else(|e| panic!("{}: {e}", preset.name));
        // SNS is to be told whose topics it takes.
        assert_eq!(pasted.warnings.len(), usize::from(preset.name == "sns"), "{:?}", pasted.warnings);
        let pasted = &pasted.config.sources[0];
        assert_ne!(pasted.model.id, IdRule::BodyDigest, "{}: a projection of the user's needs an id", preset.name);
        assert_eq!(pasted.name().as_str(), preset.name);
        let defaults = if pasted.model.projections.is_empty() { "" } else { "default_projections = true\n" };
        let secrets = if pasted.secrets.is_empty() { String::new() } else { format!("secrets = ['{secret}']\n") };
        let url =
            pasted.public_url.as_ref().map_or_else(String::new, |_| "url = 'https://shop.example/in'\n".to_owned());
        let text = format!("[sources.{0}]\npreset = '{0}'\n{secrets}{url}{defaults}", preset.name);
        let named = load(&text).unwrap_or_else(|e| panic!("{}: {e}", preset.name)).config.sources.remove(0);
        assert_eq!(named.preset.as_deref(), Some(preset.name));
        assert_eq!(format!("{:?}", named.model), format!("{:?}", pasted.model));
        assert_eq!(named.scheme, pasted.scheme);
        assert_eq!(named.respond, pasted.respond);
    }
    assert!(preset("nope").is_none());
}

#[test]
fn the_url_of_a_preset_is_an_example() {
    let problems = problems(&format!("[sources.x]\npreset = 'square'\nsecrets = ['{SVIX_SECRET}']\n"));
    assert_eq!(places(&problems), ["1: sources.x.url"]);
}

#[test]
fn any_value_of_a_preset_may_be_overridden() {
    let text = format!(
        "[sources.x]\npreset = 'storekit'\nsecrets = ['{SVIX_SECRET}']\ntype = '/type'\nverify = {{ tolerance = '1m' }}\n\
         default_projections = true\n[[sources.x.projections]]\non = 'payment.*'\nentity = 'order'\nkey = '/id'\nversion = '/v'\n"
    );
    let source = load(&text).unwrap().config.sources.remove(0);
    assert_eq!(source.model.event_type, at("/type"));
    assert_eq!(source.model.id, IdRule::FirstOf(vec![vec![at("header:svix-id")], vec![at("header:webhook-id")]]));
    let expected =
        StandardWebhooks { headers: HeaderFamily::SvixThenWebhook, tolerance_s: 60, ..StandardWebhooks::default() };
    assert_eq!(source.scheme, Scheme::StandardWebhooks(expected));
    let names: Vec<_> = source.model.projections.iter().map(|p| (p.name.as_str(), p.on[0].as_str())).collect();
    assert_eq!(names, [("order", "payment.*"), ("order#2", "order.*")]);

    let other =
        "[sources.x]\npreset = 'stripe'\nsecrets = ['0123456789abcdef']\nverify = { scheme = 'token', in = 'path' }";
    let source = load(other).unwrap().config.sources.remove(0);
    assert!(source.path_token);
    let account = Locator::Optional(Box::new(Locator::First(vec![at("/account"), at("/context")])));
    assert_eq!(source.model.id, IdRule::Parts(vec![account, at("/id")]));
    assert!(source.model.projections.is_empty());
}

/// The schemes that the providers' vectors are judged with (tests/vectors.rs).
#[test]
fn presets_verify_as_the_vectors_want() {
    let svix = Scheme::StandardWebhooks(StandardWebhooks::default());
    assert_eq!(source("svix").scheme, svix);
    assert_eq!(source("storekit").scheme, svix);
    let webhook = StandardWebhooks { headers: HeaderFamily::Webhook, ..StandardWebhooks::default() };
    assert_eq!(source("standard-webhooks").scheme, Scheme::StandardWebhooks(webhook));
    let bare = format!("[sources.x]\nsecrets = ['{SVIX_SECRET}']\nverify = {{ scheme = 'standard-webhooks' }}");
    assert_eq!(load(&bare).unwrap().config.sources[0].scheme, Scheme::StandardWebhooks(webhook));
    assert_eq!(source("stripe").scheme, Scheme::Stripe(StripeScheme::default()));
}

/// A delivery: headers and body.
type Sent<'a> = (&'a [(&'a str, &'a str)], &'a str);

/// The key and the state that wins for one entity, whichever order the deliveries come in; no state where it is deleted.
fn winner_of(preset: &str, deliveries: [Sent<'_>; 2]) -> (String, Option<String>) {
    let secret = secret_of(preset);
    let text = format!(
        "[sources.x]\npreset = '{preset}'\nurl = 'https://shop.example/in'\nsecrets = ['{secret}']\ndefault_projections = true\n"
    );
    let source = load(&text).unwrap().config.sources.remove(0).model;
    let changes = deliveries.map(|(headers, body)| {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let facts = Facts { headers, ..Facts::default() };
        let message = Message {
            id: EventUuid::from_bytes([1; 16]),
            source: source.name.clone(),
            event_id: "id".to_owned(),
            event_type: None,
            received_at: Timestamp::from_micros(1_800_000_000_000_000),
            generation: 0,
            attempts: 0,
            digest: Digest::of(body.as_bytes()),
            facts: FactsJson::encode(&facts),
            body: body.to_owned().into(),
        };
        match Preparer::of(Arc::new(source.clone())).prepare(&message).plan {
            Plan::Apply(mut changes) if changes.len() == 1 => changes.remove(0),
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(changes[0].key, changes[1].key);
    let newest = changes.into_iter().max_by(|a, b| a.order_key.cmp(&b.order_key)).unwrap();
    (newest.key, newest.state.map(|state| state.to_string()))
}

/// Likewise for deliveries of Svix, given by id, that leave a state.
fn winner(preset: &str, deliveries: [(&str, &str); 2]) -> String {
    let [(first, one), (second, other)] = deliveries;
    winner_of(preset, [(&[("svix-id", first)], one), (&[("svix-id", second)], other)]).1.unwrap()
}

/// `updated_at` is of one second and in the shop's zone; the trigger's time decides within a second, the topic nothing.
#[test]
fn shopify_orders_end_in_the_later_state() {
    let sent = |topic: &'static str, triggered: &'static str| {
        [("x-shopify-topic", topic), ("x-shopify-event-id", triggered), ("x-shopify-triggered-at", triggered)]
    };
    let order = |status: &str, updated: &str| {
        format!(
            r#"{{"id":6120943771854,"financial_status":"{status}","total_price":"25.00","updated_at":"{updated}"}}"#
        )
    };
    let wins = |later: Sent<'_>, earlier: Sent<'_>| {
        let (key, state) = winner_of("shopify", [later, earlier]);
        assert_eq!(key, "6120943771854");
        state
    };
    let created = sent("orders/create", "2025-10-09T08:53:21.417318291Z");
    let paid = sent("orders/paid", "2025-10-09T08:53:21.417318292Z");
    let pending = order("pending", "2025-10-09T04:53:21-04:00");
    let in_the_second = wins((&paid, &order("paid", "2025-10-09T04:53:21-04:00")), (&created, &pending)).unwrap();
    assert!(in_the_second.contains(r#""financial_status":"paid""#), "{in_the_second}");
    // An hour later by the clock on the wall, and earlier as an instant, before daylight saving ended.
    let winter = wins(
        (&created, &order("paid", "2025-11-02T01:10:00-05:00")),
        (&paid, &order("pending", "2025-11-02T01:50:00-04:00")),
    );
    assert!(winter.as_ref().is_some_and(|state| state.contains(r#""financial_status":"paid""#)), "{winter:?}");
    let deleted = sent("orders/delete", "2025-10-09T08:53:34.417318291Z");
    assert_eq!(wins((&deleted, r#"{"id":6120943771854}"#), (&created, &pending)), None);
}

/// Real versions: whatever the times say, the higher one wins.
#[test]
fn versions_of_the_provider_order_its_entities() {
    let transfer = |sequence: u32, status: &str| {
        format!(
            r#"{{"type":"balancePlatform.transfer.updated","data":{{"id":"1W1UG35U8A9J5ZLG","sequenceNumber":{sequence},"status":"{status}"}}}}"#
        )
    };
    let (_, state) = winner_of("adyen-platform", [(&[], &transfer(10, "captured")), (&[], &transfer(9, "received"))]);
    assert!(state.as_ref().is_some_and(|state| state.contains("captured")), "{state:?}");
    let payment = |version: u32, status: &str| {
        format!(
            r#"{{"event_id":"e","type":"payment.updated","data":{{"object":{{"payment":{{"id":"hYy9","status":"{status}","version":{version}}}}}}}}}"#
        )
    };
    let (key, state) = winner_of("square", [(&[], &payment(10, "COMPLETED")), (&[], &payment(9, "APPROVED"))]);
    assert!(key == "hYy9" && state.as_ref().is_some_and(|state| state.contains("COMPLETED")), "{key} {state:?}");
}

#[test]
fn times_of_the_provider_order_its_entities() {
    let topic = [("x-wc-webhook-topic", "order.updated"), ("x-wc-webhook-id", "5")];
    let order = |modified: &str, status: &str| {
        format!(r#"{{"id":727,"status":"{status}","total":"25.00","date_modified_gmt":"{modified}"}}"#)
    };
    let (later, earlier) = (order("2025-10-09T08:53:22", "completed"), order("2025-10-09T08:53:21", "processing"));
    let (key, state) = winner_of("woocommerce", [(&topic, &later), (&topic, &earlier)]);
    assert!(key == "727" && state.as_ref().is_some_and(|state| state.contains("completed")), "{key} {state:?}");
    let transaction = |occurred: &str, status: &str| {
        format!(
            r#"{{"event_id":"evt","event_type":"transaction.{status}","occurred_at":"{occurred}","data":{{"id":"txn_1","status":"{status}"}}}}"#
        )
    };
    let later = transaction("2025-10-09T08:53:22.417319Z", "completed");
    let (_, state) = winner_of("paddle", [(&[], &later), (&[], &transaction("2025-10-09T08:53:22.417318Z", "paid"))]);
    assert!(state.as_ref().is_some_and(|state| state.contains("completed")), "{state:?}");
}

/// The traps of Stripe's one-second clock: what comes later in life wins within a second, a later second always.
#[test]
fn stripe_events_of_one_second_end_in_the_later_state() {
    let event = |kind: &str, created: u32, object: &str| {
        format!(r#"{{"id":"evt","type":"{kind}","created":{created},"data":{{"object":{object}}}}}"#)
    };
    let case = |earlier: String, later: String, expected: &str| {
        let state = winner("stripe", [("a", later.as_str()), ("b", earlier.as_str())]);
        assert!(state.contains(expected), "{state}");
    };
    case(
        event("payment_intent.processing", 1_760_000_007, r#"{"id":"pi","status":"processing"}"#),
        event("payment_intent.succeeded", 1_760_000_007, r#"{"id":"pi","status":"succeeded"}"#),
        r#""status":"succeeded""#,
    );
    case(
        event("customer.subscription.created", 1_760_000_030, r#"{"id":"sub","status":"incomplete"}"#),
        event("customer.subscription.updated", 1_760_000_030, r#"{"id":"sub","status":"active"}"#),
        r#""status":"active""#,
    );
    case(
        event("charge.refunded", 1_760_000_900, r#"{"id":"ch","status":"succeeded","amount_refunded":1000}"#),
        event("charge.refunded", 1_760_000_900, r#"{"id":"ch","status":"succeeded","amount_refunded":2500}"#),
        r#""amount_refunded":2500"#,
    );
    case(
        event("refund.updated", 1_760_000_900, r#"{"id":"re","status":"failed"}"#),
        event("refund.updated", 1_760_000_901, r#"{"id":"re","status":"succeeded"}"#),
        r#""status":"succeeded""#,
    );
}

/// KSUIDs of oncefold-core's tests: the id is stable over retries, and its time orders the messages.
#[test]
fn storekit_messages_are_ordered_by_the_time_in_their_id() {
    let body = |status: &str| {
        format!(
            r#"{{"event":"order.updated","data":{{"id":"ord","status":"{status}","total":2500,"venue":{{"id":7}}}}}}"#
        )
    };
    // ASCII order of the base62 text is the order of creation (facts.md, section 1).
    let (older, newer) = ("msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", "msg_27UH4XbU6Z5A5EzD8u03UvzRbpk");
    let state = winner("storekit", [(newer, &body("Completed")), (older, &body("Accepted"))]);
    assert!(state.contains(r#""status":"Completed""#) && state.contains(r#""venue":7"#), "{state}");
}
