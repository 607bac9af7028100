//! PEM files as an operator gives them and as a pinned host serves them: no panic, and no chain is trusted but that of
//! the one leaf which our root's intermediates signed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oncefold_signature::{SigningCertificate, TrustRoots, UnixTime};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use std::sync::LazyLock;

const CHAIN: &[u8] = include_bytes!("../../crates/oncefold-signature/src/testdata/chain.pem");
const ROOT: &[u8] = include_bytes!("../../crates/oncefold-signature/src/testdata/root.pem");

static LEAF: LazyLock<Vec<u8>> = LazyLock::new(|| first(CHAIN).unwrap());
static ROOTS: LazyLock<TrustRoots> = LazyLock::new(|| TrustRoots::of([first(ROOT).unwrap().as_slice()]));

fn first(pem: &[u8]) -> Option<Vec<u8>> {
    CertificateDer::pem_slice_iter(pem).next()?.ok().map(|der| der.to_vec())
}

/// The recorded chain with a piece replaced, so that what is close to it is reached as well.
fn changed(data: &[u8]) -> Vec<u8> {
    let (place, piece) = data.split_at(data.len().min(3));
    let at = place.iter().fold(0usize, |at, byte| at * 256 + usize::from(*byte)) % (CHAIN.len() + 1);
    let end = (at + piece.len()).min(CHAIN.len());
    [&CHAIN[..at], piece, &CHAIN[end..]].concat()
}

fn check(pem: &[u8], now: UnixTime) {
    let given = SigningCertificate::given(pem);
    let names = ["api.paypal.com".to_owned(), "hooks.example".to_owned(), "*".to_owned(), String::new()];
    if SigningCertificate::chained(pem, &ROOTS, &names, now).is_ok() {
        assert!(given.is_ok());
        assert_eq!(first(pem).as_ref(), Some(&*LEAF), "another leaf is trusted");
    }
}

fuzz_target!(|data: &[u8]| {
    let now = UnixTime::from_secs(i64::from(data.first().copied().unwrap_or_default()) * 20_000_000);
    check(data, now);
    check(&changed(data), now);
    let _ = TrustRoots::of([data]);
});
