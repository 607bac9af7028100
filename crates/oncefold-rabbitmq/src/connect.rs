//! Making one connection.

use lapin::tcp::OwnedTLSConfig;
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{AsyncTcpStream, Connection, ConnectionProperties};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::{io, time::Duration};
use tokio::time::timeout;

/// Longest time from the first packet to a usable connection.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time for one operation on a working connection, publishes apart.
pub(crate) const OPERATION_TIMEOUT: Duration = Duration::from_secs(10);

/// A second handle of a connection's socket. The client has no way to give up a handshake that hangs: its thread would
/// stay, with the socket, one more at every try. Shutting the socket down under it ends both.
#[derive(Clone, Default)]
struct Socket(Arc<Mutex<Option<TcpStream>>>);

impl Socket {
    fn keep(&self, socket: &impl AsFd) -> io::Result<()> {
        let handle = TcpStream::from(socket.as_fd().try_clone_to_owned()?);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
        Ok(())
    }

    fn release(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Shuts the socket down when the connecting is given up: timed out, or dropped.
struct GiveUp(Socket);

impl Drop for GiveUp {
    fn drop(&mut self) {
        if let Some(socket) = self.0.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = socket.shutdown(Shutdown::Both); // fails only where it is closed already
        }
    }
}

/// Connects within `limit`, or says why not. `role` names the connection in the broker's list.
pub(crate) async fn dial(uri: &AMQPUri, role: &str, limit: Duration) -> Result<Connection, String> {
    let runtime = lapin::runtime::default_runtime().map_err(|error| error.to_string())?;
    let properties = ConnectionProperties::default().with_connection_name(format!("oncefold {role}").into());
    let socket = Socket::default();
    let kept = socket.clone();
    let give_up = GiveUp(socket);
    let connecting = Connection::connector(
        uri.clone(),
        runtime,
        async move |uri: AMQPUri, runtime| {
            let address = (uri.authority.host.clone(), uri.authority.port);
            let open = async {
                let stream = AsyncTcpStream::connect(&runtime, runtime.to_socket_addrs(address)).await?;
                if let AsyncTcpStream::Plain(plain) = &stream {
                    kept.keep(plain.get_ref())?;
                }
                match uri.scheme {
                    AMQPScheme::AMQP => Ok(stream),
                    AMQPScheme::AMQPS => stream.into_tls(&uri.authority.host, OwnedTLSConfig::default().as_ref()).await,
                }
            };
            timeout(limit, open)
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
                .map_err(lapin::Error::from)
        },
        properties,
    );
    match timeout(limit, connecting).await {
        Ok(Ok(connection)) => {
            give_up.0.release();
            Ok(connection)
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no connection within {} s", limit.as_secs_f32())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;
    use tokio::time::{Instant, sleep};

    fn client_threads() -> usize {
        let tasks = fs::read_dir("/proc/self/task").expect("Linux").flatten();
        tasks
            .filter(|task| fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with("lapin")))
            .count()
    }

    /// A frozen broker accepts (its kernel does) and says nothing. Each try must leave neither a thread nor a socket.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_handshake_that_hangs_is_given_up_without_a_trace() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("amqp://guest:hunter2@{}", listener.local_addr().unwrap());
        let uri = crate::settings::parse_url(&url).unwrap();
        let mut sockets = Vec::new();
        for scheme in [AMQPScheme::AMQP, AMQPScheme::AMQPS, AMQPScheme::AMQP] {
            let uri = AMQPUri { scheme, ..uri.clone() };
            let dialled = tokio::spawn(async move { dial(&uri, "test", Duration::from_millis(200)).await.map(|_| ()) });
            sockets.push(listener.accept().await.unwrap().0);
            let error = dialled.await.unwrap().expect_err("nobody answered");
            assert!(!error.contains("hunter2"), "{error}");
        }
        for mut socket in sockets {
            let mut sent = Vec::new();
            timeout(Duration::from_secs(10), socket.read_to_end(&mut sent))
                .await
                .expect("the socket was closed")
                .unwrap();
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        while client_threads() > 0 {
            assert!(Instant::now() < deadline, "{} threads of the client are left", client_threads());
            sleep(Duration::from_millis(20)).await;
        }
    }
}
