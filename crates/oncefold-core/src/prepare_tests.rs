use super::*;
use crate::glob::Glob;
use crate::id::{EntityKind, EventUuid, SourceName};
use crate::message::FactsJson;
use crate::time::Timestamp;
use crate::version::VersionRule;
use bytes::Bytes;

fn prepare(source: &Source, message: &Message) -> Prepared {
    Preparer::of(Arc::new(source.clone())).prepare(message)
}

fn at(text: &str) -> Locator {
    Locator::parse(text).unwrap()
}

fn orders() -> Projection {
    Projection {
        name: "order".into(),
        on: vec![Glob::parse("order.*")],
        entity: EntityKind::parse("order").unwrap(),
        key: vec![at("/id")],
        version: vec![VersionRule::At { at: at("/v"), kind: None, zone: None }],
        rank: RankRule::Types(vec![Glob::parse("order.created"), Glob::parse("order.paid")]),
        state: StateRule::Whole,
        delete_on: vec![Glob::parse("order.deleted")],
        delete_version: vec![],
        epoch: 1,
    }
}

fn source(projection: Projection) -> Source {
    Source {
        name: SourceName::parse("shop").unwrap(),
        id: IdRule::Parts(vec![at("header:x-id")]),
        event_type: at("/type"),
        format: BodyFormat::Json,
        projections: vec![projection],
    }
}

fn message(body: &[u8]) -> Message {
    let facts = Facts { headers: vec![("x-id".into(), "e1".into())], ..Facts::default() };
    Message {
        id: EventUuid::from_bytes([1; 16]),
        source: SourceName::parse("shop").unwrap(),
        event_id: "e1".into(),
        event_type: None,
        received_at: Timestamp::from_micros(1_760_000_000_000_000),
        generation: 0,
        attempts: 0,
        digest: Digest::of(body),
        facts: FactsJson::encode(&facts),
        body: Bytes::copy_from_slice(body),
    }
}

fn changes(projection: Projection, body: &str) -> Vec<Change> {
    match prepare(&source(projection), &message(body.as_bytes())).plan {
        Plan::Apply(changes) => changes,
        other => panic!("{other:?}"),
    }
}

fn reason(projection: Projection, body: &[u8]) -> Reason {
    match prepare(&source(projection), &message(body)).plan {
        Plan::Setback(Setback::Dead(failure)) => failure.reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_change_is_what_the_rules_say() {
    let change = &changes(orders(), r#"{"type":"order.paid","id":9007199254740993,"v":3,"total":1e2}"#)[0];
    assert_eq!(
        (change.entity.as_str(), change.key.as_str(), change.version.as_str()),
        ("order", "9007199254740993", "3")
    );
    assert_eq!(change.state.as_deref(), Some(r#"{"id":9007199254740993,"total":100,"type":"order.paid","v":3}"#));
    let deleted = &changes(orders(), r#"{"type":"order.deleted","id":"a","v":3}"#)[0];
    assert!(deleted.is_delete());
}

#[test]
fn higher_version_then_delete_then_rank_then_digest_wins() {
    let key = |body: &str| changes(orders(), body)[0].order_key.clone();
    let created = key(r#"{"type":"order.created","id":1,"v":3}"#);
    let paid = key(r#"{"type":"order.paid","id":1,"v":3}"#);
    let unlisted = key(r#"{"type":"order.other","id":1,"v":3}"#);
    let deleted = key(r#"{"type":"order.deleted","id":1,"v":3}"#);
    let newer = key(r#"{"type":"order.created","id":1,"v":4}"#);
    assert!(unlisted < created && created < paid && paid < deleted && deleted < newer);
    let tied = key(r#"{"type":"order.paid","id":1,"v":3,"x":1}"#);
    assert!(paid.ties_with(&tied) && paid != tied);
}

#[test]
fn every_bad_input_has_its_reason() {
    let long = |n| "x".repeat(n);
    let cases: Vec<(String, Reason)> = vec![
        (String::new(), Reason::InvalidJson),
        ("{\"type\":".into(), Reason::InvalidJson),
        ("[".repeat(5000), Reason::InvalidJson),
        (r#"{"id":1,"v":1}"#.into(), Reason::MissingType),
        (r#"{"type":"","id":1,"v":1}"#.into(), Reason::MissingType),
        (r#"{"type":7,"id":1,"v":1}"#.into(), Reason::BadType),
        (r#"{"type":"order.\u0000","id":1,"v":1}"#.into(), Reason::BadType),
        (format!(r#"{{"type":"{}","id":1,"v":1}}"#, long(201)), Reason::BadType),
        (r#"{"type":"order.x","v":1}"#.into(), Reason::MissingKey),
        (r#"{"type":"order.x","id":null,"v":1}"#.into(), Reason::MissingKey),
        (r#"{"type":"order.x","id":"","v":1}"#.into(), Reason::MissingKey),
        (r#"{"type":"order.x","id":[1],"v":1}"#.into(), Reason::BadKey),
        (r#"{"type":"order.x","id":"a\u0000","v":1}"#.into(), Reason::BadKey),
        (format!(r#"{{"type":"order.x","id":"{}","v":1}}"#, long(513)), Reason::BadKey),
        (r#"{"type":"order.x","id":1}"#.into(), Reason::MissingVersion),
        (r#"{"type":"order.x","id":1,"v":"soon"}"#.into(), Reason::BadVersion),
        (r#"{"type":"order.x","id":1,"v":"2999-01-01T00:00:00Z"}"#.into(), Reason::FutureVersion),
        (r#"{"type":"order.x","id":1,"v":1,"n":1e1000}"#.into(), Reason::BadNumber),
    ];
    for (body, expected) in cases {
        assert_eq!(reason(orders(), body.as_bytes()), expected, "{}", &body[..body.len().min(80)]);
    }
    assert_eq!(reason(orders(), b"{\"type\":\"order.x\",\"id\":\"\xFF\"}"), Reason::InvalidJson);
}

#[test]
fn ids_are_bounded_texts() {
    let with_id = |id: &str| {
        let facts = Facts { headers: vec![("x-id".into(), id.into())], ..Facts::default() };
        let document = Document { json: None, headers: &facts.headers, query: "" };
        identify(&source(orders()), &document, &Digest::of(b""), Timestamp::from_micros(0)).event_id
    };
    assert_eq!(with_id(&"i".repeat(256)).unwrap().len(), 256);
    assert_eq!(with_id(&"i".repeat(257)).unwrap_err().reason, Reason::BadId);
    assert_eq!(with_id("a\0").unwrap_err().reason, Reason::BadId);
    let variant = crate::store::variant_event_id("a", &Digest::of(b"another body"));
    assert_eq!(with_id(&variant).unwrap_err().reason, Reason::BadId, "nobody takes a variant's name");
    assert_eq!(with_id("").unwrap_err().reason, Reason::MissingId);
}

#[test]
fn parts_never_run_together() {
    let body = serde_json::json!({"a": "x:y", "b": "z", "c": "x", "d": "y:z", "e": "x\\"});
    let document = Document { json: Some(&body), headers: &[], query: "" };
    let key = |places: &[&str]| entity_key(&places.iter().map(|p| at(p)).collect::<Vec<_>>(), &document).unwrap();
    assert_eq!(key(&["/a", "/b"]), "x\\:y:z");
    assert_eq!(key(&["/c", "/d"]), "x:y\\:z");
    assert_eq!(key(&["/e", "/b"]), "x\\\\:z");
    assert_eq!(key(&["/a"]), "x:y", "a single part is as it is");
}

#[test]
fn fields_are_typed_absent_is_null() {
    let field = |name: &str, place: &str, kind| FieldRule { name: name.into(), at: at(place), kind };
    let decimal = Some(FieldKind::Version(VersionKind::Decimal));
    let rule = StateRule::Fields(vec![
        field("total", "/total", decimal),
        field("at", "/at", Some(FieldKind::Version(VersionKind::Instant))),
        field("gone", "/gone", decimal),
        field("raw", "/raw", None),
    ]);
    let body = serde_json::json!({"total": "12.50", "at": "2025-10-09T04:53:24-04:00", "raw": {"a": [1]}});
    let document = Document { json: Some(&body), headers: &[], query: "" };
    assert_eq!(
        state(&rule, &document).unwrap(),
        r#"{"at":"2025-10-09T08:53:24Z","gone":null,"raw":{"a":[1]},"total":12.50}"#
    );
    let body = serde_json::json!({"total": "a lot"});
    let document = Document { json: Some(&body), headers: &[], query: "" };
    assert_eq!(state(&rule, &document).unwrap_err().reason, Reason::BadNumber);
}

#[test]
fn what_no_projection_is_about_is_ignored() {
    let prepared = prepare(&source(orders()), &message(br#"{"type":"invoice.paid"}"#));
    assert_eq!((prepared.event_type.as_deref(), prepared.plan), (Some("invoice.paid"), Plan::Ignore));
}

#[test]
fn an_id_may_stand_in_the_first_of_several_places() {
    let rule = IdRule::FirstOf(vec![vec![at("header:svix-id")], vec![at("header:webhook-id")]]);
    let source = Source { id: rule, ..source(orders()) };
    let id = |headers: &[(&str, &str)]| {
        let headers: Vec<_> = headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let document = Document { json: None, headers: &headers, query: "" };
        identify(&source, &document, &Digest::of(b""), Timestamp::from_micros(0))
            .event_id
            .map_err(|failure| failure.reason)
    };
    assert_eq!(id(&[("svix-id", "a")]), Ok("a".to_owned()));
    assert_eq!(id(&[("webhook-id", "b:c")]), Ok("b:c".to_owned()));
    assert_eq!(id(&[("webhook-id", "b"), ("svix-id", "a")]), Ok("a".to_owned()));
    assert_eq!(id(&[("x-id", "x")]), Err(Reason::MissingId));
    // What stands first is the id or nothing is: the other was not what the signature covered.
    assert_eq!(id(&[("svix-id", ""), ("webhook-id", "b")]), Err(Reason::MissingId));
}

/// The same bytes under other headers are another fact: their keys differ, so that either order of arrival ends alike.
#[test]
fn one_key_never_stands_for_two_states() {
    let mut source = source(Projection {
        state: StateRule::Fields(vec![FieldRule { name: "topic".into(), at: at("header:x-topic"), kind: None }]),
        ..orders()
    });
    source.event_type = at("const:order.paid");
    let under = |topic: &str| {
        let headers = vec![("x-id".to_owned(), "e1".to_owned()), ("x-topic".to_owned(), topic.to_owned())];
        let facts = FactsJson::encode(&Facts { headers, ..Facts::default() });
        let message = Message { facts, ..message(br#"{"id":1,"v":3}"#) };
        match prepare(&source, &message).plan {
            Plan::Apply(changes) => changes[0].clone(),
            other => panic!("{other:?}"),
        }
    };
    let (a, b) = (under("a"), under("b"));
    assert_ne!(a.state, b.state);
    assert!(a.order_key != b.order_key && a.order_key.ties_with(&b.order_key));
    assert_eq!(under("a").order_key, a.order_key);
}

/// Order keys end in it and are stored: its text is part of the stored format.
#[test]
fn the_context_is_of_a_stable_text() {
    let projection = Projection { key: vec![at("/id"), at("header:X-\"Shop"), at("query:no")], ..orders() };
    let source = source(projection.clone());
    let headers = [("x-\"shop".to_owned(), "caf\u{e9}\n\"".to_owned())];
    let document = Document { json: None, headers: &headers, query: "" };
    let input = Input { document: &document, event_type: "order.\"paid\"", message: &message(b"{}"), source: &source };
    let text = r#"["shop","order","order.\"paid\"",["café\n\"",null]]"#;
    assert_eq!(context(&projection, &input), Digest::of(text.as_bytes()));
}

#[test]
fn of_two_documents_the_one_with_the_higher_digest_wins_whatever_their_context() {
    let key = |body: &str| changes(orders(), body)[0].order_key.clone();
    let bodies: Vec<String> = (0..8).map(|n| format!(r#"{{"type":"order.x{n}","id":1,"v":3}}"#)).collect();
    for a in &bodies {
        for b in &bodies {
            assert_eq!(key(a).cmp(&key(b)), Digest::of(a.as_bytes()).cmp(&Digest::of(b.as_bytes())));
        }
    }
}

/// The id of a body under a rule, received at that second.
fn id_at(rule: IdRule, body: &str, second: i64) -> Result<String, Reason> {
    let source = Source { id: rule, ..source(orders()) };
    let json = json::parse(body.as_bytes()).unwrap();
    let document = Document { json: Some(&json), headers: &[], query: "" };
    let at = Timestamp::from_micros(second * 1_000_000 + 999_999);
    identify(&source, &document, &Digest::of(body.as_bytes()), at).event_id.map_err(|failure| failure.reason)
}

#[test]
fn the_first_list_whose_parts_are_all_there_is_the_id() {
    let rule = || IdRule::FirstOf(vec![vec![at("/topic"), at("/event")], vec![at("/webhook")]]);
    let id = |body| id_at(rule(), body, 0);
    assert_eq!(id(r#"{"topic":"a:b","event":"1","webhook":"w"}"#), Ok("a\\:b:1".to_owned()));
    assert_eq!(id(r#"{"topic":"a","event":null,"webhook":"w"}"#), Ok("w".to_owned()));
    assert_eq!(id(r#"{"topic":"a","event":"","webhook":"w"}"#), Err(Reason::MissingId));
    assert_eq!(id(r#"{"topic":"a"}"#), Err(Reason::MissingId));
}

#[test]
fn an_optional_part_scopes_ids_and_keys_where_it_is_there() {
    let account = || Locator::Optional(Box::new(Locator::First(vec![at("/account"), at("/context")])));
    let id = |body| id_at(IdRule::Parts(vec![account(), at("/id")]), body, 0);
    assert_eq!(id(r#"{"id":"evt_1"}"#), Ok("evt_1".to_owned()));
    assert_eq!(id(r#"{"id":"evt_1","account":null,"context":""}"#), Ok("evt_1".to_owned()));
    assert_eq!(id(r#"{"id":"evt_1","account":"acct_1","context":"other"}"#), Ok("acct_1:evt_1".to_owned()));
    assert_eq!(id(r#"{"id":"evt_1","context":"acct_1"}"#), Ok("acct_1:evt_1".to_owned()));
    // An id with a colon is no scoped one.
    assert_eq!(id(r#"{"id":"acct_1:evt_1"}"#), Ok("acct_1\\:evt_1".to_owned()));
    assert_eq!(id(r#"{"account":"acct_1"}"#), Err(Reason::MissingId));
    assert_eq!(id_at(IdRule::Parts(vec![account()]), "{}", 0), Err(Reason::MissingId));
    let projection = || Projection { key: vec![account(), at("/id")], ..orders() };
    let key = |body| changes(projection(), body)[0].key.clone();
    assert_eq!(key(r#"{"type":"order.paid","id":7,"v":3}"#), "7");
    assert_eq!(key(r#"{"type":"order.paid","id":7,"v":3,"account":"a"}"#), "a:7");
    let only = Projection { key: vec![account()], ..orders() };
    assert_eq!(reason(only, br#"{"type":"order.paid","v":3}"#), Reason::MissingKey);
}

/// Windows begin at multiples of their length since the epoch: 1_800_000_000 is one of 900.
#[test]
fn derived_ids_with_a_window_begin_anew_with_it() {
    let rule =
        |window_s: Option<u64>| IdRule::Derive { places: vec![at("/a")], window: window_s.map(Duration::from_secs) };
    let id = |window, second| id_at(rule(window), r#"{"a":1,"b":2}"#, second).unwrap();
    let (first, last) = (id(Some(900), 1_800_000_000), id(Some(900), 1_800_000_899));
    assert_eq!(first, last);
    assert!(first.ends_with("@1800000000"), "{first}");
    assert_ne!(id(Some(900), 1_800_000_900), first);
    assert_ne!(id(Some(900), 1_799_999_999), first);
    assert_eq!(first.strip_suffix("@1800000000"), Some(id(None, 0).as_str()));
    assert_eq!(id(Some(900), -1), id(Some(900), -900));
    assert_eq!(id_at(rule(Some(900)), r#"{"b":2}"#, 0), Err(Reason::MissingId));
}

#[test]
fn forms_are_objects_of_texts() {
    let read = |body: &str| read(BodyFormat::Form, body.as_bytes(), &Outline::whole()).unwrap().to_string();
    assert_eq!(read("a=1&b=x+y%26&c"), r#"{"a":"1","b":"x y&","c":""}"#);
    assert_eq!(read("a=1&a=2&a=3&b=4"), r#"{"a":["1","2","3"],"b":"4"}"#);
    assert_eq!(read(""), "{}");
    let source = Source { format: BodyFormat::Form, ..source(orders()) };
    let Plan::Apply(changes) =
        prepare(&source, &message(b"type=order.paid&id=o+1&v=2025-10-09T08:53:20Z&note=%C3%A9")).plan
    else {
        panic!("it is applied")
    };
    assert_eq!((changes[0].key.as_str(), changes[0].version.as_str()), ("o 1", "2025-10-09T08:53:20Z"));
    let state =
        r#"{"id":"o 1","note":"\u00e9","type":"order.paid","v":"2025-10-09T08:53:20Z"}"#.replace("\\u00e9", "é");
    assert_eq!(changes[0].state.as_deref(), Some(state.as_str()));
}
