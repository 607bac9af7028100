use super::*;
use proptest::prelude::*;
use serde_json::json;

const RECEIVED: Timestamp = Timestamp::from_micros(1_760_000_000_000_000);

fn rule(kind: Option<VersionKind>) -> VersionRule {
    VersionRule::At { at: Locator::parse("/v").unwrap(), kind, zone: None }
}

fn read_one(rule: VersionRule, value: Value) -> Result<Version, Failure> {
    let body = json!({ "v": value });
    read(&[rule], &Document { json: Some(&body), headers: &[], query: "" }, RECEIVED)
}

fn reason(kind: Option<VersionKind>, value: Value) -> Reason {
    read_one(rule(kind), value).unwrap_err().reason
}

#[test]
fn a_bare_pointer_is_an_int_or_an_instant() {
    assert_eq!(read_one(rule(None), json!(7)).unwrap().shown, "7");
    assert_eq!(read_one(rule(None), json!("2025-10-09T04:53:24-04:00")).unwrap().shown, "2025-10-09T08:53:24Z");
    assert_eq!(reason(None, serde_json::from_str("1.5").unwrap()), Reason::BadVersion);
    assert_eq!(reason(None, json!("7")), Reason::BadVersion);
    assert_eq!(reason(None, json!(true)), Reason::BadVersion);
    assert_eq!(reason(None, json!([1])), Reason::BadVersion);
    assert_eq!(reason(None, json!(null)), Reason::MissingVersion);
}

#[test]
fn stated_types_take_numbers_and_texts() {
    let shown = |kind, value| read_one(rule(Some(kind)), value).unwrap().shown;
    assert_eq!(shown(VersionKind::Int, json!("9007199254740993")), "9007199254740993");
    assert_eq!(shown(VersionKind::Decimal, json!("1.50")), "1.50");
    assert_eq!(shown(VersionKind::UnixS, json!("1355517523.000005")), "2012-12-14T20:38:43.000005Z");
    assert_eq!(shown(VersionKind::UnixMs, json!(1_760_000_000_123_i64)), "2025-10-09T08:53:20.123Z");
    assert_eq!(shown(VersionKind::Text, json!("a\0b")), "a\u{FFFD}b");
    assert_eq!(reason(Some(VersionKind::Int), json!("1e2")), Reason::BadVersion);
    assert_eq!(reason(Some(VersionKind::Text), json!(1)), Reason::BadVersion);
    assert_eq!(reason(Some(VersionKind::Text), json!("x".repeat(513))), Reason::BadVersion);
}

#[test]
fn a_zone_is_used_only_where_the_text_has_none() {
    let zone = jiff::tz::TimeZone::get("Europe/Prague").unwrap();
    let at = Locator::parse("/v").unwrap();
    let zoned = |text: &str| {
        let rule = VersionRule::At { at: at.clone(), kind: Some(VersionKind::Instant), zone: Some(zone.clone()) };
        read_one(rule, json!(text)).unwrap().shown
    };
    assert_eq!(zoned("2025-07-01T12:00:00"), "2025-07-01T10:00:00Z");
    assert_eq!(zoned("2025-07-01T12:00:00Z"), "2025-07-01T12:00:00Z");
    assert_eq!(reason(Some(VersionKind::Instant), json!("2025-07-01T12:00:00")), Reason::BadVersion);
}

#[test]
fn far_futures_are_refused_to_the_second() {
    assert!(read_one(rule(Some(VersionKind::UnixS)), json!(1_760_000_600)).is_ok());
    assert_eq!(reason(Some(VersionKind::UnixS), json!("1760000600.1")), Reason::FutureVersion);
    assert_eq!(reason(Some(VersionKind::Instant), json!("9999-01-01T00:00:00Z")), Reason::FutureVersion);
    assert!(read_one(rule(Some(VersionKind::Int)), json!(99_999_999_999_i64)).is_ok(), "plain numbers are no clocks");
}

/// The example of segmentio/ksuid's README: 0ujtsYcgvSTl8PAuAdqWYSMnLOv is 2017-10-10 04:00:47 UTC.
#[test]
fn a_ksuid_holds_its_time() {
    let body = json!({});
    let headers = [("svix-id".to_owned(), "msg_0ujtsYcgvSTl8PAuAdqWYSMnLOv".to_owned())];
    let document = Document { json: Some(&body), headers: &headers, query: "" };
    let rule = VersionRule::Ksuid(Locator::parse("header:svix-id").unwrap());
    let shown = read(&[rule], &document, RECEIVED).unwrap().shown;
    assert!(shown.starts_with("2017-10-10T04:00:47"), "{shown}");
    for wrong in
        ["", "msg_", "0ujtsYcgvSTl8PAuAdqWYSMnLO", "0ujtsYcgvSTl8PAuAdqWYSMnLO!", "zzzzzzzzzzzzzzzzzzzzzzzzzzz"]
    {
        assert!(ksuid_instant(wrong).is_none(), "{wrong}");
    }
}

proptest! {
    #[test]
    fn instants_compare_as_instants(a in -1_000_000_000_000i64..1_760_000_000_000, b in -1_000_000_000_000i64..1_760_000_000_000) {
        let ordered = |ms: i64| read_one(rule(Some(VersionKind::UnixMs)), json!(ms)).unwrap().ordered;
        prop_assert_eq!(ordered(a).cmp(&ordered(b)), a.cmp(&b));
    }

    #[test]
    fn texts_compare_as_bytes(a in "[\0-c]{0,4}", b in "[\0-c]{0,4}") {
        let ordered = |text: &str| read_one(rule(Some(VersionKind::Text)), json!(text)).unwrap().ordered;
        prop_assert_eq!(ordered(&a).cmp(&ordered(&b)), a.as_bytes().cmp(b.as_bytes()));
    }
}
