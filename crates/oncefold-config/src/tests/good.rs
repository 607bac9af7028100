use super::*;
use crate::{OpsListen, QueueUrl, Role, StoreUrl, load_source};
use oncefold_core::locator::Locator;
use oncefold_core::model::{BodyFormat, IdRule, RankRule, StateRule};
use oncefold_core::version::{VersionKind, VersionRule};
use oncefold_signature::Handshake;
use std::path::PathBuf;
use std::time::Duration;

const SVIX_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

fn at(text: &str) -> Locator {
    Locator::parse(text).unwrap()
}

/// The defaults of contract.md, "Config".
#[test]
fn without_a_file_the_defaults_hold() {
    let Loaded { config, warnings } = Config::load(None, &env(&[])).unwrap();
    assert!(warnings.is_empty());
    assert_eq!(config.store, StoreUrl::Sqlite(PathBuf::from("oncefold.db")));
    assert_eq!(config.queue, QueueUrl::Embedded);
    assert_eq!(config.ingest.listen.to_string(), "127.0.0.1:8080");
    assert_eq!((config.ingest.max_body, config.ingest.confirm_timeout), (1_048_576, Duration::from_secs(2)));
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:8081");
    assert!(config.admin.tokens.is_empty());
    assert_eq!(config.ops, OpsListen::Unset);
    assert_eq!(OpsListen::DEFAULT.to_string(), "127.0.0.1:9464");
    assert_eq!((config.worker.batch, config.worker.prefetch), (500, 1000));
    assert_eq!(config.worker.linger, Duration::from_millis(10));
    assert_eq!(config.retry.max_attempts, 60);
    assert_eq!((config.retry.base, config.retry.cap), (Duration::from_secs(2), Duration::from_secs(3600)));
    assert_eq!(config.retention.ids, Duration::from_secs(35 * 24 * 3600));
    assert_eq!(config.retention.bodies, Duration::from_secs(30 * 24 * 3600));
    assert!(config.sources.is_empty());
}

#[test]
fn variables_override_the_file_and_what_it_refers_to() {
    let text = "[store]\nurl = 'env:UNSET'\n[queue]\nurl = 'embedded'\n[ingest]\nlisten = '127.0.0.1:1'\n";
    let variables = [
        ("ONCEFOLD_STORE_URL", "env:DATABASE_URL"),
        ("DATABASE_URL", "postgresql://u:p%40ss@[::1]:5432/d?sslmode=require"),
        ("ONCEFOLD_QUEUE_URL", "amqps://u:p%2F@broker:5671/%2Fv"),
        ("ONCEFOLD_INGEST_LISTEN", "[::1]:0"),
        ("ONCEFOLD_ADMIN_LISTEN", "127.0.0.1:0"),
        ("ONCEFOLD_OPS_LISTEN", "off"),
    ];
    let config = load_with(text, &variables).unwrap().config;
    let StoreUrl::Postgres(store) = &config.store else { panic!("{:?}", config.store) };
    assert_eq!(store.expose_url(), variables[1].1);
    let QueueUrl::Amqp(queue) = &config.queue else { panic!("{:?}", config.queue) };
    assert_eq!(queue.expose_url(), variables[2].1);
    assert_eq!(config.ingest.listen.to_string(), "[::1]:0");
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:0");
    assert_eq!(config.ops, OpsListen::Off);
}

#[test]
fn durations_and_sizes() {
    let text = "[ingest]\nmax_body = '512KiB'\nconfirm_timeout = '150ms'\n[worker]\nbatch = 7\nprefetch = 7\nlinger = '0s'\n\
        [retry]\nbase = '15m'\ncap = '1d'\n[retention]\nids = '96h'\n";
    let Loaded { config, warnings } = load(text).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!((config.ingest.max_body, config.ingest.confirm_timeout), (524_288, Duration::from_millis(150)));
    assert_eq!(config.worker.linger, Duration::ZERO);
    assert_eq!((config.retry.base, config.retry.cap), (Duration::from_secs(900), Duration::from_secs(86_400)));
    // Bodies that are not spoken of are never kept longer than ids.
    assert_eq!(
        (config.retention.ids, config.retention.bodies),
        (Duration::from_secs(345_600), Duration::from_secs(345_600))
    );
    assert_eq!(load("ingest.max_body = 2048").unwrap().config.ingest.max_body, 2048);
}

#[test]
fn sqlite_paths() {
    for (url, path) in
        [("sqlite://a/b.db", "a/b.db"), ("sqlite:///var/o.db", "/var/o.db"), ("sqlite://a%20b%25.db", "a b%.db")]
    {
        let config = load(&format!("[store]\nurl = '{url}'")).unwrap().config;
        assert_eq!(config.store, StoreUrl::Sqlite(PathBuf::from(path)), "{url}");
    }
}

#[test]
fn tokens_open_the_admin_api_to_the_network() {
    let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let text = format!(
        "[admin]\nlisten = '0.0.0.0:8081'\ntokens = [{{ name = 'ops', role = 'operator', sha256 = '{hash}' }}]"
    );
    let admin = load(&text).unwrap().config.admin;
    assert_eq!((admin.tokens[0].name.as_str(), admin.tokens[0].role), ("ops", Role::Operator));
    assert_eq!(admin.tokens[0].sha256.to_hex(), hash);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{hash}\n")).unwrap();
    for (reference, is_there) in [
        (format!("file:{}", file.path().display()), true),
        ("env:HASH".to_owned(), true),
        ("env:NONE".to_owned(), false),
    ] {
        let text = format!("[admin]\ntokens = [{{ name = 'ops', role = 'viewer', sha256 = '{reference}' }}]");
        let loaded = load_with(&text, &[("HASH", hash)]);
        let read = loaded.ok().map(|loaded| loaded.config.admin.tokens[0].sha256.to_hex());
        assert_eq!(read, is_there.then(|| hash.to_owned()), "{reference}");
    }
}

#[test]
fn secrets_come_from_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("secret");
    std::fs::write(&path, format!("\n {SVIX_SECRET}\n")).unwrap();
    let text = format!(
        "[sources.x]\npreset = 'svix'\nsecrets = ['env:A', 'file:{}', 'whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA']",
        path.display()
    );
    let loaded = load_with(&text, &[("A", SVIX_SECRET)]).unwrap();
    let secret = |text| oncefold_signature::Secret::new(text).unwrap();
    let found = &loaded.config.sources[0].secrets;
    assert_eq!(found[..2], [secret(SVIX_SECRET), secret(SVIX_SECRET)]);
    assert_eq!(found[2], secret("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"));
    assert!(loaded.warnings.is_empty());
    let exposed = load_with(&format!("ingest.listen = '0.0.0.0:80'\n{text}"), &[("A", SVIX_SECRET)]).unwrap();
    assert_eq!(places(&exposed.warnings), ["4: sources.x.secrets[2]"]);
}

#[test]
fn what_is_unwise_is_said() {
    let text = "[worker]\nbatch = 10\nprefetch = 5\n[sources.a]\nverify = { scheme = 'none' }\nid = '/id'\ntype = '/t'\n\
        projections = [{ on = '*', entity = 'a', key = '/id', version = 'received_at' }]\n\
        [sources.b]\npreset = 'stripe'\nsecrets = ['$SECRET']\n";
    let warnings = load(text).unwrap().warnings;
    let expected = [
        "3: worker.prefetch",
        "5: sources.a.verify",
        "8: sources.a.projections[0].version",
        "11: sources.b.secrets",
        "11: sources.b.secrets[0]",
    ];
    assert_eq!(places(&warnings), expected, "{warnings:#?}");
}

#[test]
fn a_projection_in_full() {
    let text = r#"
        [sources.shop]
        id = ["header:X-Id", "/id"]
        type = "header:X-Topic"
        secrets = ["0123456789abcdef"]
        verify = { scheme = "hmac", header = "X-Sig", encoding = "base64" }
        methods = ["POST", "PUT"]
        respond = { status = 204 }
        url = "https://example.com/in/shop"

        [[sources.shop.projections]]
        on = ["orders/*"]
        entity = "order"
        key = ["const:eu", "/id"]
        version = ["/updated_at", { at = "/n", type = "decimal" }, { at = "/local", zone = "Europe/Prague" }, "ksuid:header:svix-id"]
        rank = { at = "/status", order = ["pending", "paid"] }
        mode = "replace"
        state = { status = "/status", total = { at = "/total", type = "decimal" } }
        delete_on = ["orders/delete"]
        delete_version = ["header:X-Triggered-At"]
        epoch = 3

        [[sources.shop.projections]]
        on = "orders/paid"
        entity = "order"
        key = "/id"
        version = "/updated_at"
        rank = ["orders/create", "orders/paid"]
        epoch = 3
    "#;
    let loaded = load(text).unwrap();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let source = loaded.config.source("shop").unwrap();
    assert_eq!(source.model.id, IdRule::Parts(vec![at("header:x-id"), at("/id")]));
    assert_eq!(source.model.event_type, at("header:x-topic"));
    assert_eq!(source.methods, ["POST", "PUT"]);
    assert_eq!((source.respond.status, source.respond.body.as_str()), (204, ""));
    assert_eq!(source.public_url.as_deref(), Some("https://example.com/in/shop"));
    let [first, second] = source.model.projections.as_slice() else { panic!() };
    assert_eq!((first.name.as_str(), second.name.as_str()), ("order", "order#2"));
    assert_eq!(first.key, [at("const:eu"), at("/id")]);
    assert_eq!(first.version[0], VersionRule::At { at: at("/updated_at"), kind: None, zone: None });
    assert_eq!(first.version[1], VersionRule::At { at: at("/n"), kind: Some(VersionKind::Decimal), zone: None });
    let VersionRule::At { zone: Some(zone), .. } = &first.version[2] else { panic!() };
    assert_eq!(zone.iana_name(), Some("Europe/Prague"));
    assert_eq!(first.version[3], VersionRule::Ksuid(at("header:svix-id")));
    assert_eq!(first.rank, RankRule::Value { at: at("/status"), order: vec!["pending".into(), "paid".into()] });
    let StateRule::Fields(fields) = &first.state else { panic!() };
    assert_eq!(fields.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["status", "total"]);
    assert_eq!(first.delete_version, [VersionRule::At { at: at("header:x-triggered-at"), kind: None, zone: None }]);
    assert_eq!((first.epoch, second.epoch), (3, 3));
    assert_eq!(second.state, StateRule::Whole);
    assert!(matches!(&second.rank, RankRule::Types(types) if types.len() == 2));
}

#[test]
fn credentials_in_requests_are_to_be_redacted() {
    let source = |verify: &str| {
        let text = format!("[sources.x]\nsecrets = ['user:0123456789abcdef']\nverify = {verify}");
        load(&text).unwrap().config.sources.remove(0)
    };
    let header = source("{ scheme = 'token', in = 'header', name = 'X-Token', prefix = 'Bearer ' }");
    assert_eq!((header.redact.headers.as_slice(), header.path_token), (&["x-token".to_owned()][..], false));
    let query = source("{ scheme = 'token', in = 'query', name = 'Key' }");
    assert_eq!(query.redact.query, ["Key"]);
    assert!(source("{ scheme = 'token', in = 'path' }").path_token);
    assert_eq!(source("{ scheme = 'basic' }").redact.headers, ["authorization"]);
}

#[test]
fn one_source_needs_no_more_than_itself() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("oncefold.toml");
    let text = format!(
        "[store]\nurl = 'env:UNSET'\n[sources.a]\npreset = 'svix'\nsecrets = ['{SVIX_SECRET}']\n[sources.b]\npreset = 'nope'\n\
         [sources.square]\npreset = 'square'\nsecrets = ['{SVIX_SECRET}']"
    );
    std::fs::write(&path, text).unwrap();
    assert_eq!(load_source(&path, "a", &env(&[])).unwrap().source.name().as_str(), "a");
    assert_eq!(places(&load_source(&path, "b", &env(&[])).unwrap_err().problems), ["7: sources.b.preset"]);
    // A captured request comes with its URL; `serve` and `check` want it stated.
    assert!(load_source(&path, "square", &env(&[])).unwrap().source.public_url.is_none());
    let absent = load_source(&path, "c", &env(&[])).unwrap_err();
    assert!(absent.to_string().ends_with("there is no source \"c\"; choose one of a, b, square"), "{absent}");
}

#[test]
fn ids_parts_and_what_deliveries_are_made_of() {
    let text = "[sources.x]\nverify = { scheme = 'none' }\nformat = 'query'\ncontent_encodings = ['gzip']\nmethods = ['GET']\n\
                id = { derive = ['/a', 'header:h'], window = '15m' }\ntype = { first = ['/t', 'const:c'] }\nhandshake = 'probe'\n\
                [sources.y]\nverify = { scheme = 'none' }\nsplit = '/e~1/0'\n\
                id = { first = [['/a', { at = '/b', optional = true }], '/c'] }\n\
                [[sources.y.projections]]\non = '*'\nentity = 'e'\nversion = '/v'\nkey = [{ first = ['/k', '/l'] }, '/m']\n";
    let loaded = load(&text.replace("id = { first", "type = '/t'\nid = { first")).unwrap();
    let [x, y] = loaded.config.sources.as_slice() else { panic!("two sources") };
    let derive = IdRule::Derive { places: vec![at("/a"), at("header:h")], window: Some(Duration::from_secs(900)) };
    assert_eq!((&x.model.id, x.model.format, x.takes_gzip), (&derive, BodyFormat::Query, true));
    assert_eq!(x.model.event_type, Locator::First(vec![at("/t"), at("const:c")]));
    assert_eq!(x.handshake, Some(Handshake::Probe));
    assert_eq!(y.split, Some(vec!["e/".to_owned(), "0".to_owned()]));
    let optional = Locator::Optional(Box::new(at("/b")));
    assert_eq!(y.model.id, IdRule::FirstOf(vec![vec![at("/a"), optional], vec![at("/c")]]));
    assert_eq!(y.model.projections[0].key, [Locator::First(vec![at("/k"), at("/l")]), at("/m")]);
    assert_eq!((y.handshake.as_ref(), y.takes_gzip, x.split.as_ref()), (None, false, None));
}

/// Files that hold secrets are told, so that they can be looked at for changes.
#[test]
fn files_with_secrets_are_known() {
    let directory = tempfile::tempdir().unwrap();
    let (secret, token) = (directory.path().join("secret"), directory.path().join("token"));
    std::fs::write(&secret, SVIX_SECRET).unwrap();
    std::fs::write(&token, "meatyhamhock").unwrap();
    let text = format!(
        "[sources.x]\npreset = 'meta'\nsecrets = ['env:A', 'file:{}']\nhandshake = {{ verify_token = 'file:{}' }}",
        secret.display(),
        token.display()
    );
    let source = load_with(&text, &[("A", SVIX_SECRET)]).unwrap().config.sources.remove(0);
    assert_eq!(source.secret_files, [secret, token]);
    assert!(matches!(source.handshake, Some(Handshake::Meta { .. })));
    assert!(!format!("{source:?}").contains("meatyhamhock"));
}
