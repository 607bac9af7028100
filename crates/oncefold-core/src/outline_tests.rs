use super::*;
use crate::locator::Document;
use proptest::prelude::*;
use proptest::sample::select;

/// Reference tokens as pointers spell them, and names as bodies spell them, so that they meet often.
const TOKENS: [&str; 11] = ["a", "b", "a~1b", "m~0n", "0", "1", "00", "2", "", "é", "$serde_json::private::Number"];
const NAMES: [&str; 16] = [
    "a",
    "b",
    r"\u0061",
    r"\u0062",
    "a/b",
    r"a\/b",
    "m~n",
    "0",
    "1",
    "",
    "é",
    r"\u00e9",
    r"\ud83d\ude00",
    "$serde_json::private::Number",
    r"\u0024serde_json::private::Number",
    "$serde_json::private::RawValue",
];
const SCALARS: [&str; 22] = [
    "null",
    "true",
    "false",
    "0",
    "-0.0",
    "9007199254740993",
    "1e400",
    "0.10",
    r#""""#,
    r#""t""#,
    r#""\u0041\n\"""#,
    r#""\ud83d\ude00""#,
    r#""\ud83d""#,
    r#""\ude00\ud83d""#,
    r#""[[{{""#,
    r#""12""#,
    r#""[1,{}]""#,
    "01",
    "-",
    "1.",
    r#""\x""#,
    "\"\n\"",
];

fn pointer() -> impl Strategy<Value = Locator> {
    proptest::collection::vec(select(&TOKENS[..]), 0..4).prop_map(|tokens| {
        let text: String = tokens.into_iter().flat_map(|token| ["/", token]).collect();
        Locator::parse(&text).unwrap()
    })
}

/// Texts that are mostly JSON: most scalars are sound, names repeat.
fn body() -> impl Strategy<Value = String> {
    let sound = select(&SCALARS[..12]).prop_map(str::to_owned);
    let any = select(&SCALARS[..]).prop_map(str::to_owned);
    let name = prop_oneof![9 => select(&NAMES[..13]), 1 => select(&NAMES[..])];
    prop_oneof![40 => sound, 1 => any].prop_recursive(5, 48, 6, move |inner| {
        let member = (name.clone(), inner.clone()).prop_map(|(name, value)| format!("\"{name}\" :{value}"));
        prop_oneof![
            2 => proptest::collection::vec(member, 0..6).prop_map(|members| format!("{{{}}}", members.join(" ,\n"))),
            1 => proptest::collection::vec(inner, 0..5).prop_map(|items| format!("[ {}]", items.join(","))),
        ]
    })
}

/// What can be told of a reading: what is found at each place, or the fault.
fn told(read: Result<Value, JsonError>, places: &[Locator]) -> Result<Vec<Option<Value>>, String> {
    let json = read.map_err(|e| format!("{e:?}"))?;
    let document = Document { json: Some(&json), headers: &[], query: "" };
    Ok(places.iter().map(|place| place.find(&document).map(|value| value.into_owned())).collect())
}

fn same(body: &[u8], places: &[Locator]) {
    let parts = Outline::of(places).read(body);
    assert_eq!(told(parts, places), told(json::parse(body), places), "{}", String::from_utf8_lossy(body));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn places_hold_what_they_hold_in_the_whole_document(
        body in body(), places in proptest::collection::vec(pointer(), 0..5),
    ) {
        same(body.as_bytes(), &places);
    }

    #[test]
    fn a_damaged_body_has_the_same_fault(
        body in body(),
        places in proptest::collection::vec(pointer(), 0..3),
        at in any::<prop::sample::Index>(),
        byte in prop_oneof![select(&b"\"\\{}[],:0e \n"[..]), any::<u8>()],
        is_cut in any::<bool>(),
    ) {
        let mut bytes = body.into_bytes();
        let at = at.index(bytes.len());
        if is_cut {
            bytes.remove(at);
        } else {
            bytes[at] = byte;
        }
        same(&bytes, &places);
    }
}

fn at(text: &str) -> Locator {
    Locator::parse(text).unwrap()
}

/// What passing over a part would not see by itself.
#[test]
fn what_no_rule_reads_is_refused_all_the_same() {
    let deep = |n: usize| format!("{{\"a\":1,\"x\":{}{}}}", "[".repeat(n), "]".repeat(n));
    assert!(matches!(Outline::of(&[at("/a")]).read(deep(JSON_DEPTH_MAX).as_bytes()), Err(JsonError::TooDeep)));
    assert!(Outline::of(&[at("/a")]).read(deep(JSON_DEPTH_MAX - 1).as_bytes()).is_ok());
    for body in [
        &b"{\"a\":1,\"x\":\"\xFF\"}"[..],
        br#"{"a":1,"x":"\ud800"}"#,
        br#"{"a":1,"x":"\ude00\ud83d"}"#,
        br#"{"a":1,"x":{"$serde_json::private::Number":"abc"}}"#,
        br#"{"a":1,"x":{"\u0024serde_\u006ason::private::Number":"abc"}}"#,
        br#"{"a":1,"x":{"$serde_json::private::RawValue":"["}}"#,
        br#"{"a":1,"x":[1,]}"#,
        br#"{"a":1} {}"#,
        br#"{"a":1,"x":01}"#,
    ] {
        assert!(json::parse(body).is_err());
        same(body, &[at("/a")]);
    }
    same(br#"{"a":1.5}"#, &[at("/a/$serde_json::private::Number")]);
}

#[test]
fn only_parts_are_built() {
    let outline = Outline::of(&[at("/a/b"), at("/a/c/1"), at("const:x"), at("header:y")]);
    let read = |body: &str| outline.read(body.as_bytes()).unwrap().to_string();
    assert_eq!(
        read(r#"{"x":[{}],"a":{"b":{"z":1},"d":2,"c":["\u0026",{"k":"v"},3,4]}}"#),
        r#"{"a":{"b":{"z":1},"c":[null,{"k":"v"}]}}"#
    );
    assert_eq!(read(r#"{"a":{"b":1},"a":7}"#), r#"{"a":null}"#);
    assert_eq!(Outline::of(&[at("header:y")]).read(b"{\"a\":[1]}").unwrap(), Value::Null);
    assert_eq!(Outline::of(&[at("/a"), at("")]).read(b"[1]").unwrap().to_string(), "[1]");
}
