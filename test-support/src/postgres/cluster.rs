//! A PostgreSQL server of a test's own: it can be ended and started again, and goes with the test.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio_postgres::NoTls;

use super::{Account, Server, home};
use crate::ports;

/// Password of the user `postgres`; the server lets that user in by no other means.
pub const PASSWORD: &str = "only-for-tests";

/// Time that a server may take to make its cluster and to listen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with one user, `postgres`, and a database of that name. It ends when this is dropped.
#[derive(Debug)]
pub struct Cluster {
    server: Mutex<Child>,
    port: u16,
    account: Option<Account>,
    settings: Vec<String>,
    directory: tempfile::TempDir,
}

impl Cluster {
    /// A new server with these settings besides the usual ones.
    pub async fn start(settings: &[&str]) -> Self {
        let (directory, account) = home("integrahub-cluster-").unwrap();
        let [port] = ports::free().unwrap();
        let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let described = Server { directory: directory.path(), port, account, settings: &settings };
        described.prepare(PASSWORD, "").unwrap();
        let server = Mutex::new(spawn(described));
        let cluster = Self { server, port, account, settings, directory };
        cluster.ready().await;
        cluster
    }

    /// Ends the server at once, as a crash does, and starts it again at the same place.
    pub async fn restart(&self) {
        self.stop(Signal::SIGQUIT);
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = spawn(self.described());
        self.ready().await;
    }

    /// Ends the server by a signal: SIGQUIT at once, SIGINT in order.
    pub fn stop(&self, signal: Signal) {
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(server.try_wait(), Ok(None)) {
            kill(Pid::from_raw(server.id().try_into().unwrap()), signal).unwrap();
        }
        server.wait().unwrap();
    }

    /// The port of 127.0.0.1 that it listens on.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the URL of the cluster's database, with credentials and without TLS.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres:{PASSWORD}@127.0.0.1:{}/postgres?sslmode=disable", self.port)
    }

    /// A file that the server can read, and nobody else.
    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        self.described().write(name, content).unwrap();
        self.directory.path().join(name)
    }

    fn described(&self) -> Server<'_> {
        Server {
            directory: self.directory.path(),
            port: self.port,
            account: self.account,
            settings: &self.settings,
        }
    }

    async fn ready(&self) {
        let deadline = Instant::now() + PATIENCE;
        while tokio_postgres::connect(&self.url(), NoTls).await.is_err() {
            let ended = self.server.lock().unwrap_or_else(PoisonError::into_inner).try_wait().unwrap();
            let log = || fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
            assert!(ended.is_none(), "the server ended ({ended:?}):\n{}", log());
            assert!(Instant::now() < deadline, "the server does not answer:\n{}", log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop(Signal::SIGINT);
    }
}

fn spawn(server: Server<'_>) -> Child {
    let log = server.directory.join("log");
    let log = fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
    let mut command = server.command().unwrap();
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}
