use super::*;
use proptest::prelude::*;
use serde_json::Value;

/// What serde_json reads as a whole, at the same pointer.
fn as_a_whole(body: &[u8], pointer: &str) -> Option<Value> {
    let json: Value = serde_json::from_slice(body).ok()?;
    json.pointer(pointer).cloned()
}

fn agrees(body: &[u8], pointer: &str) {
    let found = value_at(body, pointer).map(|json| serde_json::from_str::<Value>(json).unwrap());
    assert_eq!(found, as_a_whole(body, pointer), "{pointer} in {}", body.escape_ascii());
}

#[test]
fn a_pointer_is_followed_as_in_the_whole_document() {
    let body = br#"{"a":1,"b":{"c/d":[10,{"e~f":"x"},-1.50]},"a":2,"":{"":3},"0":4,"n":null}"#;
    for pointer in [
        "",
        "/",
        "//",
        "/a",
        "/b",
        "/b/c~1d",
        "/b/c~1d/0",
        "/b/c~1d/1/e~0f",
        "/b/c~1d/2",
        "/b/c~1d/3",
        "/b/c~1d/01",
        "/b/c~1d/+1",
        "/b/c~1d/-",
        "/0",
        "/n",
        "/n/x",
        "/a/x",
        "a",
        "/c",
        "/b/c~1d/18446744073709551616",
    ] {
        agrees(body, pointer);
    }
    for body in [
        &b""[..],
        b"{",
        b"[1,2",
        b"{\"a\":1}x",
        b"{\"a\":01}",
        b"\xff",
        b"[\"\xff\"]",
        b"7",
        b"\"a\"",
        b"\xef\xbb\xbf{}",
    ] {
        for pointer in ["", "/a", "/0"] {
            agrees(body, pointer);
        }
    }
}

#[test]
fn names_are_unique_however_many_there_are() {
    for count in [1, 24, 25, 300] {
        let of = |extra: &str| {
            let names: Vec<_> = (0..count).map(|n| format!("\"n{n}\":{n}")).collect();
            format!("{{{}{extra}}}", names.join(","))
        };
        assert!(Members::parse(&of("")).is_some());
        for twice in ["n0".to_owned(), format!("n{}", count - 1), format!("\\u006e{}", count - 1)] {
            assert!(Members::parse(&of(&format!(",\"{twice}\":0"))).is_none(), "{count} {twice}");
            assert!(Members::parse(&of(&format!(",\"o\":[{}]", of(&format!(",\"{twice}\":0"))))).is_none());
        }
    }
}

#[test]
fn names_are_unique_inside_the_inner_object_too() {
    let inner = |json: &str| Members::parse_with(json, "in").map(|(_, inner)| inner.is_some());
    assert_eq!(inner(r#"{"in":{"a":1,"b":{"a":1}},"x":[{"a":1}]}"#), Some(true));
    assert_eq!(inner(r#"{"in":[{"a":1}],"x":1}"#), Some(false));
    assert_eq!(inner(r#"{"in":null}"#), Some(false));
    for twice in [
        r#"{"in":{"a":1,"a":1}}"#,
        r#"{"in":{"b":{"a":1,"a":1}}}"#,
        r#"{"in":[{"a":1,"a":1}]}"#,
        r#"{"in":{},"x":{"a":1,"a":1}}"#,
        r#"{"in":{},"in":{}}"#,
    ] {
        assert_eq!(inner(twice), None, "{twice}");
    }
}

/// `Value` shows something else under them.
#[test]
fn names_of_the_readers_own_are_refused_however_they_are_written() {
    for name in [
        "$serde_json::private::Number",
        "$serde_json::private::RawValue",
        r"\u0024serde_json::private::RawValue",
        r"$serde_\u006ason::private::Number",
    ] {
        for body in [
            format!(r#"{{"{name}":"1"}}"#),
            format!("{{\"a\":1,\"{name}\"\r\n\t :\"{{}}\"}}"),
            format!(r#"{{"a":"\"$","b":[1,{{"{name}":"[]"}}]}}"#),
        ] {
            assert!(Members::parse(&body).is_none(), "{body}");
            assert!(Members::parse_with(&body, "b").is_none(), "{body}");
            assert!(Members::parse_top(&body).is_none(), "{body}");
            assert_eq!(value_at(body.as_bytes(), "/a"), None, "{body}");
        }
        let elsewhere = format!(r#"{{"a":"{name}","b":["{name}",":",1.50],"c\"{name}":1}}"#);
        assert!(Members::parse(&elsewhere).is_some(), "{elsewhere}");
        agrees(elsewhere.as_bytes(), "/a");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_as_by_serde_json(
        body in r#"[\[\]{}:,"ab01~/ -]{0,24}"#,
        pointer in "(/[ab01~/-]{0,2}){0,3}",
    ) {
        agrees(body.as_bytes(), &pointer);
    }
}
