//! The delivery as it came in.

use crate::verdict::{Rejection, RejectionReason};

/// One HTTP request, borrowed: what a scheme may look at.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The HTTP method, upper case.
    pub method: &'a str,
    /// The public URL the provider was given, from the source's config; never rebuilt from `Host`.
    pub url: Option<&'a str>,
    /// The raw query string, without the `?`.
    pub query: &'a str,
    /// The `{token}` of `/in/{source}/{token}`.
    pub path_token: Option<&'a str>,
    /// In order of arrival, repeats kept, names in any case.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// The body, byte for byte.
    pub body: &'a [u8],
}

impl<'a> Request<'a> {
    /// The values of a header, in order; the name is compared without regard to ASCII case.
    pub fn header_values(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.headers.iter().filter(move |(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }

    pub(crate) fn has_header(&self, name: &str) -> bool {
        self.header_values(name).next().is_some()
    }

    /// [`Request::sole_header`] of several names, in one pass where all is well.
    pub(crate) fn sole_headers<const N: usize>(&self, names: &[&str; N]) -> Result<[&'a [u8]; N], Rejection> {
        let mut found = [None; N];
        let mut repeated = false;
        for (given, value) in self.headers {
            let at = names.iter().position(|name| given.eq_ignore_ascii_case(name));
            if let Some(slot) = at.and_then(|at| found.get_mut(at)) {
                repeated |= slot.replace(*value).is_some();
            }
        }
        let mut values = [&b""[..]; N];
        for ((slot, found), name) in values.iter_mut().zip(found).zip(names) {
            *slot = match found {
                Some(value) if !repeated => value,
                _ => self.sole_header(name)?,
            };
        }
        Ok(values)
    }

    /// The one value of a header that has to be there exactly once: a repeat lets two parties read different values.
    pub(crate) fn sole_header(&self, name: &str) -> Result<&'a [u8], Rejection> {
        let mut values = self.header_values(name);
        let Some(first) = values.next() else {
            return Err(Rejection::of(RejectionReason::MissingHeader, format!("header {name} is missing")));
        };
        match values.count() {
            0 => Ok(first),
            more => Err(Rejection::of(
                RejectionReason::DuplicateHeader,
                format!("header {name} has {} values, one is allowed", more + 1),
            )),
        }
    }
}
