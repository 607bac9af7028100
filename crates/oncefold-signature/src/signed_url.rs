//! A public URL in its parts, as text: nothing is normalised, since what is signed is signed byte for byte.

/// `scheme://authority/path?query`, without the fragment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct SignedUrl<'a> {
    pub(crate) scheme: &'a str,
    pub(crate) authority: &'a str,
    /// With its leading `/`; may be empty.
    pub(crate) path: &'a str,
    /// Without the `?`; none where there is no `?`.
    pub(crate) query: Option<&'a str>,
}

impl<'a> SignedUrl<'a> {
    /// Nothing where the text has no `://`.
    pub(crate) fn parse(url: &'a str) -> Option<Self> {
        let url = url.split('#').next().unwrap_or_default();
        let (scheme, rest) = url.split_once("://")?;
        let (before, query) = rest.split_once('?').map_or((rest, None), |(before, query)| (before, Some(query)));
        let (authority, path) = before.split_at(before.find('/').unwrap_or(before.len()));
        Some(Self { scheme, authority, path, query })
    }

    pub(crate) fn host(&self) -> &'a str {
        self.port_at().map_or(self.authority, |at| &self.authority[..at])
    }

    /// Where `:port` begins.
    fn port_at(&self) -> Option<usize> {
        let at = self.authority.rfind(':')?;
        let port = &self.authority[at + 1..];
        (!port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())).then_some(at)
    }

    pub(crate) fn has_port(&self) -> bool {
        self.port_at().is_some()
    }

    pub(crate) fn without_port(self) -> Self {
        Self { authority: self.host(), ..self }
    }

    /// The authority with the scheme's own port, where it names none.
    pub(crate) fn authority_with_port(&self) -> String {
        if self.has_port() {
            return self.authority.to_owned();
        }
        let port = if self.scheme == "https" { 443 } else { 80 };
        format!("{}:{port}", self.authority)
    }

    pub(crate) fn text(&self) -> String {
        let Self { scheme, authority, path, query } = self;
        match query {
            Some(query) => format!("{scheme}://{authority}{path}?{query}"),
            None => format!("{scheme}://{authority}{path}"),
        }
    }
}
