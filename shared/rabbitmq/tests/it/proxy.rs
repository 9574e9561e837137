//! A TCP proxy in front of the broker, which breaks connections.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mq::Access;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::support::{access_at, uri};

pub(crate) struct Proxy {
    pub(crate) port: u16,
    accepted: Arc<AtomicUsize>,
    open: Arc<Mutex<JoinSet<()>>>,
    frozen: watch::Sender<()>,
}

impl Proxy {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let this =
            Self { port, accepted: Arc::default(), open: Arc::default(), frozen: watch::Sender::new(()) };
        let (accepted, open, frozen) =
            (Arc::clone(&this.accepted), Arc::clone(&this.open), this.frozen.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::SeqCst);
                open.lock().unwrap().spawn(relay(client, frozen.subscribe()));
            }
        });
        this
    }

    pub(crate) fn access(&self) -> Access {
        access_at(&[("127.0.0.1", self.port)])
    }

    /// How many connections were ever accepted.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Waits until `expected` connections are open, and says how many are.
    pub(crate) async fn settled(&self, expected: usize) -> usize {
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

    /// Breaks the connections that are open.
    pub(crate) async fn cut(&self) {
        self.open.lock().unwrap().abort_all();
        self.settled(0).await;
    }

    /// Lets the connections that are open hang: nothing passes any more, and nobody is told.
    pub(crate) fn freeze(&self) {
        self.frozen.send_replace(());
    }
}

async fn relay(mut client: TcpStream, mut frozen: watch::Receiver<()>) {
    let authority = uri().authority;
    let mut server = TcpStream::connect((authority.host.as_str(), authority.port)).await.unwrap();
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        Ok(()) = frozen.changed() => std::future::pending().await,
    }
}
