//! A proxy that understands AMQP's frames well enough to break the connection at a chosen one.

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

/// A method frame, by class and method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Method(u16, u16);

/// A message is put.
pub(crate) const PUBLISH: Method = Method(60, 40);
/// Messages are confirmed by the broker, or acknowledged by a consumer.
pub(crate) const ACK: Method = Method(60, 80);
/// A first message is got.
pub(crate) const GET_OK: Method = Method(60, 71);
/// Reply that follows a consumer's acknowledgement and proves that it arrived.
pub(crate) const QUEUE_DECLARE_OK: Method = Method(50, 11);

/// Manner in which connections break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Tells both sides, politely.
    Fin,
    /// Tells both sides; what was on its way is lost.
    Reset,
    /// Tells nobody; nothing passes any more.
    Silent,
}

/// Action of the proxy at a chosen frame.
#[derive(Clone, Copy, Debug)]
enum Then {
    Cut(Cut),
    /// The frame is swallowed, and so is what the same side sends after it.
    Swallow,
}

#[derive(Debug)]
struct Trap {
    /// Method that arms the trap when it passes; `None` if the trap is armed.
    set_by: Option<Method>,
    method: Method,
    skip: usize,
    reached: oneshot::Sender<()>,
    then: Then,
}

/// State that connections share.
#[derive(Debug)]
struct Wire {
    upstream: (String, u16),
    trap: Mutex<Option<Trap>>,
    /// The last letter of the cluster's name, as the broker tells it to clients.
    cluster: Mutex<Option<u8>>,
    cuts: watch::Sender<Cut>,
}

/// Frames pass from a free port of this machine to a broker and back.
#[derive(Debug)]
pub(crate) struct AmqpProxy {
    pub(crate) port: u16,
    wire: Arc<Wire>,
    server: Option<JoinHandle<()>>,
}

/// A frame that is waited for.
#[derive(Debug)]
pub(crate) struct Reached(oneshot::Receiver<()>);

impl Reached {
    /// Waits for it.
    pub(crate) async fn reached(self) {
        tokio::time::timeout(PATIENCE, self.0).await.unwrap().unwrap();
    }
}

impl AmqpProxy {
    /// Forwards from a free port of this machine to a broker's host and port.
    pub(crate) async fn start(upstream: (String, u16)) -> Self {
        let cuts = watch::Sender::new(Cut::Fin);
        let wire = Arc::new(Wire { upstream, trap: Mutex::default(), cluster: Mutex::default(), cuts });
        let (listener, port) = ports::listen().await;
        let server = Some(tokio::spawn(Arc::clone(&wire).accept(listener)));
        Self { port, wire, server }
    }

    /// Cuts every connection at the `nth` such frame from now on, counted from 0; the frame does
    /// not pass.
    pub(crate) fn cut_at(&self, method: Method, nth: usize, cut: Cut) -> Reached {
        self.trap(None, method, nth, Then::Cut(cut))
    }

    /// Cuts every connection at the first such frame after one of another kind.
    pub(crate) fn cut_after(&self, earlier: Method, method: Method, cut: Cut) -> Reached {
        self.trap(Some(earlier), method, 0, Then::Cut(cut))
    }

    /// Swallows the `nth` such frame and all that the same side sends after it.
    pub(crate) fn swallow_from(&self, method: Method, nth: usize) -> Reached {
        self.trap(None, method, nth, Then::Swallow)
    }

    fn trap(&self, set_by: Option<Method>, method: Method, skip: usize, then: Then) -> Reached {
        let (reached, receiver) = oneshot::channel();
        *self.wire.trap.lock().unwrap() = Some(Trap { set_by, method, skip, reached, then });
        Reached(receiver)
    }

    /// Lets new connections find a broker whose cluster has another name, which ends with this
    /// letter; or the right name again.
    pub(crate) fn name_cluster(&self, last_letter: Option<u8>) {
        *self.wire.cluster.lock().unwrap() = last_letter;
    }

    /// Cuts every connection.
    pub(crate) fn cut(&self, cut: Cut) {
        self.wire.cuts.send_replace(cut);
    }

    /// Connects are refused and connections broken, as by a broker that was stopped.
    pub(crate) async fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.abort();
            let _ = server.await;
        }
        self.cut(Cut::Reset);
    }

    /// Ends every fault. What was cut silently ends now, so that the broker puts back what it had
    /// given out.
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

    /// Moves frames from one side to the other, after so many bytes that are not frames.
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

    /// Changes the cluster's name in a broker's greeting, `Connection.Start`.
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
