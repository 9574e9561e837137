//! Proxy between a load test and the broker. Once the proxy is shut, nobody answers at its address.

use std::net::Ipv4Addr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

pub(crate) struct Gate {
    pub(crate) port: u16,
    open: JoinHandle<()>,
}

impl Gate {
    /// Starts a proxy that forwards connections from a free port of this machine to the broker at
    /// this host and port.
    pub(crate) async fn open(host: String, port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let own = listener.local_addr().unwrap().port();
        let open = tokio::spawn(async move {
            // They end with this task.
            let mut connections = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                let upstream = (host.clone(), port);
                connections.spawn(async move {
                    let mut server = TcpStream::connect(upstream).await.unwrap();
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        Self { port: own, open }
    }

    /// Breaks all connections through the proxy, and refuses further ones.
    pub(crate) fn shut(&self) {
        self.open.abort();
    }
}
