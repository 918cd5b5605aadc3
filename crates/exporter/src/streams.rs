//! Connections: the most at the same time, and the time for which one may be silent.

use std::future::Future;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum_server::accept::Accept;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_io_timeout::TimeoutStream;

use crate::scrapes::ScrapeCounts;

/// The time for which a client may send nothing during an answer: longer than the longest `deadline_ms`.
const READ_TIMEOUT: Duration = Duration::from_secs(90);

/// The time for which a client may read nothing of an answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Refused connections that stay open at the same time, so that the client can read the answer. The reserve
/// of descriptors has room for them.
const LINGERING: usize = 8;

/// The time for which a refused connection stays open.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// The answer to a connection beyond the most.
const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n\
Content-Length: 22\r\nContent-Type: text/plain\r\n\r\ntoo many connections.\n";

/// Accepts connections up to a number.
#[derive(Clone, Debug)]
pub struct LimitedAcceptor {
    places: Arc<Semaphore>,
    lingering: Arc<Semaphore>,
    scrapes: Arc<ScrapeCounts>,
    /// Whether a refusal is sent as plain text, which a client of TLS could not read.
    is_plain: bool,
}

impl LimitedAcceptor {
    /// An acceptor with places for this many connections.
    pub fn new(connections: usize, scrapes: Arc<ScrapeCounts>, is_plain: bool) -> LimitedAcceptor {
        let (places, lingering) = (Semaphore::new(connections), Semaphore::new(LINGERING));
        LimitedAcceptor { places: Arc::new(places), lingering: Arc::new(lingering), scrapes, is_plain }
    }
}

impl<S: Send + 'static> Accept<TcpStream, S> for LimitedAcceptor {
    type Stream = LimitedStream;
    type Service = S;
    type Future = Pin<Box<dyn Future<Output = io::Result<(LimitedStream, S)>> + Send>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let place = Arc::clone(&self.places).try_acquire_owned().ok();
        let acceptor = self.clone();
        Box::pin(async move {
            let Some(place) = place else {
                acceptor.refuse(stream).await;
                return Err(io::Error::other("too many connections"));
            };
            let _ = stream.set_nodelay(true);
            let mut inner = TimeoutStream::new(stream);
            inner.set_read_timeout(Some(READ_TIMEOUT));
            inner.set_write_timeout(Some(WRITE_TIMEOUT));
            Ok((LimitedStream { inner: Box::pin(inner), _place: place }, service))
        })
    }
}

impl LimitedAcceptor {
    /// Answers a connection beyond the most, if that is possible, and closes it.
    async fn refuse(&self, mut stream: TcpStream) {
        self.scrapes.refuse();
        if !self.is_plain {
            return;
        }
        match self.lingering.try_acquire() {
            Ok(_permit) => drop(tokio::time::timeout(LINGER_TIMEOUT, answer_busy(&mut stream)).await),
            Err(_) => drop(answer_busy_at_once(stream)),
        }
    }
}

/// Answers without waiting. The client may see a reset instead, if it has sent more than was read here.
fn answer_busy_at_once(stream: TcpStream) -> io::Result<()> {
    use std::io::{Read as _, Write as _};
    let mut stream = stream.into_std()?;
    stream.write_all(BUSY)?;
    stream.shutdown(Shutdown::Write)?;
    let _ = stream.read(&mut [0; 4096])?;
    Ok(())
}

/// Answers, and reads the request: an unread request would reset the connection when it is closed.
async fn answer_busy(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(BUSY).await?;
    stream.shutdown().await?;
    let mut dropped = [0; 1024];
    while tokio::io::AsyncReadExt::read(stream, &mut dropped).await? > 0 {}
    Ok(())
}

/// A connection with its place.
#[derive(Debug)]
pub struct LimitedStream {
    inner: Pin<Box<TimeoutStream<TcpStream>>>,
    _place: OwnedSemaphorePermit,
}

impl AsyncRead for LimitedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.inner.as_mut().poll_read(cx, buf)
    }
}

impl AsyncWrite for LimitedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.inner.as_mut().poll_write(cx, buf)
    }

    // Without these, hyper copies each answer into a buffer of the connection.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.inner.as_mut().poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.as_mut().poll_shutdown(cx)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends where something fails")]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn refusals_that_linger_are_few_and_a_stream_writes_slices() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let scrapes = Arc::new(ScrapeCounts::default());
            let acceptor = LimitedAcceptor::new(1, Arc::clone(&scrapes), true);
            let _held = std::net::TcpStream::connect(address).unwrap();
            let (first, ()) = acceptor.accept(listener.accept().await.unwrap().0, ()).await.unwrap();
            assert!(first.is_write_vectored());
            let _lingering = Arc::clone(&acceptor.lingering).try_acquire_many_owned(8).unwrap();
            assert_eq!(acceptor.lingering.available_permits(), 0);
            // The client sends nothing and does not close: to linger would take until the time-out.
            let mut client = std::net::TcpStream::connect(address).unwrap();
            let refused = acceptor.accept(listener.accept().await.unwrap().0, ());
            tokio::pin!(refused);
            let waker = std::task::Waker::noop();
            let polled = refused.as_mut().poll(&mut Context::from_waker(waker));
            assert!(matches!(polled, Poll::Ready(Err(_))));
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        });
    }
}
