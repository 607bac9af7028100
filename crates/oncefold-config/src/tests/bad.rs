use super::*;

/// A bad config, and `line: path` of everything that is wrong with it. Each text starts at line 1.
const CASES: &[(&str, &[&str])] = &[
    ("[store]\nurl = 3\n[queue]\nurl = \"rabbit\"", &["2: store.url", "4: queue.url"]),
    ("[store]\nurl = \"sqlite://\"", &["2: store.url"]),
    ("[store]\nurl = \"sqlite:///tmp/x.db?mode=ro\"", &["2: store.url"]),
    ("[store]\nurl = \"mysql://h/d\"", &["2: store.url"]),
    ("[store]\nurl = \"postgres://u:p@s@h/d\"", &["2: store.url"]),
    ("[store]\nurl = \"postgres:///d\"", &["2: store.url"]),
    ("[store]\nurl = \"env:NOT_SET\"", &["2: store.url"]),
    ("[store]\nurl = \"file:/no/such/file\"", &["2: store.url"]),
    ("[store]\nurl = \"postgres://h/d\"", &["2: store.url"]),
    ("[store]\nurl = \"postgres://h/d\"\n[queue]\nurl = \"embedded\"", &["4: queue.url"]),
    ("\n[queue]\nurl = \"amqp://h\"", &["3: queue.url"]),
    ("[queue]\nurl = \"amqp://u:p%zz@h\"", &["2: queue.url"]),
    ("[queue]\nurl = \"amqp://u:a/b@h\"", &["2: queue.url"]),
    ("[queue]\nurl = \"amqp://u:p@h:99999\"", &["2: queue.url"]),
    (
        "[ingest]\nlisten = \"localhost:80\"\nmax_body = \"1MB\"\nconfirm_timeout = 2\n",
        &["2: ingest.listen", "3: ingest.max_body", "4: ingest.confirm_timeout"],
    ),
    ("[ingest]\nmax_body = \"1GiB\"\nconfirm_timeout = \"1d\"", &["2: ingest.max_body", "3: ingest.confirm_timeout"]),
    ("[ingest]\nmax_body = 0", &["2: ingest.max_body"]),
    ("[admin]\nlisten = \"0.0.0.0:8081\"", &["2: admin.listen"]),
    ("[admin]\nlisten = \"0.0.0.0:8081\"\ntokens = []", &["2: admin.listen"]),
    (
        "[admin]\ntokens = [\n  { name = \"\", role = \"root\", sha256 = \"abc\" },\n  { name = \"x\" },\n]",
        &[
            "3: admin.tokens[0].name",
            "3: admin.tokens[0].role",
            "3: admin.tokens[0].sha256",
            "4: admin.tokens[1].role",
            "4: admin.tokens[1].sha256",
        ],
    ),
    ("[ops]\nlisten = \"on\"", &["2: ops.listen"]),
    (
        "[worker]\nbatch = 0\nlinger = \"2s\"\nprefetch = 70000",
        &["2: worker.batch", "3: worker.linger", "4: worker.prefetch"],
    ),
    ("[worker]\nbatch = -1\nprefetch = 1.5", &["2: worker.batch", "3: worker.prefetch"]),
    ("[retry]\nmax_attempts = 0\nbase = \"2h\"\ncap = \"1h\"", &["2: retry.max_attempts", "4: retry.cap"]),
    ("[retry]\nbase = \"2h\"", &["2: retry.base"]),
    ("[retention]\nids = \"71h\"\nbodies = \"soon\"", &["2: retention.ids", "3: retention.bodies"]),
    ("[retention]\nids = \"4d\"\nbodies = \"5d\"", &["3: retention.bodies"]),
    ("[sources]\nshop = 1", &["2: sources.shop"]),
    (
        "[sources.\"a b\"]\npreset = \"svix\"\nsecrets = [\"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD\"]",
        &["1: sources.\"a b\""],
    ),
    ("[sources.x]", &["1: sources.x.verify.scheme"]),
    ("[sources.x]\nsecrets = [\"0123456789abcdef\"]", &["1: sources.x.verify.scheme"]),
    ("[sources.x]\npreset = \"svyx\"", &["2: sources.x.preset"]),
    ("[sources.x]\npreset = \"svix\"", &["1: sources.x.secrets"]),
    ("[sources.x]\npreset = \"svix\"\nsecrets = []", &["3: sources.x.secrets"]),
    ("[sources.x]\npreset = \"svix\"\nsecrets = \"env:A\"", &["3: sources.x.secrets"]),
    ("[sources.x]\nverify = 3", &["2: sources.x.verify"]),
    ("[sources.x]\nverify = { scheme = \"hmac\" }", &["1: sources.x.secrets", "2: sources.x.verify.header"]),
    (
        "[sources.x]\npreset = \"svix\"\nsecrets = [\n\"env:A\",\n\" \",\n\"whsec_c2hvcnQ=\",\n\"env:\",\n5,\n\"!!\"]",
        &[
            "4: sources.x.secrets[0]",
            "5: sources.x.secrets[1]",
            "6: sources.x.secrets[2]",
            "7: sources.x.secrets[3]",
            "8: sources.x.secrets[4]",
            "9: sources.x.secrets[5]",
        ],
    ),
    (
        "[sources.x]\npreset = \"svix\"\nsecrets = [\"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD\"]\ndefault_projections = true",
        &["4: sources.x.default_projections"],
    ),
    ("[sources.x]\nsecrets = [\"s\"]\n[sources.x.verify]\nscheme = \"none\"", &["2: sources.x.secrets"]),
    (
        "[sources.x]\nsecrets = [\"0123456789abcdef\"]\n[sources.x.verify]\nscheme = \"hmac\"\nalgorithm = \"md5\"\nin = \"path\"",
        &["3: sources.x.verify.header", "6: sources.x.verify.in"],
    ),
    (
        "[sources.x]\nsecrets = [\"0123456789abcdef\"]\n[sources.x.verify]\nscheme = \"hmac\"\nheader = \"x-sig\"\n\
         algorithm = \"md5\"\nencoding = \"base32\"\nkey_encoding = \"raw\"\nsigned = \"{timestamp}.{body}\"\ntolerance = \"1ms\"",
        &[
            "3: sources.x.verify.timestamp_header",
            "6: sources.x.verify.algorithm",
            "7: sources.x.verify.encoding",
            "8: sources.x.verify.key_encoding",
            "10: sources.x.verify.tolerance",
        ],
    ),
    (
        "[sources.x]\nsecrets = [\"0123456789abcdef\"]\n[sources.x.verify]\nscheme = \"hmac\"\nheader = \"x sig\"",
        &["5: sources.x.verify.header"],
    ),
    (
        "[sources.x]\nsecrets = [\"0123456789abcdef\"]\nverify = { scheme = \"hmac\", header = \"s\", timestamp_header = \"t\" }",
        &["3: sources.x.verify.timestamp_header"],
    ),
    (
        "[sources.x]\nsecrets = [\"0123456789abcdef\"]\nverify = { scheme = \"hmac\", header = \"s\", tolerance = \"5m\" }",
        &["3: sources.x.verify.tolerance"],
    ),
    (
        "[sources.x]\nsecrets = [\"0123456789abcdef\"]\nverify = { scheme = \"hmac\", header = \"s\", signed = \"{url}{body}\" }",
        &["1: sources.x.url"],
    ),
    (
        "[sources.x]\nsecrets = [\"0123456789abcdef\"]\nverify = { scheme = \"hmac\", header = \"s\", signed = \"v0\" }",
        &["3: sources.x.verify.signed"],
    ),
    (
        "[sources.x]\nsecrets = [\"0123456789abcdef\"]\nverify = { scheme = \"token\", in = \"path\", name = \"t\" }",
        &["3: sources.x.verify.name"],
    ),
    ("[sources.x]\nsecrets = [\"0123456789abcdef\"]\nverify = { scheme = \"token\" }", &["3: sources.x.verify.in"]),
    (
        "[sources.x]\nsecrets = [\"0123456789abcdef\"]\nverify = { scheme = \"token\", in = \"query\" }",
        &["3: sources.x.verify.name"],
    ),
    (
        "[sources.x]\nsecrets = [\"user\", \"user:\"]\nverify = { scheme = \"basic\", tolerance = \"1m\" }",
        &["2: sources.x.secrets[0]", "2: sources.x.secrets[1]", "3: sources.x.verify.tolerance"],
    ),
    (
        "[sources.x]\nverify = { scheme = \"none\" }\nmethods = [\"POST\", \"FETCH\"]\nformat = \"xml\"\nurl = \"shop\"\n\
         respond = { status = 302, body = 1, content_type = \"a\\nb\" }",
        &[
            "3: sources.x.methods[1]",
            "4: sources.x.format",
            "5: sources.x.url",
            "6: sources.x.respond.status",
            "6: sources.x.respond.body",
            "6: sources.x.respond.content_type",
        ],
    ),
    (
        "[sources.x]\nverify = { scheme = \"none\" }\nrespond = { status = 204, body = \"no\" }",
        &["3: sources.x.respond.body"],
    ),
    (
        "[sources.x]\nverify = { scheme = \"none\" }\nid = { derive = [\"/a\"], window = \"0s\" }\ntype = \"kind\"",
        &["3: sources.x.id.window", "4: sources.x.type"],
    ),
    (
        "[sources.x]\nverify = { scheme = \"none\" }\nid = { derive = [\"/a\"], first = [\"/b\"] }",
        &["3: sources.x.id.first"],
    ),
    ("[sources.x]\nverify = { scheme = \"none\" }\nid = {}", &["3: sources.x.id.derive"]),
    ("[sources.x]\nverify = { scheme = \"none\" }\nid = []", &["3: sources.x.id"]),
    (
        "[sources.x]\nverify = { scheme = \"none\" }\n[[sources.x.projections]]",
        &[
            "1: sources.x.id",
            "1: sources.x.type",
            "3: sources.x.projections[0].on",
            "3: sources.x.projections[0].entity",
            "3: sources.x.projections[0].key",
            "3: sources.x.projections[0].version",
        ],
    ),
    (
        "[sources.x]\nverify = { scheme = \"none\" }\nid = \"/id\"\ntype = \"/t\"\n[[sources.x.projections]]\non = [\"\"]\nentity = \"Order\"\n\
         key = [\"./id\"]\nversion = []\nmode = \"merge\"\nepoch = 0\nstate = {}\nrank = [3]\ndelete_version = [\"/v\"]\neach = \"/items\"",
        &[
            "6: sources.x.projections[0].on[0]",
            "7: sources.x.projections[0].entity",
            "8: sources.x.projections[0].key[0]",
            "9: sources.x.projections[0].version",
            "10: sources.x.projections[0].mode",
            "11: sources.x.projections[0].epoch",
            "12: sources.x.projections[0].state",
            "13: sources.x.projections[0].rank[0]",
            "14: sources.x.projections[0].delete_version",
            "15: sources.x.projections[0].each",
        ],
    ),
    (
        "[sources.x]\nsecrets = [\"0123456789abcdef\"]\nid = \"/id\"\ntype = \"/t\"\n\
         verify = { scheme = \"hmac\", header = \"s\", signed = \"{timestamp}{body}\", timestamp_header = \"X-Sent\" }\n\
         [[sources.x.projections]]\non = \"a\"\nentity = \"order\"\nkey = \"/id\"\nversion = \"header:x-sent\"",
        &["10: sources.x.projections[0].version"],
    ),
    (
        "[sources.x]\nverify = { scheme = \"none\" }\nid = \"/id\"\ntype = \"/t\"\n[[sources.x.projections]]\non = \"a\"\nentity = \"order\"\n\
         key = \"/id\"\nversion = [\n\"fetched_at\",\n\"header:Svix-Timestamp\",\n\"ksuid:id\",\n\"const:1\",\n\
         { at = \"/x\", type = \"date\" },\n{ type = \"int\" },\n{ at = \"/x\", type = \"int\", zone = \"UTC\" },\n{ at = \"/x\", zone = \"Mars\" },\n\"updated_at\"]\n\
         rank = { order = [] }\nstate = { a = \"/a\", b = { at = \"/b\", type = \"money\" }, c = { type = \"int\" } }",
        &[
            "10: sources.x.projections[0].version[0]",
            "11: sources.x.projections[0].version[1]",
            "12: sources.x.projections[0].version[2]",
            "13: sources.x.projections[0].version[3]",
            "14: sources.x.projections[0].version[4].type",
            "15: sources.x.projections[0].version[5].at",
            "16: sources.x.projections[0].version[6].zone",
            "17: sources.x.projections[0].version[7].zone",
            "18: sources.x.projections[0].version[8]",
            "19: sources.x.projections[0].rank.at",
            "19: sources.x.projections[0].rank.order",
            "20: sources.x.projections[0].state.b.type",
            "20: sources.x.projections[0].state.c.at",
        ],
    ),
];

#[test]
fn every_problem_is_named_with_its_line() {
    for (text, expected) in CASES {
        let found = problems(text);
        assert_eq!(places(&found), *expected, "{text}\n{found:#?}");
        for problem in found {
            assert!(!problem.message.is_empty() && !problem.mend.is_empty(), "{problem:?}");
        }
    }
}

#[test]
fn unknown_keys_are_answered_with_what_was_meant() {
    let store = |key: &str| format!("[{key}]\nurl = 'x'");
    for (text, place, mend) in [
        (store("stroe"), "1: stroe", "did you mean `store`?"),
        ("[worker]\nprefech = 3".to_owned(), "2: worker.prefech", "did you mean `prefetch`?"),
        ("[worker]\nconfirm_timeout = '1s'".to_owned(), "2: worker.confirm_timeout", "it belongs in [ingest]"),
        ("[store]\nlisten = 1".to_owned(), "2: store.listen", "it belongs in [ingest] or [admin] or [ops]"),
        ("[effects]".to_owned(), "1: effects", "remove it"),
        ("[retry]\nzzz = 1".to_owned(), "2: retry.zzz", "remove it, or use one of max_attempts, base, cap"),
        (
            "[sources.x]\nverify = { scheme = 'none' }\nsecret = ['a']".to_owned(),
            "3: sources.x.secret",
            "did you mean `secrets`?",
        ),
        (
            "[sources.x]\nverify = { scheme = 'none' }\nalgorithm = 'sha1'".to_owned(),
            "3: sources.x.algorithm",
            "it belongs in [sources.X.verify]",
        ),
        ("[sources.x]\nverify = { scheme = 'none' }\nfetch = '/a'".to_owned(), "3: sources.x.fetch", "remove it"),
    ] {
        let found = problems(&text);
        assert_eq!(places(&found), [place], "{text}");
        assert_eq!(found[0].mend, mend, "{text}");
    }
    let later = problems("[sources.x]\nverify = { scheme = 'none' }\nfetch = '/a'");
    assert_eq!(later[0].message, "`fetch` is not in this version");
}

#[test]
fn a_problem_reads_as_one_line() {
    let found = load("[worker]\n\nprefech = 3").unwrap_err();
    assert_eq!(
        found.to_string(),
        "oncefold.toml:3: worker.prefech: `prefech` is no key of [worker]; did you mean `prefetch`?"
    );
}

#[test]
fn every_syntax_error_is_named_with_its_column() {
    let found = problems("[store\nurl = 'a'\n[queue]\nurl = é\n");
    let at: Vec<_> = found.iter().map(|p| (p.line.unwrap(), p.column.unwrap())).collect();
    assert_eq!(at, [(1, 7), (4, 7)], "{found:#?}");
    assert!(found[0].message.contains("expected `]`"), "{}", found[0].message);
    let twice = problems("[store]\nurl = 'a'\nurl = 'b'");
    assert_eq!(twice[0].line, Some(3));
}

#[test]
fn variables_are_named() {
    let variables = [
        ("ONCEFOLD_STORE_URL", "nowhere"),
        ("ONCEFOLD_QUEUE_URL", ""),
        ("ONCEFOLD_INGEST_LISTEN", ":8080"),
        ("ONCEFOLD_ADMIN_LISTEN", "0.0.0.0:1"),
        ("ONCEFOLD_OPS_LISTEN", "none"),
    ];
    let found = load_with("", &variables).unwrap_err().problems;
    let expected: Vec<_> = variables.iter().map(|(name, _)| format!("environment: {name}")).collect();
    assert_eq!(places(&found), expected);
    assert_eq!(
        found[2].to_string(),
        "environment: ONCEFOLD_INGEST_LISTEN: is not an address to listen at; write \"0.0.0.0:8080\" for every \
         interface, \"127.0.0.1:8080\" for this host"
    );
}

#[test]
fn an_entity_kind_of_two_sources_is_shared_on_purpose() {
    let source = |name: &str, shared: bool| {
        format!(
            "[sources.{name}]\nverify = {{ scheme = 'none' }}\nid = '/id'\ntype = '/t'\nprojections = [\n\
             {{ on = '*', entity = 'order', key = '/id', version = '/v', shared = {shared} }}]\n"
        )
    };
    let two = |a, b| load(&(source("a", a) + &source("b", b)));
    assert_eq!(
        places(&two(false, false).unwrap_err().problems),
        ["6: sources.a.projections[0].entity", "12: sources.b.projections[0].entity"]
    );
    assert_eq!(places(&two(true, false).unwrap_err().problems), ["12: sources.b.projections[0].entity"]);
    assert!(two(true, true).is_ok());
    assert!(load(&source("a", false)).is_ok());
}

/// Beside a higher epoch a lower one could never change anything again.
#[test]
fn projections_of_an_entity_kind_state_one_epoch() {
    let source = |name: &str, epoch: u32| {
        format!(
            "[sources.{name}]\nverify = {{ scheme = 'none' }}\nid = '/id'\ntype = '/t'\nprojections = [\n\
             {{ on = '*', entity = 'order', key = '/id', version = '/v', shared = true, epoch = {epoch} }}]\n"
        )
    };
    let two = |a, b| load(&(source("a", a) + &source("b", b)));
    let found = two(1, 2).unwrap_err().problems;
    assert_eq!(places(&found), ["6: sources.a.projections[0].entity"]);
    assert!(found[0].mend.contains("epoch = 2"), "{}", found[0]);
    assert!(two(2, 2).is_ok());
}

#[test]
fn the_file_itself_may_be_what_is_wrong() {
    let path = std::path::Path::new("/no/such/oncefold.toml");
    let found = Config::load(Some(path), &env(&[])).unwrap_err();
    assert!(found.to_string().starts_with("/no/such/oncefold.toml: cannot be read: "), "{found}");
}

/// Whatever a file holds, it is answered: every byte of a config cut out, and every odd character put in.
#[test]
fn no_text_is_a_panic() {
    let text = "[store]\nurl = 'é'\n[sources.x]\npreset = 'stripe'\nsecrets = ['a']\nid = { first = ['/a'] }\n\
        [[sources.x.projections]]\non = ['*']\nversion = [{ at = '/ü', zone = 'UTC' }]\nrank = { at = '/s' }\n";
    for (at, _) in text.char_indices() {
        let _ = load(&text[..at]);
        let _ = load(&format!("{}{}", &text[..at], text[at..].chars().skip(1).collect::<String>()));
        for odd in ["\u{feff}", "\0", "ž", "\"\"\"", "[[", "= 1 =", "\r"] {
            let _ = load(&format!("{}{odd}{}", &text[..at], &text[at..]));
        }
    }
}

#[test]
fn what_does_not_go_together_is_named() {
    let source = "[sources.x]\nverify = { scheme = 'none' }\n";
    for (lines, place) in [
        ("split = '/a'\nid = 'header:x'", "3: sources.x.split"),
        ("split = 'header:a'", "3: sources.x.split"),
        ("split = '/a'\nformat = 'form'", "3: sources.x.split"),
        ("handshake = 'sns'", "3: sources.x.handshake"),
        ("handshake = 'nobody'", "3: sources.x.handshake"),
        ("handshake = { kind = 'slack', verify_token = 'x' }", "3: sources.x.handshake.verify_token"),
        ("handshake = { kind = 'meta', verify_token = ' ' }", "3: sources.x.handshake.verify_token"),
        ("handshake = { verify_token = 'x' }", "3: sources.x.handshake.kind"),
        ("content_encodings = ['br']", "3: sources.x.content_encodings[0]"),
        ("id = { first = ['/a'], window = '1m' }", "3: sources.x.id.window"),
        ("id = { derive = ['/a'], window = '1500ms' }", "3: sources.x.id.window"),
        ("id = [{ at = '/a', first = ['/b'] }]", "3: sources.x.id[0].first"),
        ("id = { first = [[]] }", "3: sources.x.id.first[0]"),
        ("type = { optional = true }", "3: sources.x.type.at"),
    ] {
        assert_eq!(places(&problems(&format!("{source}{lines}"))), [place], "{lines}");
    }
}
