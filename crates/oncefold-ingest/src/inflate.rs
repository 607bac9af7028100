//! Compressed bodies: `Content-Encoding: gzip`, where the source allows it.

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use std::io::Read as _;

/// How a body is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Identity,
    Gzip,
    Other,
}

impl Encoding {
    /// What the headers say (RFC 9110, section 8.4). Several encodings over one another are [`Encoding::Other`].
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut encoding = Self::Identity;
        let codings = headers.get_all(CONTENT_ENCODING).iter().flat_map(|value| value.as_bytes().split(|b| *b == b','));
        for coding in codings.map(<[u8]>::trim_ascii).filter(|c| !c.is_empty() && !c.eq_ignore_ascii_case(b"identity"))
        {
            let is_gzip = coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip");
            encoding = if is_gzip && encoding == Self::Identity { Self::Gzip } else { Self::Other };
        }
        encoding
    }
}

/// What became of compressed bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Inflated {
    Whole(Bytes),
    /// They are no gzip, or end too early.
    Broken,
    /// They would be longer than allowed.
    TooLong,
}

/// Inflates, never to more than `most` bytes.
pub(crate) fn gunzip(body: &[u8], most: usize) -> Inflated {
    let mut inflated = vec![];
    let mut reader = MultiGzDecoder::new(body).take(most as u64 + 1);
    match reader.read_to_end(&mut inflated) {
        _ if inflated.len() > most => Inflated::TooLong,
        Ok(_) => Inflated::Whole(inflated.into()),
        Err(_) => Inflated::Broken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write as _;

    fn gzip(body: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(vec![], Compression::best());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_bomb_is_not_inflated() {
        let bomb = gzip(&vec![b' '; 64 << 20]);
        assert!(bomb.len() < 100_000);
        assert_eq!(gunzip(&bomb, 1 << 20), Inflated::TooLong);
        assert_eq!(gunzip(&gzip(b"12345"), 5), Inflated::Whole(Bytes::from_static(b"12345")));
        assert_eq!(gunzip(&gzip(b"12345"), 4), Inflated::TooLong);
        let twice = [gzip(b"12"), gzip(b"345")].concat();
        assert_eq!(gunzip(&twice, 5), Inflated::Whole(Bytes::from_static(b"12345")));
        let cut = &gzip(b"12345")[..20];
        for broken in [&b""[..], b"12345", cut, &[gzip(b"1").as_slice(), b"rest"].concat()] {
            assert_eq!(gunzip(broken, 5), Inflated::Broken, "{broken:?}");
        }
    }

    #[test]
    fn one_encoding_is_told_from_several() {
        let of = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(CONTENT_ENCODING, value.parse().unwrap());
            }
            Encoding::of(&headers)
        };
        assert_eq!(of(&[]), Encoding::Identity);
        assert_eq!(of(&["", "Identity"]), Encoding::Identity);
        assert_eq!(of(&["identity, GZIP"]), Encoding::Gzip);
        for values in [&["gzip, gzip"][..], &["gzip", "x-gzip"], &["br"], &["br, gzip"], &["gzip, br"], &["g\u{e9}"]] {
            assert_eq!(of(values), Encoding::Other, "{values:?}");
        }
    }
}
