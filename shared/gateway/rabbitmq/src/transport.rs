//! Byte stream under an AMQP connection. It is ours and not the client library's for three reasons:
//! each step of connecting has a deadline and a duration of its own, a connection can be closed at
//! once whatever the library is waiting for, and the broker's bytes pass through [`FrameFilter`]
//! before the library parses them.

use std::future::Future;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use async_rs::traits::Reactor;
use async_rs::util::RuntimeParts;
use async_rs::{Runtime, Tokio};
use futures_io::{AsyncRead, AsyncWrite};
use futures_util::Stream;
use lapin::AsyncTcpStream;
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt as _};

use crate::frame_filter::{FrameFilter, Noticed};

/// Maximum number of bytes that are read from the socket at once.
const CHUNK: usize = 128 * 1024;

/// TCP connection to a broker, plain or with TLS.
pub(crate) type Socket = AsyncTcpStream<Compat<TcpStream>>;

/// Handle that closes a connection's socket independently of the client library.
#[derive(Debug)]
pub(crate) struct SocketShutdown(std::net::TcpStream);

impl SocketShutdown {
    pub(crate) fn hang_up(&self) {
        // Fails only if the peer closed the socket first.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl Drop for SocketShutdown {
    fn drop(&mut self) {
        self.hang_up();
    }
}

/// Prepares a TCP socket for AMQP. Returns it with the handle that closes it.
pub(crate) fn prepare(stream: TcpStream) -> io::Result<(Socket, SocketShutdown)> {
    stream.set_nodelay(true)?;
    let stream = stream.into_std()?;
    let hangup = SocketShutdown(stream.try_clone()?);
    Ok((AsyncTcpStream::Plain(TcpStream::from_std(stream)?.compat()), hangup))
}

/// Socket of a connection whose incoming frames pass the [`FrameFilter`].
pub(crate) struct Transport {
    socket: Socket,
    filter: FrameFilter,
    chunk: Box<[u8]>,
    noticed: Arc<Noticed>,
}

impl Transport {
    /// Creates a transport whose filter records its observations in `noticed`.
    pub(crate) fn new(socket: Socket, noticed: Arc<Noticed>) -> Self {
        let filter = FrameFilter::new(Arc::clone(&noticed));
        Self { socket, filter, chunk: vec![0; CHUNK].into(), noticed }
    }

    /// Records the first error of reading, and returns a copy for the client library.
    fn broken(&self, error: io::Error) -> io::Error {
        let (kind, error) = (error.kind(), Arc::new(error));
        self.noticed.broken_by.get_or_init(|| Arc::clone(&error));
        io::Error::new(kind, error)
    }
}

impl AsyncRead for Transport {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        loop {
            let taken = this.filter.take(buf);
            if taken > 0 || buf.is_empty() {
                return Poll::Ready(Ok(taken));
            }
            match Pin::new(&mut this.socket).poll_read(cx, &mut this.chunk) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => {
                    return Poll::Ready(Err(this.broken(error)));
                }
                Poll::Ready(Ok(0)) => return Poll::Ready(Ok(0)),
                Poll::Ready(Ok(read)) => {
                    this.noticed.pulse.beat();
                    if let Err(error) = this.filter.push(this.chunk.get(..read).unwrap_or_default()) {
                        return Poll::Ready(Err(this.broken(error)));
                    }
                }
            }
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write_vectored(cx, bufs)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_close(cx)
    }
}

/// Returns the Tokio runtime for the client library, with [`Transport`] as its TCP stream.
pub(crate) fn runtime() -> Runtime<RuntimeParts<Tokio, TransportReactor>> {
    Runtime::new(RuntimeParts::new(Tokio::current(), TransportReactor(Tokio::current())))
}

/// Tokio timers for the client library. Connections are opened by this crate, and not through this
/// type.
#[derive(Clone, Debug)]
pub(crate) struct TransportReactor(Tokio);

impl Reactor for TransportReactor {
    type TcpStream = Transport;
    type Sleep = <Tokio as Reactor>::Sleep;

    fn register<H: Read + Write + Send + 'static>(
        &self,
        _: H,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static> {
        Err::<Transport, _>(io::Error::from(io::ErrorKind::Unsupported))
    }

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        self.0.sleep(duration)
    }

    fn interval(&self, duration: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        self.0.interval(duration)
    }

    fn tcp_connect_addr(
        &self,
        _: SocketAddr,
    ) -> impl Future<Output = io::Result<Self::TcpStream>> + Send + 'static {
        std::future::ready(Err(io::Error::from(io::ErrorKind::Unsupported)))
    }
}
