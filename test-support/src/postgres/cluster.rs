//! PostgreSQL server of one test. The test can stop and restart it, and it ends with the test.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio_postgres::NoTls;

use super::{Server, home};
use crate::ports;

/// Password of the user `postgres`. The server requires it for every connection.
pub const PASSWORD: &str = "only-for-tests";

/// Time limit for a server to create its cluster and to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// PostgreSQL server with one user, `postgres`, and a database of that name. The server stops when
/// this is dropped.
#[derive(Debug)]
pub struct Cluster {
    pub server: Server,
    process: Mutex<Child>,
    _home: tempfile::TempDir,
}

impl Cluster {
    /// Starts a new server. `settings` (`name=value`) are added to the usual ones.
    pub async fn start(settings: &[&str]) -> Self {
        let (home, account) = home("integrahub-cluster-").unwrap();
        let [port] = ports::free().unwrap();
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let server = Server { directory: home.path().to_owned(), port, account, settings };
        server.prepare(PASSWORD, "").unwrap();
        let cluster = Self { process: Mutex::new(spawn(&server)), server, _home: home };
        cluster.ready().await;
        cluster
    }

    /// Stops the server at once, as in a crash, and starts it again with the same files and port.
    pub async fn restart(&self) {
        self.stop(Signal::SIGQUIT);
        *self.process() = spawn(&self.server);
        self.ready().await;
    }

    /// Stops the server by a signal and waits for its end: SIGQUIT stops it at once, SIGINT
    /// cleanly.
    pub fn stop(&self, signal: Signal) {
        let mut process = self.process();
        if matches!(process.try_wait(), Ok(None)) {
            kill(Pid::from_raw(process.id().try_into().unwrap()), signal).unwrap();
        }
        process.wait().unwrap();
    }

    /// Returns the URL of the cluster's database, with credentials and without TLS.
    pub fn url(&self) -> String {
        format!("postgres://postgres:{PASSWORD}@127.0.0.1:{}/postgres?sslmode=disable", self.server.port)
    }

    /// Writes a file that only the server can read, and returns its path.
    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        self.server.write(name, content).unwrap();
        self.server.directory.join(name)
    }

    fn process(&self) -> MutexGuard<'_, Child> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ready(&self) {
        let deadline = Instant::now() + PATIENCE;
        while tokio_postgres::connect(&self.url(), NoTls).await.is_err() {
            let ended = self.process().try_wait().unwrap();
            let log = || fs::read_to_string(self.server.directory.join("log")).unwrap_or_default();
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

fn spawn(server: &Server) -> Child {
    let log = server.directory.join("log");
    let log = fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
    let mut command = server.command();
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}
