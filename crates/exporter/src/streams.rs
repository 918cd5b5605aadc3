//! Connections: how many there are at the same time, and for how long one may be silent.

use std::future::Future;
use std::io;
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

/// For how long a client may send nothing. Prometheus uses its connection for the next scrape.
const READ_TIMEOUT: Duration = Duration::from_secs(90);

/// For how long a client may take nothing of an answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// The answer to a connection that is one too many.
const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n\
Content-Length: 22\r\nContent-Type: text/plain\r\n\r\ntoo many connections.\n";

/// Accepts connections up to a number.
#[derive(Clone, Debug)]
pub struct LimitedAcceptor {
    places: Arc<Semaphore>,
    scrapes: Arc<ScrapeCounts>,
    /// Whether a refusal is said in plain text, which a client of TLS could not read.
    is_plain: bool,
}

impl LimitedAcceptor {
    /// An acceptor with places for this many connections.
    pub fn new(connections: usize, scrapes: Arc<ScrapeCounts>, is_plain: bool) -> LimitedAcceptor {
        LimitedAcceptor { places: Arc::new(Semaphore::new(connections)), scrapes, is_plain }
    }
}

impl<S: Send + 'static> Accept<TcpStream, S> for LimitedAcceptor {
    type Stream = LimitedStream;
    type Service = S;
    type Future = Pin<Box<dyn Future<Output = io::Result<(LimitedStream, S)>> + Send>>;

    fn accept(&self, mut stream: TcpStream, service: S) -> Self::Future {
        let place = Arc::clone(&self.places).try_acquire_owned().ok();
        let (scrapes, is_plain) = (Arc::clone(&self.scrapes), self.is_plain);
        Box::pin(async move {
            let Some(place) = place else {
                scrapes.refuse();
                if is_plain {
                    let _ = tokio::time::timeout(WRITE_TIMEOUT, refuse(&mut stream)).await;
                }
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

/// Says why, and reads what the client has sent: to close before that would reset the connection.
async fn refuse(stream: &mut TcpStream) -> io::Result<()> {
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

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.as_mut().poll_shutdown(cx)
    }
}
