//! Proxy for AMQP connections that reads the frames, and can break connections at a chosen one.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use test_support::ports;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(60);
const PROTOCOL_HEADER: usize = 8;
const METHOD: u8 = 1;

/// Method of AMQP 0-9-1, by class id and method id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Method(u16, u16);

/// `basic.publish`: a client publishes a message.
pub(crate) const PUBLISH: Method = Method(60, 40);
/// `basic.ack`: the broker confirms messages, or a consumer acknowledges them.
pub(crate) const ACK: Method = Method(60, 80);
/// `basic.get-ok`: the broker delivers a message that a client took by `basic.get`.
pub(crate) const GET_OK: Method = Method(60, 71);
/// `queue.declare-ok`: the broker's reply to the request that follows a consumer's acknowledgement.
/// It proves that the acknowledgement arrived.
pub(crate) const QUEUE_DECLARE_OK: Method = Method(50, 11);

/// Way in which the proxy breaks connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Closes both sides with FIN.
    Fin,
    /// Closes both sides with RST, so that bytes in transit are lost.
    Reset,
    /// Forwards nothing any more, and closes neither side.
    Silent,
}

/// Action of the proxy when the awaited frame comes.
#[derive(Clone, Copy, Debug)]
enum Then {
    Cut(Cut),
    /// Drops the frame, and all that the same side sends on this connection after it.
    Swallow,
}

#[derive(Debug)]
struct Trap {
    /// Method whose frame must pass first; only later frames of `method` count. `None` if all
    /// following frames of `method` count.
    set_by: Option<Method>,
    method: Method,
    skip: usize,
    reached: oneshot::Sender<()>,
    then: Then,
}

/// State that all connections of one proxy share.
#[derive(Debug)]
struct Wire {
    upstream: (String, u16),
    trap: Mutex<Option<Trap>>,
    /// Last letter of the cluster's name that the proxy shows to clients. `None` if it shows the
    /// real name.
    cluster: Mutex<Option<u8>>,
    cuts: watch::Sender<Cut>,
}

/// Proxy that forwards AMQP connections from a port of 127.0.0.1 to a broker.
#[derive(Debug)]
pub(crate) struct AmqpProxy {
    pub(crate) port: u16,
    wire: Arc<Wire>,
    server: Option<JoinHandle<()>>,
}

/// Awaited frame of [`AmqpProxy::cut_at`] and similar functions, for a test that waits until it
/// comes.
#[derive(Debug)]
pub(crate) struct Reached(oneshot::Receiver<()>);

impl Reached {
    /// Waits until the frame has come. Panics after [`PATIENCE`].
    pub(crate) async fn reached(self) {
        tokio::time::timeout(PATIENCE, self.0).await.unwrap().unwrap();
    }
}

impl AmqpProxy {
    /// Starts a proxy that forwards connections from a free port of 127.0.0.1 to a broker's host
    /// and port.
    pub(crate) async fn start(upstream: (String, u16)) -> Self {
        let cuts = watch::Sender::new(Cut::Fin);
        let wire = Arc::new(Wire { upstream, trap: Mutex::default(), cluster: Mutex::default(), cuts });
        let (listener, port) = ports::listen().await;
        let server = Some(tokio::spawn(Arc::clone(&wire).accept(listener)));
        Self { port, wire, server }
    }

    /// Cuts all connections when the `nth` of the following frames of `method` comes, counted from
    /// 0. The frame is not forwarded.
    pub(crate) fn cut_at(&self, method: Method, nth: usize, cut: Cut) -> Reached {
        self.trap(None, method, nth, Then::Cut(cut))
    }

    /// Cuts all connections at the first frame of `method` that follows a frame of `earlier`.
    pub(crate) fn cut_after(&self, earlier: Method, method: Method, cut: Cut) -> Reached {
        self.trap(Some(earlier), method, 0, Then::Cut(cut))
    }

    /// Drops the `nth` of the following frames of `method`, counted from 0, and all that the same
    /// side sends after it.
    pub(crate) fn swallow_from(&self, method: Method, nth: usize) -> Reached {
        self.trap(None, method, nth, Then::Swallow)
    }

    fn trap(&self, set_by: Option<Method>, method: Method, skip: usize, then: Then) -> Reached {
        let (reached, receiver) = oneshot::channel();
        *self.wire.trap.lock().unwrap() = Some(Trap { set_by, method, skip, reached, then });
        Reached(receiver)
    }

    /// Shows clients of new connections a cluster name whose last letter is replaced by this one.
    /// `None` shows the real name again.
    pub(crate) fn name_cluster(&self, last_letter: Option<u8>) {
        *self.wire.cluster.lock().unwrap() = last_letter;
    }

    /// Cuts all open connections in this way.
    pub(crate) fn cut(&self, cut: Cut) {
        self.wire.cuts.send_replace(cut);
    }

    /// Refuses new connections and breaks the open ones, as if the broker had stopped.
    pub(crate) async fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.abort();
            let _ = server.await;
        }
        self.cut(Cut::Reset);
    }

    /// Ends all faults. Closes the connections that were cut silently, so that the broker requeues
    /// their unacknowledged messages.
    pub(crate) async fn heal(&mut self) {
        *self.wire.trap.lock().unwrap() = None;
        self.cut(Cut::Fin);
        if self.server.is_none() {
            let listener = TcpListener::bind(("127.0.0.1", self.port)).await.unwrap();
            self.server = Some(tokio::spawn(Arc::clone(&self.wire).accept(listener)));
        }
    }
}

impl Wire {
    async fn accept(self: Arc<Self>, listener: TcpListener) {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(Arc::clone(&self).relay(client));
        }
    }

    async fn relay(self: Arc<Self>, mut client: TcpStream) {
        let mut cuts = self.cuts.subscribe();
        let mut server = TcpStream::connect((self.upstream.0.as_str(), self.upstream.1)).await.unwrap();
        client.set_nodelay(true).unwrap();
        server.set_nodelay(true).unwrap();
        {
            let ((from_client, to_client), (from_server, to_server)) = (client.split(), server.split());
            tokio::select! {
                _ = self.pump(from_client, to_server, PROTOCOL_HEADER) => return,
                _ = self.pump(from_server, to_client, 0) => return,
                Ok(()) = cuts.changed() => {}
            }
        }
        let cut = *cuts.borrow_and_update();
        match cut {
            Cut::Fin => {}
            Cut::Reset => {
                client.set_zero_linger().unwrap();
                server.set_zero_linger().unwrap();
            }
            Cut::Silent => drop(cuts.changed().await),
        }
    }

    /// Forwards the first `preamble` bytes as they are, and then frames, from one side of a
    /// connection to the other.
    async fn pump(
        &self,
        from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
        preamble: usize,
    ) -> io::Result<()> {
        let mut from = BufReader::with_capacity(64 * 1024, from);
        let mut bytes = vec![0; preamble];
        from.read_exact(&mut bytes).await?;
        to.write_all(&bytes).await?;
        loop {
            // Type, channel and size; then the payload and an octet that ends the frame.
            let mut frame = vec![0; 7];
            from.read_exact(&mut frame).await?;
            let size = u32::from_be_bytes([frame[3], frame[4], frame[5], frame[6]]);
            frame.resize(7 + usize::try_from(size).unwrap() + 1, 0);
            from.read_exact(&mut frame[7..]).await?;
            self.rename(&mut frame);
            match self.spring(&frame) {
                None => to.write_all(&frame).await?,
                Some(Then::Cut(cut)) => {
                    self.cuts.send_replace(cut);
                    return std::future::pending().await;
                }
                Some(Then::Swallow) => {
                    tokio::io::copy(&mut from, &mut tokio::io::sink()).await?;
                    return Ok(());
                }
            }
        }
    }

    /// Replaces the last letter of the cluster's name in `connection.start`, the broker's first
    /// frame.
    fn rename(&self, frame: &mut [u8]) {
        let Some(letter) = *self.cluster.lock().unwrap() else { return };
        if frame[0] != METHOD || frame[7..11] != [0, 10, 0, 10] {
            return;
        }
        let name = b"cluster_nameS";
        let at = frame.windows(name.len()).position(|bytes| bytes == name).unwrap() + name.len();
        let length = u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
        frame[at + 3 + usize::try_from(length).unwrap()] = letter;
    }

    fn spring(&self, frame: &[u8]) -> Option<Then> {
        if frame[0] != METHOD {
            return None;
        }
        let method =
            Method(u16::from_be_bytes([frame[7], frame[8]]), u16::from_be_bytes([frame[9], frame[10]]));
        let mut trap = self.trap.lock().unwrap();
        let set = trap.as_mut()?;
        if set.set_by == Some(method) {
            set.set_by = None;
            return None;
        }
        if set.set_by.is_some() || set.method != method {
            return None;
        }
        if set.skip > 0 {
            set.skip -= 1;
            return None;
        }
        let trap = trap.take()?;
        let _ = trap.reached.send(());
        Some(trap.then)
    }
}

impl Drop for AmqpProxy {
    fn drop(&mut self) {
        if let Some(server) = &self.server {
            server.abort();
        }
    }
}
