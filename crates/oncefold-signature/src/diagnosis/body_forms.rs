//! What a body may have been before something on its way rewrote it.

/// A byte order mark in UTF-8.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// Other forms of a body, each with words that complete "the signature fits the body …".
pub(crate) fn of(body: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut forms = plain_forms(body);
    forms.extend(charset_forms(body));
    if serde_json::from_slice::<&serde_json::value::RawValue>(body).is_ok() {
        forms.extend(json_forms(body));
    }
    forms.retain(|(_, form)| form != body);
    forms
}

fn plain_forms(body: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("with a trailing newline", [body, b"\n"].concat()),
        ("with a trailing CRLF", [body, b"\r\n"].concat()),
        ("without the white space around it", body.trim_ascii().to_vec()),
        ("with CRLF line ends", replaced(&replaced(body, b"\r\n", b"\n"), b"\n", b"\r\n")),
        ("with LF line ends", replaced(body, b"\r\n", b"\n")),
        ("with a byte order mark", [BOM, body].concat()),
        ("without its byte order mark", body.strip_prefix(BOM).unwrap_or(body).to_vec()),
        ("empty", Vec::new()),
    ]
}

fn charset_forms(body: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let Ok(text) = std::str::from_utf8(body) else {
        let utf8: String = body.iter().map(|byte| char::from(*byte)).collect();
        return vec![("in UTF-8 (it came as Latin-1)", utf8.into_bytes())];
    };
    let latin1: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
    latin1.map(|bytes| ("in Latin-1 (it came as UTF-8)", bytes)).into_iter().collect()
}

/// Re-serialised forms; order of keys and text of numbers stay, as serialisers keep them more often than not.
fn json_forms(body: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let Ok(text) = std::str::from_utf8(body) else { return Vec::new() };
    let escaped = escape_non_ascii(text);
    let unescaped = unescape_non_ascii(text);
    let mut forms = Vec::new();
    for (compact, spaced, two, four, text) in [
        ("as compact JSON", "as JSON with \", \" and \": \"", "as JSON indented by 2", "as JSON indented by 4", text),
        (
            "as compact JSON with \\u escapes",
            "as JSON with \", \", \": \" and \\u escapes",
            "as JSON indented by 2 with \\u escapes",
            "as JSON indented by 4 with \\u escapes",
            &escaped,
        ),
        (
            "as compact JSON without \\u escapes",
            "as JSON with \", \" and \": \", without \\u escapes",
            "as JSON indented by 2 without \\u escapes",
            "as JSON indented by 4 without \\u escapes",
            &unescaped,
        ),
    ] {
        forms.push((compact, reformatted(text, Layout::COMPACT)));
        forms.push((spaced, reformatted(text, Layout::SPACED)));
        forms.push((two, reformatted(text, Layout::indented(2))));
        forms.push((four, reformatted(text, Layout::indented(4))));
    }
    let as_meta = escaped_by_meta(&escaped);
    forms.push(("with \\u escapes", escaped.into_bytes()));
    forms.push(("without \\u escapes", unescaped.into_bytes()));
    forms.push(("with / escaped as \\/", replaced(&replaced(body, b"\\/", b"/"), b"/", b"\\/")));
    forms.push(("with / not escaped", replaced(body, b"\\/", b"/")));
    forms.extend(sorted(body));
    forms.push(("with \\u escapes as Meta writes them", as_meta.into_bytes()));
    forms
}

fn sorted(body: &[u8]) -> Option<(&'static str, Vec<u8>)> {
    let value: serde_json::Value = serde_json::from_slice(body).ok()?;
    Some(("as compact JSON with sorted keys", serde_json::to_vec(&value).ok()?))
}

fn replaced(body: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body;
    while let Some(first) = rest.first() {
        if let Some(tail) = rest.strip_prefix(from) {
            out.extend_from_slice(to);
            rest = tail;
        } else {
            out.push(*first);
            rest = &rest[1..];
        }
    }
    out
}

#[derive(Clone, Copy)]
struct Layout {
    after_comma: &'static str,
    after_colon: &'static str,
    indent: Option<usize>,
}

impl Layout {
    const COMPACT: Self = Self { after_comma: "", after_colon: "", indent: None };
    const SPACED: Self = Self { after_comma: " ", after_colon: " ", indent: None };

    const fn indented(by: usize) -> Self {
        Self { after_comma: "", after_colon: " ", indent: Some(by) }
    }
}

/// Deepest indentation that is written out; deeper bodies are no form to try, and would grow without bound.
const DEEPEST: usize = 64;

/// Valid JSON with other white space between its tokens; strings and numbers stay as they are written.
fn reformatted(json: &str, layout: Layout) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let mut depth: usize = 0;
    let (mut in_string, mut escaped, mut just_opened) = (false, false, false);
    let newline = |out: &mut Vec<u8>, depth: usize| {
        if let Some(by) = layout.indent {
            out.push(b'\n');
            out.resize(out.len() + by * depth.min(DEEPEST), b' ');
        }
    };
    for byte in json.bytes() {
        if in_string {
            out.push(byte);
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        if byte.is_ascii_whitespace() {
            continue;
        }
        let closes = matches!(byte, b'}' | b']');
        if closes {
            depth = depth.saturating_sub(1);
        }
        if just_opened != closes && (just_opened || closes) {
            newline(&mut out, depth);
        }
        just_opened = matches!(byte, b'{' | b'[');
        depth += usize::from(just_opened);
        in_string = byte == b'"';
        out.push(byte);
        match byte {
            b',' => {
                out.extend_from_slice(layout.after_comma.as_bytes());
                newline(&mut out, depth);
            }
            b':' => out.extend_from_slice(layout.after_colon.as_bytes()),
            _ => {}
        }
    }
    out
}

fn escape_non_ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    out
}

/// What Meta signs and sends besides escapes beyond ASCII (developers.facebook.com, Webhooks, "Validating Payloads").
fn escaped_by_meta(escaped: &str) -> String {
    let slashes = escaped.replace("\\/", "/").replace('/', "\\/");
    [("<", "\\u003C"), ("%", "\\u0025"), ("@", "\\u0040")]
        .iter()
        .fold(slashes, |text, (from, to)| text.replace(from, to))
}

/// Turns `\uXXXX` beyond ASCII into characters; others stay escapes.
fn unescape_non_ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some((c, length)) = escaped_char(rest).filter(|(c, _)| !c.is_ascii()) {
            out.push(c);
            rest = &rest[length..];
        } else {
            let length = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
            out.push_str(&rest[..length]);
            rest = &rest[length..];
        }
    }
    out.push_str(rest);
    out
}

/// The character that one escape, or a surrogate pair of two, stands for, and the length of its text.
fn escaped_char(text: &str) -> Option<(char, usize)> {
    const ESCAPE: usize = "\\u0000".len();
    let unit = |text: &str| u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok();
    let first = unit(text)?;
    if let Some(c) = char::from_u32(u32::from(first)) {
        return Some((c, ESCAPE));
    }
    let second = unit(text.get(ESCAPE..)?)?;
    let c = char::decode_utf16([first, second]).next()?.ok()?;
    Some((c, ESCAPE * 2))
}
