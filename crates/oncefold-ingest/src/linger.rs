//! Closing without losing the answer. A socket that is closed with unread data in it resets the connection, and the
//! reset can overtake a 413 that was just sent. So after an answer that leaves the request unread, our side is closed
//! first, and what still arrives is thrown away for a moment (RFC 9112, section 9.6).

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long what still arrives is thrown away.
const LINGER: Duration = Duration::from_secs(1);
/// How much of it, bytes.
const LINGER_BYTES_MAX: usize = 1024 * 1024;

/// A stream that lingers at its end where that is wanted.
pub(crate) struct Lingering<S> {
    stream: S,
    wanted: Arc<AtomicBool>,
    until: Option<Pin<Box<Sleep>>>,
    discarded: usize,
}

impl<S> Lingering<S> {
    /// `wanted` is read when the stream is shut down.
    pub(crate) fn around(stream: S, wanted: Arc<AtomicBool>) -> Self {
        Self { stream, wanted, until: None, discarded: 0 }
    }
}

impl<S: AsyncRead + Unpin> Lingering<S> {
    /// Ready when the peer has closed, or enough was thrown away, or the time is over.
    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(LINGER)));
        if until.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let mut scratch = [0; 8 * 1024];
        while self.discarded < LINGER_BYTES_MAX {
            let mut buffer = ReadBuf::new(&mut scratch);
            let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                break;
            }
            self.discarded += buffer.filled().len();
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lingering<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.until.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            if !self.wanted.load(Ordering::Relaxed) {
                return Poll::Ready(Ok(()));
            }
        }
        self.poll_discard(cx).map(Ok)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
#[path = "linger_tests.rs"]
mod tests;
