//! `send`: signs and sends test events, as the source's provider would.

use crate::cli::Send;
use crate::client::{Answer, Client};
use crate::clock::{OsEntropy, SystemClock};
use crate::demo;
use crate::failure::{Ended, Failure};
use crate::{ksuid, output, settings};
use anyhow::Context as _;
use oncefold_config::{Config, SourceConfig};
use oncefold_core::locator::Locator;
use oncefold_core::model::{BodyFormat, IdRule};
use oncefold_core::{Clock as _, Timestamp};
use oncefold_signature::{Request, Scheme, UnixTime};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);

/// One request to be sent.
#[derive(Clone, Debug, Default)]
struct Outgoing {
    id: String,
    headers: Vec<(String, String)>,
    query: Vec<String>,
    body: Vec<u8>,
}

pub fn run(args: &Send, config: Option<&Path>, as_json: bool) -> Result<Ended, Failure> {
    let config = settings::load(config)?.config;
    let source = config.source(&args.source).ok_or_else(|| {
        let names = config.sources.iter().map(|s| s.name().to_string()).collect::<Vec<_>>().join(", ");
        Failure::config(format!("--source: there is no source `{}`; there are: {names}", args.source))
    })?;
    let url = args.url.clone().unwrap_or_else(|| default_url(&config, &args.source));
    let mut outgoing = vec![];
    for document in documents(&args.data)? {
        let event = event(source, args, document)?;
        outgoing.extend(std::iter::repeat_n(event, args.repeat as usize));
    }
    if args.shuffle {
        demo::shuffle(&mut outgoing, &OsEntropy);
    }
    send_all(source, &url, &outgoing, as_json)
}

fn default_url(config: &Config, source: &str) -> String {
    let listen = config.ingest.listen;
    let host = if listen.ip().is_unspecified() { "127.0.0.1".to_owned() } else { listen.ip().to_string() };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    format!("http://{host}:{}/in/{source}", listen.port())
}

/// The JSON documents in `--data`: one event each.
fn documents(data: &str) -> Result<Vec<Value>, Failure> {
    let bytes = match data {
        "-" => {
            let mut bytes = vec![];
            std::io::stdin().lock().read_to_end(&mut bytes).context("standard input")?;
            bytes
        }
        _ => match data.strip_prefix('@') {
            Some(file) => std::fs::read(file).map_err(|e| Failure::config(format!("--data @{file}: {e}")))?,
            None => data.as_bytes().to_vec(),
        },
    };
    let documents = serde_json::Deserializer::from_slice(&bytes).into_iter().collect::<Result<Vec<Value>, _>>();
    match documents.map_err(|e| Failure::config(format!("--data is not JSON: {e}")))? {
        documents if documents.is_empty() => Err(Failure::config("--data is empty: give a JSON document, @FILE or -")),
        documents => Ok(documents),
    }
}

/// The event with type and id put where the source's rules read them.
fn event(source: &SourceConfig, args: &Send, mut document: Value) -> Result<Outgoing, Failure> {
    let id = args.id.clone().unwrap_or_else(|| ksuid::message_id(SystemClock.now(), &OsEntropy));
    let mut outgoing = Outgoing { id: id.clone(), ..Outgoing::default() };
    place(&source.model.event_type, &args.event_type, true, &mut document, &mut outgoing)
        .map_err(|e| Failure::config(format!("--type: {e}")))?;
    if let Some(at) = id_place(source) {
        let asked = args.id.is_some();
        place(at, &id, asked, &mut document, &mut outgoing).map_err(|e| Failure::config(format!("--id: {e}")))?;
    }
    let (body, content_type) = written(source, document);
    outgoing.body = body.into_bytes();
    outgoing.headers.push(("content-type".to_owned(), content_type.to_owned()));
    Ok(outgoing)
}

/// The part of the id that tells events apart: the last that is no other part of them.
fn id_place(source: &SourceConfig) -> Option<&Locator> {
    let parts = match &source.model.id {
        IdRule::Parts(parts) => parts,
        IdRule::FirstOf(lists) => lists.first()?,
        IdRule::Derive { .. } | IdRule::BodyDigest => return None,
    };
    let types = source.model.event_type.leaves();
    let mut own = parts.iter().filter(|part| !part.is_optional()).filter_map(|part| part.leaves().first().copied());
    own.rfind(|place| !types.contains(place))
}

/// The body as the source's provider writes it, and its type.
fn written(source: &SourceConfig, document: Value) -> (String, &'static str) {
    if source.model.format == BodyFormat::Json {
        let body = match &source.split {
            None => document,
            Some(tokens) => tokens.iter().rev().fold(json!([document]), |inner, token| json!({token.as_str(): inner})),
        };
        return (body.to_string(), "application/json");
    }
    let mut form = form_urlencoded::Serializer::new(String::new());
    for (name, value) in document.as_object().into_iter().flatten() {
        for value in value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice) {
            form.append_pair(name, value.as_str().unwrap_or(&value.to_string()));
        }
    }
    (form.finish(), "application/x-www-form-urlencoded")
}

/// Puts a text at a place; what stands there stays unless it is to be replaced.
fn place(
    place: &Locator,
    text: &str,
    replace: bool,
    document: &mut Value,
    outgoing: &mut Outgoing,
) -> Result<(), String> {
    match place {
        Locator::Header(name) => outgoing.headers.push((name.clone(), text.to_owned())),
        Locator::Query(name) => {
            let encode = |t: &str| utf8_percent_encode(t, NON_ALPHANUMERIC).to_string();
            outgoing.query.push(format!("{}={}", encode(name), encode(text)));
        }
        Locator::Const(_) | Locator::Optional(_) => {}
        Locator::First(places) => {
            if let Some(first) = places.first() {
                self::place(first, text, replace, document, outgoing)?;
            }
        }
        Locator::Pointer(tokens) => {
            let member = tokens.iter().try_fold(document, |at, token| step(at, token));
            let member =
                member.ok_or_else(|| format!("the source reads it at {place}, and --data has no room there"))?;
            if replace || member.is_null() {
                *member = json!(text);
            }
        }
    }
    Ok(())
}

/// The member of this name, made where there is none.
fn step<'a>(value: &'a mut Value, token: &str) -> Option<&'a mut Value> {
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(members) => Some(members.entry(token).or_insert(Value::Null)),
        Value::Array(items) => items.get_mut(token.parse::<usize>().ok()?),
        _ => None,
    }
}

fn send_all(source: &SourceConfig, url: &str, outgoing: &[Outgoing], as_json: bool) -> Result<Ended, Failure> {
    let client = Client::with_timeout(TIMEOUT);
    let mut all_accepted = true;
    let mut shown = vec![];
    for event in outgoing {
        let answer = send(&client, source, url, event)?;
        let accepted = (200..300).contains(&answer.status);
        all_accepted &= accepted;
        if as_json {
            shown.push(json!({"id": event.id, "status": answer.status, "body": answer.body}));
        } else if outgoing.len() <= 20 || !accepted {
            output::line(&format_args!("{} {} {}", answer.status, event.id, answer.body.trim()))?;
        }
    }
    if as_json {
        output::json(&Value::Array(shown))?;
    } else if outgoing.len() > 20 && all_accepted {
        output::line(&format_args!("{} accepted", outgoing.len()))?;
    }
    Ok(if all_accepted { Ended::Done } else { Ended::Found })
}

fn send(client: &Client, source: &SourceConfig, url: &str, event: &Outgoing) -> Result<Answer, Failure> {
    let signed_url = source.public_url.as_deref().unwrap_or(url);
    let plain: Vec<(&str, &[u8])> = event.headers.iter().map(|(n, v)| (n.as_str(), v.as_bytes())).collect();
    let request = Request {
        method: source.methods.first().map_or("POST", String::as_str),
        url: Some(signed_url),
        query: "",
        path_token: None,
        headers: &plain,
        body: &event.body,
    };
    let now: Timestamp = SystemClock.now();
    let mut target = url.to_owned();
    let mut headers = event.headers.clone();
    let mut query = event.query.clone();
    if !matches!(source.scheme, Scheme::None) {
        let secret = source.secrets.first().ok_or_else(|| Failure::config("the source has no secret to sign with"))?;
        let signed = source.scheme.sign(secret, &event.id, &request, UnixTime::from_micros(now.as_micros()))?;
        let replaced = |name: &str| signed.headers.iter().any(|(signed, _)| signed.eq_ignore_ascii_case(name));
        headers.retain(|(name, _)| !replaced(name));
        headers.extend(signed.headers);
        query.extend(signed.query);
        if let Some(token) = signed.path_token {
            target = format!("{target}/{}", utf8_percent_encode(&token, NON_ALPHANUMERIC));
        }
    }
    if !query.is_empty() {
        target = format!("{target}{}{}", if target.contains('?') { '&' } else { '?' }, query.join("&"));
    }
    client.post(&target, &headers, &event.body).map_err(|e| {
        Failure::Run(anyhow::anyhow!("{url} does not answer: {e}. Is `oncefold serve` running? Another address: --url"))
    })
}
