//! A TCP proxy on loopback that misbehaves on demand: what stands between a client and its broker or database in tests of
//! outages.

use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// How the proxy treats connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Flow,
    Stall,
    /// Only what clients send moves.
    Unanswered,
    Cut,
}

#[derive(Clone, Copy, Debug)]
struct State {
    mode: Mode,
    /// Connections of an earlier generation are closed.
    generation: u64,
    /// Bytes that move on a connection either way, at most.
    most: u64,
}

impl State {
    fn moves(self, way: Way) -> bool {
        self.mode == Mode::Flow || (self.mode == Mode::Unanswered && way == Way::ToServer)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    ToServer,
    ToClient,
}

/// A proxy in front of one address. It forwards until told otherwise, and is gone with all connections when dropped.
#[derive(Debug)]
pub struct ChaosProxy {
    address: SocketAddr,
    state: watch::Sender<State>,
    _accepting: AbortOnDropHandle<()>,
}

impl ChaosProxy {
    /// Listens on a free port of loopback and forwards to `target`, which need not be there yet.
    ///
    /// # Panics
    /// When no port can be bound.
    pub async fn before(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let state = watch::Sender::new(State { mode: Mode::Flow, generation: 0, most: u64::MAX });
        let accepting = tokio::spawn(accept(listener, target, state.subscribe()));
        Self { address, state, _accepting: AbortOnDropHandle::new(accepting) }
    }

    /// Where to connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes every connection, and further ones as soon as they are made, until [`restore`](Self::restore).
    pub fn cut(&self) {
        self.set(Mode::Cut);
    }

    /// Closes every connection; new ones work.
    pub fn disconnect(&self) {
        self.state.send_modify(|state| state.generation += 1);
    }

    /// Accepts and holds connections, but moves no byte either way until [`restore`](Self::restore): a frozen peer.
    /// What was sent meanwhile is not lost.
    pub fn stall(&self) {
        self.set(Mode::Stall);
    }

    /// Forwards what clients send, but holds the answers back until [`restore`](Self::restore).
    pub fn hold_answers(&self) {
        self.set(Mode::Unanswered);
    }

    /// Moves no more than so many bytes either way on a connection, and does not close it: the network between forgot
    /// it. Others work.
    pub fn swallow_after(&self, bytes: u64) {
        self.state.send_modify(|state| state.most = bytes);
    }

    /// Forwards again.
    pub fn restore(&self) {
        self.set(Mode::Flow);
    }

    fn set(&self, mode: Mode) {
        self.state.send_modify(|state| state.mode = mode);
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, state: watch::Receiver<State>) {
    let mut connections = tokio::task::JoinSet::new(); // aborted with this task
    while let Ok((client, _)) = listener.accept().await {
        let State { mode, generation, .. } = *state.borrow();
        if mode != Mode::Cut {
            connections.spawn(forward(client, target, Gate { state: state.clone(), generation }));
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn forward(client: TcpStream, target: SocketAddr, gate: Gate) {
    let Ok(server) = TcpStream::connect(target).await else { return };
    let (client_reads, client_writes) = client.into_split();
    let (server_reads, server_writes) = server.into_split();
    tokio::select! {
        () = pump(client_reads, server_writes, (gate.clone(), Way::ToServer)) => {}
        () = pump(server_reads, client_writes, (gate.clone(), Way::ToClient)) => {}
        () = gate.closed() => {}
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, (gate, way): (Gate, Way)) {
    let mut buffer = vec![0; 64 << 10];
    let mut moved = 0;
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        gate.open(way).await; // bytes that came during a stall wait with us
        moved += read as u64;
        gate.reached(|state| moved <= state.most).await;
        if to.write_all(&buffer[..read]).await.is_err() {
            break;
        }
    }
}

/// What one connection may do.
#[derive(Clone)]
struct Gate {
    state: watch::Receiver<State>,
    generation: u64,
}

impl Gate {
    async fn open(&self, way: Way) {
        self.reached(|state| state.moves(way)).await;
    }

    async fn closed(&self) {
        let generation = self.generation;
        self.reached(|state| state.mode == Mode::Cut || state.generation != generation).await;
    }

    async fn reached(&self, condition: impl FnMut(&State) -> bool) {
        // It fails only when the proxy is gone, and then this task is being aborted.
        let _ = self.state.clone().wait_for(condition).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    const SOON: Duration = Duration::from_secs(10);
    const BRIEFLY: Duration = Duration::from_millis(100);

    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut reads, mut writes) = socket.split();
                    let _ = tokio::io::copy(&mut reads, &mut writes).await;
                });
            }
        });
        address
    }

    async fn answer(socket: &mut TcpStream) -> std::io::Result<u8> {
        timeout(SOON, socket.read_u8()).await.expect("an answer or an end")
    }

    #[tokio::test]
    async fn it_forwards_stalls_cuts_and_restores() {
        let proxy = ChaosProxy::before(echo().await).await;
        let mut socket = TcpStream::connect(proxy.address()).await.unwrap();
        socket.write_u8(1).await.unwrap();
        assert_eq!(answer(&mut socket).await.unwrap(), 1);

        proxy.stall();
        socket.write_u8(2).await.unwrap();
        assert!(timeout(BRIEFLY, socket.read_u8()).await.is_err(), "stalled");
        proxy.restore();
        assert_eq!(answer(&mut socket).await.unwrap(), 2, "nothing is lost by a stall");

        proxy.cut();
        assert!(answer(&mut socket).await.is_err(), "cut");
        let mut refused = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(answer(&mut refused).await.is_err(), "still cut");

        proxy.restore();
        let mut socket = TcpStream::connect(proxy.address()).await.unwrap();
        socket.write_u8(3).await.unwrap();
        assert_eq!(answer(&mut socket).await.unwrap(), 3);

        proxy.disconnect();
        assert!(answer(&mut socket).await.is_err(), "disconnected");
        let mut socket = TcpStream::connect(proxy.address()).await.unwrap();
        socket.write_u8(4).await.unwrap();
        assert_eq!(answer(&mut socket).await.unwrap(), 4);

        proxy.swallow_after(1);
        socket.write_u8(5).await.unwrap();
        assert!(timeout(BRIEFLY, socket.read_u8()).await.is_err(), "swallowed, not closed");
        let mut another = TcpStream::connect(proxy.address()).await.unwrap();
        another.write_u8(6).await.unwrap();
        assert_eq!(answer(&mut another).await.unwrap(), 6);
        proxy.cut();
        assert!(answer(&mut socket).await.is_err(), "it is cut like any other");
    }

    #[tokio::test]
    async fn what_is_sent_arrives_while_answers_are_held() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = ChaosProxy::before(server.local_addr().unwrap()).await;
        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        let (mut served, _) = server.accept().await.unwrap();
        proxy.hold_answers();
        client.write_u8(1).await.unwrap();
        assert_eq!(answer(&mut served).await.unwrap(), 1);
        served.write_u8(2).await.unwrap();
        assert!(timeout(BRIEFLY, client.read_u8()).await.is_err(), "held");
        proxy.restore();
        assert_eq!(answer(&mut client).await.unwrap(), 2);
    }
}
