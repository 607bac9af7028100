//! Which URL the sender may have signed instead of the one that the source states.

use crate::request::Request;
use crate::signed_url::SignedUrl;

/// Characters that HubSpot decodes in a URL before it signs.
const DECODED: [(&str, &str); 12] = [
    ("%3A", ":"),
    ("%2F", "/"),
    ("%3F", "?"),
    ("%40", "@"),
    ("%21", "!"),
    ("%24", "$"),
    ("%27", "'"),
    ("%28", "("),
    ("%29", ")"),
    ("%2A", "*"),
    ("%2C", ","),
    ("%3B", ";"),
];

/// Longest URL that is varied: what is made of a URL is hashed several times for each secret.
const LONGEST_URL: usize = 2_048;

/// Other forms of the stated URL, each once, without the stated one.
pub(super) fn of(req: &Request<'_>) -> Vec<String> {
    let Some(stated) = req.url.filter(|url| url.len() <= LONGEST_URL) else { return Vec::new() };
    let Some(url) = SignedUrl::parse(stated) else { return Vec::new() };
    let mut forms = Vec::new();
    for authority in authorities(&url, req) {
        for scheme in ["https", "http"] {
            for path in paths(url.path) {
                for query in queries(&url, req) {
                    forms.push(SignedUrl { scheme, authority: &authority, path: &path, query }.text());
                }
            }
        }
    }
    let decoded: Vec<_> =
        forms.iter().map(|form| DECODED.iter().fold(form.clone(), |url, (from, to)| url.replace(from, to))).collect();
    forms.extend(decoded);
    let mut seen = std::collections::HashSet::from([stated.to_owned()]);
    forms.retain(|form| seen.insert(form.clone()));
    forms
}

fn authorities(url: &SignedUrl<'_>, req: &Request<'_>) -> Vec<String> {
    let mut authorities = vec![url.authority.to_owned(), url.host().to_owned(), url.authority_with_port()];
    for name in ["host", "x-forwarded-host"] {
        let value = req.header_values(name).next().and_then(|value| std::str::from_utf8(value).ok());
        authorities.extend(value.filter(|value| value.len() <= LONGEST_URL).map(str::to_owned));
    }
    authorities.dedup();
    authorities
}

fn paths(path: &str) -> [String; 3] {
    let bare = path.trim_end_matches('/');
    [path.to_owned(), format!("{bare}/"), bare.to_owned()]
}

fn queries<'a>(url: &SignedUrl<'a>, req: &Request<'a>) -> [Option<&'a str>; 3] {
    let received = (!req.query.is_empty() && req.query.len() <= LONGEST_URL).then_some(req.query);
    [url.query, received, None]
}
