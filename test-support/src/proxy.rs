//! TCP proxy for any protocol, which counts, closes and freezes connections.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::ports;

/// TCP proxy on a free port of 127.0.0.1.
#[derive(Debug)]
pub struct Proxy {
    pub port: u16,
    accepted: Arc<AtomicUsize>,
    open: Arc<Mutex<JoinSet<()>>>,
    frozen: watch::Sender<()>,
}

impl Proxy {
    /// Starts a proxy that forwards connections to this host and port.
    pub async fn start(upstream: (String, u16)) -> Self {
        Self::after_resets(0, upstream).await
    }

    /// Starts a proxy that closes the first `resets` connections, and forwards later ones to this
    /// host and port.
    pub async fn after_resets(resets: usize, upstream: (String, u16)) -> Self {
        let (listener, port) = ports::listen().await;
        let this =
            Self { port, accepted: Arc::default(), open: Arc::default(), frozen: watch::Sender::new(()) };
        let (accepted, open, frozen) =
            (Arc::clone(&this.accepted), Arc::clone(&this.open), this.frozen.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if accepted.fetch_add(1, Ordering::SeqCst) >= resets {
                    open.lock().unwrap().spawn(relay(client, upstream.clone(), frozen.subscribe()));
                }
            }
        });
        this
    }

    /// Returns the number of connections that the proxy has accepted since its start.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Waits up to two seconds until `expected` connections are open, and returns the number of
    /// open ones.
    pub async fn settled(&self, expected: usize) -> usize {
        for _ in 0..100 {
            if self.open() == expected {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.open()
    }

    fn open(&self) -> usize {
        let mut open = self.open.lock().unwrap();
        while open.try_join_next().is_some() {}
        open.len()
    }

    /// Closes all open connections.
    pub async fn cut(&self) {
        self.open.lock().unwrap().abort_all();
        self.settled(0).await;
    }

    /// Freezes all open connections: they stay open, and no more bytes pass in either direction.
    pub fn freeze(&self) {
        self.frozen.send_replace(());
    }
}

async fn relay(mut client: TcpStream, upstream: (String, u16), mut frozen: watch::Receiver<()>) {
    let mut server = TcpStream::connect((upstream.0.as_str(), upstream.1)).await.unwrap();
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        Ok(()) = frozen.changed() => std::future::pending().await,
    }
}
