use super::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tokio::time::{Instant, timeout};

fn wanted(wanted: bool) -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(wanted))
}

#[tokio::test(start_paused = true)]
async fn it_ends_when_the_peer_does() {
    let (ours, mut peer) = duplex(100);
    let mut lingering = Lingering::around(ours, wanted(true));
    lingering.write_all(b"413").await.unwrap();
    let peer = async {
        peer.write_all(&[b'x'; 100_000]).await.unwrap();
        let mut read = vec![];
        peer.read_to_end(&mut read).await.unwrap();
        drop(peer);
        read
    };
    let began = Instant::now();
    let (shut, read) = tokio::join!(lingering.shutdown(), peer);
    shut.unwrap();
    assert_eq!((read.as_slice(), began.elapsed()), (&b"413"[..], Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_stays_costs_a_second_and_one_that_floods_a_mebibyte() {
    let (ours, _peer) = duplex(100);
    let began = Instant::now();
    Lingering::around(ours, wanted(true)).shutdown().await.unwrap();
    assert!((LINGER..LINGER + Duration::from_millis(5)).contains(&began.elapsed()));

    let (ours, mut peer) = duplex(64 * 1024);
    let mut lingering = Lingering::around(ours, wanted(true));
    let flood = async {
        let mut sent = 0;
        while let Ok(Ok(written)) = timeout(Duration::from_millis(100), peer.write(&[b'x'; 4096])).await {
            sent += written;
        }
        sent
    };
    let (shut, sent) = tokio::join!(lingering.shutdown(), flood);
    shut.unwrap();
    assert!((LINGER_BYTES_MAX..LINGER_BYTES_MAX + 128 * 1024).contains(&sent), "{sent}");
}

#[tokio::test(start_paused = true)]
async fn where_it_is_not_wanted_it_takes_no_time() {
    let (ours, _peer) = duplex(100);
    let began = Instant::now();
    Lingering::around(ours, wanted(false)).shutdown().await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
}
