//! The providers' own libraries against the real binary: as senders, as receivers, and as oracles. The Python side is
//! `tests/known_clients`; `scripts/services start` installs the libraries, and `scripts/services env` says where.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oncefold_e2e::{Api, Backend, Deployment, wait};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A source whose provider is played by its library.
struct Client {
    source: &'static str,
    preset: &'static str,
    secret: &'static str,
    other_secret: &'static str,
    /// What the source states besides preset and secret.
    more: &'static str,
    /// Whether `oncefold send` can sign for it.
    signs: bool,
}

const TEXT: (&str, &str) = ("a client secret of the provider", "a client secret of somebody else");
const WHSEC: (&str, &str) = ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD");
const HEX: (&str, &str) = (
    "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056",
    "009E9E92268087AAD241638D3325201AFE8AAE6F3DCD369B6D32E87129FFAB10",
);
/// ed25519 public keys (RFC 8032) of the seeds in libraries.py.
const PUBLIC: (&str, &str) = (
    "c2e8ea8dcf9d523a61fef1b95daad42f6c2479946f539081a2b78aa8d9da32e6",
    "16e9a16f6466c03cc521e725ca8961018014535a682940bdbacab1590e098b46",
);
const TWILIO: &str = "id = \"/MessageSid\"\ntype = \"const:sms\"\n";

const fn client(source: &'static str, secrets: (&'static str, &'static str), more: &'static str) -> Client {
    Client { source, preset: source, secret: secrets.0, other_secret: secrets.1, more, signs: true }
}

const CLIENTS: [Client; 15] = [
    Client { signs: false, ..client("adyen", HEX, "") },
    client("adyen-platform", HEX, "id = \"/id\"\n"),
    client("bigcommerce", TEXT, ""),
    Client { signs: false, ..client("discord", PUBLIC, "") },
    client("hubspot", TEXT, "id = \"/eventId\"\n"),
    client("mollie", TEXT, ""),
    client("paddle", TEXT, ""),
    client("slack", TEXT, ""),
    client("square", TEXT, ""),
    client("standard-webhooks", WHSEC, ""),
    client("stripe", WHSEC, ""),
    client("svix", WHSEC, ""),
    client("twilio", TEXT, TWILIO),
    Client { preset: "twilio", ..client("twilio-json", TEXT, "format = \"json\"\nid = \"/id\"\ntype = \"/type\"\n") },
    Client {
        preset: "twilio",
        more: "id = \"/MessageSid\"\ntype = \"const:sms\"\nverify = { algorithm = \"sha256\" }\n",
        ..client("twilio-shared", TEXT, "")
    },
];

impl Client {
    fn signs_url(&self) -> bool {
        ["hubspot", "square", "twilio"].contains(&self.preset)
    }

    fn url(&self) -> String {
        format!("https://hooks.example/in/{}{}", self.source, if self.preset == "hubspot" { "?a=1" } else { "" })
    }

    fn toml(&self, secret: &str) -> String {
        let Self { source, preset, more, .. } = self;
        let url = if self.signs_url() { format!("url = \"{}\"\n", self.url()) } else { String::new() };
        format!("[sources.{source}]\npreset = \"{preset}\"\nsecrets = [\"{secret}\"]\n{url}{more}")
    }
}

fn sources(secret: impl Fn(&Client) -> &'static str) -> String {
    CLIENTS.iter().map(|client| client.toml(secret(client))).collect()
}

/// What the Python side is told.
fn setup() -> String {
    let of = |c: &Client| json!({"secret": c.secret, "other_secret": c.other_secret, "url": c.url()});
    Value::Object(CLIENTS.iter().map(|client| (client.source.to_owned(), of(client))).collect::<Map<_, _>>())
        .to_string()
}

/// Python with the libraries, running `tests/known_clients/main.py`.
fn python(args: &[&str]) -> Child {
    let python = std::env::var("ONCEFOLD_TEST_PYTHON").expect(
        "ONCEFOLD_TEST_PYTHON names the Python with the providers' libraries: ./scripts/services start; eval \"$(./scripts/services env)\"",
    );
    let main = Path::new(env!("CARGO_MANIFEST_DIR")).join("known_clients/main.py");
    let mut command = Command::new(&python);
    command.arg(main).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).env_remove("TEST_MODE");
    let mut child = command.spawn().unwrap_or_else(|e| panic!("{python}: {e}; ./scripts/services start installs it"));
    child.stdin.take().unwrap().write_all(setup().as_bytes()).expect("python reads its setup");
    child
}

/// One delivery that a library signed or tampered with, and both verdicts.
struct Delivery {
    source: String,
    case: String,
    library_accepts: bool,
    accepted: bool,
    event_ids: Vec<String>,
    line: Value,
}

impl Delivery {
    fn read(line: &str) -> Self {
        let line: Value = serde_json::from_str(line).expect("a line of main.py");
        let text = |name: &str| line[name].as_str().unwrap().to_owned();
        let status = line["status"].as_u64().unwrap();
        assert!(status == 401 || (200..300).contains(&status), "neither taken nor refused: {line}");
        Self {
            source: text("source"),
            case: text("case"),
            library_accepts: line["library_accepts"].as_bool().unwrap(),
            accepted: status < 300,
            event_ids: line["event_ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect(),
            line,
        }
    }

    /// What `oncefold verify` says of it: valid, or the reason.
    fn verified(&self, deployment: &Deployment) -> (bool, String) {
        let dir = deployment.dir();
        let headers = self.line["headers"].as_array().unwrap();
        let headers = headers.iter().map(|h| format!("{}: {}\n", h[0].as_str().unwrap(), h[1].as_str().unwrap()));
        std::fs::write(dir.join("headers"), headers.collect::<String>()).unwrap();
        std::fs::write(dir.join("body"), STANDARD.decode(self.line["body"].as_str().unwrap()).unwrap()).unwrap();
        let at = self.line["at"].to_string();
        let mut args = vec!["verify", "--source", &self.source, "--headers", "headers", "--body", "body", "--at", &at];
        let client = CLIENTS.iter().find(|client| client.source == self.source).unwrap();
        let query = self.line["query"].as_str().unwrap();
        let url = if query.is_empty() { client.url() } else { format!("{}?{query}", client.url()) };
        args.extend(["--url", &url, "--json"]);
        let out = deployment.cli(&args);
        let verdict: Value = serde_json::from_slice(&out.stdout).expect("JSON of verify");
        assert_eq!(out.status.success(), verdict["verdict"] == "valid", "{verdict}");
        (out.status.success(), verdict["reason"].as_str().unwrap_or_default().to_owned())
    }

    fn shown(&self) -> String {
        format!(
            "{} {:?}: library {}, oncefold {}; {}",
            self.source, self.case, self.library_accepts, self.accepted, self.line
        )
    }
}

/// A case in which a verdict of ours is another than the library's, on purpose.
struct Difference {
    sources: &'static [&'static str],
    case: &'static str,
    why: &'static str,
}

const fn differs(sources: &'static [&'static str], case: &'static str, why: &'static str) -> Difference {
    Difference { sources, case, why }
}

const STANDARD_WEBHOOKS: &[&str] = &["bigcommerce", "standard-webhooks", "svix"];
const TIME_TEXT: &str = "the library parses the time and signs it formatted anew; the specification signs the text";
const NO_FUTURE: &str = "the library bounds the past only, so that a time far ahead can be replayed until then";
const TWO_TIMES: &str = "libraries differ in which of two times is checked and which is signed";

/// The library takes it, we refuse.
const STRICTER: [Difference; 11] = [
    differs(&["adyen"], "second item forged", "the library looks at the first item only"),
    differs(STANDARD_WEBHOOKS, "signature longer", "the library reads base64 up to its padding"),
    differs(STANDARD_WEBHOOKS, "time with sign", TIME_TEXT),
    differs(STANDARD_WEBHOOKS, "time with zero", TIME_TEXT),
    differs(STANDARD_WEBHOOKS, "fractional time", TIME_TEXT),
    differs(&["svix"], "headers of both families", "the library mixes them, so that an unsigned id could stand there"),
    differs(&["discord"], "an hour old", "the library checks no time, so that a delivery can be replayed for ever"),
    differs(&["discord"], "an hour ahead", NO_FUTURE),
    differs(&["hubspot", "stripe"], "an hour ahead", NO_FUTURE),
    differs(&["paddle", "stripe"], "two times", TWO_TIMES),
    differs(&["paddle", "stripe"], "signature twice", TWO_TIMES),
];

/// The library refuses, we take: there is a signature that fits, beside something the library cannot read.
const LAXER: [Difference; 2] = [
    differs(
        STANDARD_WEBHOOKS,
        "entry without comma",
        "the library raises ValueError; entries of other forms are skipped",
    ),
    differs(
        &["paddle"],
        "unknown field",
        "the library raises ValueError; Stripe's, Paddle's elsewhere and ours skip it",
    ),
];

fn listed(table: &[Difference], delivery: &Delivery) -> bool {
    table.iter().any(|known| known.case == delivery.case && known.sources.contains(&delivery.source.as_str()))
}

/// Everything a library says is right is taken and lands in the log, everything it says is wrong is refused, but for
/// what is listed above; `oncefold verify` agrees with the server.
#[test]
fn verdicts_are_those_of_the_providers_libraries() {
    [Backend::Embedded, Backend::Fleet].into_iter().for_each(verdicts_are_the_libraries);
}

fn verdicts_are_the_libraries(backend: Backend) {
    let deployment = Deployment::on(backend, &sources(|client| client.secret));
    let mut serve = deployment.start(&["serve"]);
    let (ingest, api) = (serve.address("intake"), Api::at(serve.address("admin")));
    let out = python(&["send", &format!("http://{ingest}/in")]).wait_with_output().expect("python");
    assert!(out.status.success(), "main.py send failed, see above");
    let deliveries: Vec<_> = String::from_utf8(out.stdout).unwrap().lines().map(Delivery::read).collect();

    let mut unlike = vec![];
    for delivery in &deliveries {
        let is_edited = delivery.case == "edited";
        let explained = match (delivery.library_accepts, delivery.accepted) {
            (true, true) | (false, false) => continue,
            (true, false) => listed(&STRICTER, delivery) || (is_edited && is_about_form(&deployment, delivery)),
            (false, true) => listed(&LAXER, delivery) || (is_edited && library_cannot_read(delivery)),
        };
        if !explained {
            unlike.push(delivery.shown());
        }
    }
    assert!(unlike.is_empty(), "{} verdicts differ:\n{}", unlike.len(), unlike.join("\n"));
    every_listed_difference_is_seen(&deliveries);

    let mut seen: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for delivery in &deliveries {
        let count = seen.entry((&delivery.source, &delivery.case)).or_default();
        *count += 1;
        if *count == 1 {
            let (valid, reason) = delivery.verified(&deployment);
            assert_eq!(valid, delivery.accepted, "`verify` says {reason}: {}", delivery.shown());
        }
        match delivery.case.as_str() {
            "genuine" => assert!(delivery.accepted && delivery.library_accepts, "{}", delivery.shown()),
            "secret of another" | "an hour old" | "signature missing" => {
                assert!(!delivery.accepted, "{}", delivery.shown());
            }
            _ => {}
        }
    }
    for client in &CLIENTS {
        assert!(seen[&(client.source, "genuine")] >= 10, "{}", client.source);
        assert!(seen[&(client.source, "edited")] >= 50, "{}", client.source);
        assert_eq!(seen[&(client.source, "secret of another")], 1, "{}", client.source);
        let taken = deliveries.iter().filter(|d| d.source == client.source && d.accepted);
        let expected: BTreeSet<&str> = taken.flat_map(|d| &d.event_ids).map(String::as_str).collect();
        logged(&api, client.source, &expected);
    }
}

/// Whether we refuse for how something is written, not for a signature that does not fit: then the library read it
/// leniently, and both mean the same signature.
fn is_about_form(deployment: &Deployment, delivery: &Delivery) -> bool {
    let (_, reason) = delivery.verified(deployment);
    reason.starts_with("malformed_") || reason.starts_with("missing_") || reason.starts_with("duplicate_")
}

/// Whether the library stumbled over something beside a signature that fits, as in the cases of [`LAXER`].
fn library_cannot_read(delivery: &Delivery) -> bool {
    let sources = LAXER.iter().flat_map(|known| known.sources);
    let is_known = sources.into_iter().any(|source| *source == delivery.source);
    is_known && delivery.line["library_says"].as_str().unwrap().starts_with("ValueError: ")
}

fn every_listed_difference_is_seen(deliveries: &[Delivery]) {
    for (table, library_accepts) in [(&STRICTER[..], true), (&LAXER[..], false)] {
        for (known, source) in table.iter().flat_map(|known| known.sources.iter().map(move |source| (known, source))) {
            let mut of_case = deliveries.iter().filter(|d| d.case == known.case && d.source == *source);
            let differs = of_case.any(|d| d.library_accepts == library_accepts && d.accepted != library_accepts);
            assert!(differs, "{source} {:?} does not differ any more ({})", known.case, known.why);
        }
    }
}

/// The log has the events of what was taken, and no others.
fn logged(api: &Api, source: &str, expected: &BTreeSet<&str>) {
    wait::until(&format!("the events of {source} are logged"), Duration::from_secs(60), || {
        let events = api.all(&format!("/events?source={source}"));
        let ids: BTreeSet<&str> = events.iter().map(|event| event["event_id"].as_str().unwrap_or_default()).collect();
        let extra: Vec<_> = ids.difference(expected).collect();
        assert!(extra.is_empty(), "{source}: in the log, though not taken: {extra:?}");
        if ids == *expected { Ok(()) } else { Err((ids.len(), expected.len())) }
    });
}

/// A receiver that the providers' libraries run. Killed when dropped.
struct Receiver {
    child: Child,
    port: u16,
}

impl Receiver {
    fn start() -> Self {
        let mut child = python(&["receive"]);
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).expect("the port");
        Self { child, port: line.trim().parse().expect("main.py receive prints its port") }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What `oncefold send` signs, the libraries take; with another secret they do not.
#[test]
fn the_providers_libraries_take_what_send_signs() {
    const DOCUMENTS: usize = 25;
    let documents = python(&["documents", &DOCUMENTS.to_string()]).wait_with_output().expect("python");
    assert!(documents.status.success());
    let ours = Deployment::on(Backend::Embedded, &sources(|client| client.secret));
    let theirs = Deployment::on(Backend::Embedded, &sources(|client| client.other_secret));
    let receiver = Receiver::start();
    for client in CLIENTS.iter().filter(|client| client.signs) {
        let url = format!("http://127.0.0.1:{}/{}", receiver.port, client.source);
        for (deployment, status) in [(&ours, 200), (&theirs, 401)] {
            std::fs::write(deployment.dir().join("documents"), &documents.stdout).unwrap();
            let args = ["send", "--source", client.source, "--type", "thing.x", "--data", "@documents", "--url", &url];
            let out = deployment.cli(&[&args[..], &["--json"]].concat());
            let answers: Value = serde_json::from_slice(&out.stdout)
                .unwrap_or_else(|_| panic!("{}: {}", client.source, String::from_utf8_lossy(&out.stderr)));
            let answers = answers.as_array().unwrap();
            assert_eq!(answers.len(), DOCUMENTS);
            for answer in answers {
                assert_eq!(answer["status"], status, "{}: {answer}", client.source);
            }
        }
    }
}
