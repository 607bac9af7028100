//! Changes of a delivery where its structure is.

use super::vectors::Vector;
use oncefold_signature::UnixTime;
use proptest::prelude::*;
use proptest::sample::Index;

#[derive(Clone, Debug)]
pub(super) enum Edit {
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    /// A piece of the text once more, somewhere else: repeated fields, names and signatures.
    Copy(Index, usize, Index),
}

impl Edit {
    fn applied(&self, text: &[u8]) -> Vec<u8> {
        let mut out = text.to_vec();
        let place = |index: &Index| index.index(text.len() + 1);
        match self {
            Self::Flip(at, bits) if !text.is_empty() => out[at.index(text.len())] ^= bits,
            Self::Flip(..) => {}
            Self::Insert(at, bytes) => drop(out.splice(place(at)..place(at), bytes.iter().copied())),
            Self::Remove(at, count) => drop(out.drain(place(at)..(place(at) + count).min(text.len()))),
            Self::Copy(from, count, to) => {
                let piece = text[place(from)..(place(from) + count).min(text.len())].to_vec();
                out.splice(place(to)..place(to), piece);
            }
        }
        out
    }
}

#[derive(Clone, Debug)]
pub(super) enum Mutation {
    Body(Vec<Edit>),
    Header(Index, Edit),
    DropHeader(Index),
    RepeatHeader(Index, Option<Edit>),
    Url(Edit),
    Method,
    Clock(i64),
}

fn edit() -> impl Strategy<Value = Edit> {
    let grammar = prop::sample::select(vec![
        ",",
        ";",
        "=",
        " ",
        ".",
        ":",
        "|",
        "v1,",
        "v1=",
        "v0=",
        "t=",
        "ts=",
        "h1=",
        "sha256=",
        "\"",
        "{",
        "}",
        "\\",
        "\\u0000",
        "&",
        "+",
        "%",
        "%00",
        "\n",
        "\u{feff}",
        "null",
        "true",
        "\"success\":\"false\",",
        "\"Type\":\"Notification\",",
        "0",
        "-",
        "1e3",
    ]);
    let bytes =
        prop_oneof![grammar.prop_map(|text| text.as_bytes().to_vec()), prop::collection::vec(any::<u8>(), 1..4)];
    prop_oneof![
        (any::<Index>(), 1_u8..).prop_map(|(at, bits)| Edit::Flip(at, bits)),
        any::<Index>().prop_map(|at| Edit::Flip(at, 0x20)),
        (any::<Index>(), bytes).prop_map(|(at, bytes)| Edit::Insert(at, bytes)),
        (any::<Index>(), 1_usize..80).prop_map(|(at, count)| Edit::Remove(at, count)),
        (any::<Index>(), 1_usize..120, any::<Index>()).prop_map(|(from, count, to)| Edit::Copy(from, count, to)),
    ]
}

pub(super) fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        3 => prop::collection::vec(edit(), 1..3).prop_map(Mutation::Body),
        3 => (any::<Index>(), edit()).prop_map(|(which, edit)| Mutation::Header(which, edit)),
        1 => any::<Index>().prop_map(Mutation::DropHeader),
        1 => (any::<Index>(), prop::option::of(edit())).prop_map(|(which, edit)| Mutation::RepeatHeader(which, edit)),
        1 => edit().prop_map(Mutation::Url),
        1 => Just(Mutation::Method),
        1 => (-100_000_i64..100_000).prop_map(Mutation::Clock),
    ]
}

impl Mutation {
    pub(super) fn applied(&self, original: &Vector) -> Vector {
        let mut vector = original.clone();
        match self {
            Self::Body(edits) => vector.body = edits.iter().fold(vector.body, |body, edit| edit.applied(&body)),
            Self::Header(which, edit) if !vector.headers.is_empty() => {
                let value = &mut vector.headers[which.index(original.headers.len())].1;
                *value = edit.applied(value);
            }
            Self::DropHeader(which) if !vector.headers.is_empty() => {
                vector.headers.remove(which.index(original.headers.len()));
            }
            Self::RepeatHeader(which, edit) if !vector.headers.is_empty() => {
                let (name, value) = original.headers[which.index(original.headers.len())].clone();
                let value = edit.as_ref().map_or_else(|| value.clone(), |edit| edit.applied(&value));
                vector.headers.push((name, value));
            }
            // Without headers the credential is in the path: what happens to a header happens to it.
            Self::Header(_, edit) | Self::RepeatHeader(_, Some(edit)) => {
                let edited = |token: String| String::from_utf8_lossy(&edit.applied(token.as_bytes())).into_owned();
                vector.path_token = vector.path_token.map(edited);
            }
            Self::DropHeader(_) => vector.path_token = None,
            Self::Url(edit) => {
                vector.url = String::from_utf8_lossy(&edit.applied(vector.url.as_bytes())).into_owned();
            }
            Self::Method => vector.method = "PUT".to_owned(),
            Self::Clock(by) => vector.now = UnixTime::from_secs(vector.now.as_secs() + by),
            Self::RepeatHeader(_, None) => {}
        }
        vector
    }
}
