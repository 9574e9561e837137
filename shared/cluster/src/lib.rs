//! A PostgreSQL server of a test's own: it can be ended and started again, and goes with the test.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a test fails where its server does not start"
)]

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, chown, geteuid};
use tokio_postgres::NoTls;

/// Of the user `postgres`, whom the server lets in by this password only.
pub const PASSWORD: &str = "only-for-tests";

/// A server with one user, `postgres`, and a database of that name. It ends when this is dropped.
#[derive(Debug)]
pub struct Cluster {
    server: Mutex<Child>,
    port: u16,
    settings: Vec<String>,
    directory: tempfile::TempDir,
}

impl Cluster {
    /// A new server with these settings besides the usual ones.
    pub async fn start(settings: &[&str]) -> Self {
        let directory = tempfile::Builder::new().prefix("integrahub-cluster-").tempdir_in("/tmp").unwrap();
        if let Some(user) = postgres() {
            chown(directory.path(), Some(user.uid), Some(user.gid)).unwrap();
        }
        let password = Self::file_in(directory.path(), "password", PASSWORD);
        let mut initdb = program("initdb");
        initdb.arg("--pgdata").arg(directory.path().join("data")).arg("--pwfile").arg(password);
        initdb.args([
            "--username=postgres",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--no-locale",
            "--no-sync",
        ]);
        let made = initdb.stdin(Stdio::null()).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let [port] = ports::free().unwrap();
        let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let server = Mutex::new(serve(directory.path(), port, &settings));
        let cluster = Self { server, port, settings, directory };
        cluster.ready().await;
        cluster
    }

    /// Ends the server at once, as a crash does, and starts it again at the same place.
    pub async fn restart(&self) {
        self.stop(Signal::SIGQUIT);
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) =
            serve(self.directory.path(), self.port, &self.settings);
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

    /// Its database, with credentials and without TLS.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres:{PASSWORD}@127.0.0.1:{}/postgres?sslmode=disable", self.port)
    }

    /// A file that the server can read, and nobody else.
    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        Self::file_in(self.directory.path(), name, content)
    }

    fn file_in(directory: &Path, name: &str, content: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let path = directory.join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        if let Some(user) = postgres() {
            chown(&path, Some(user.uid), Some(user.gid)).unwrap();
        }
        path
    }

    async fn ready(&self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while tokio_postgres::connect(&self.url(), NoTls).await.is_err() {
            assert!(Instant::now() < deadline, "the server does not answer");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop(Signal::SIGINT);
    }
}

fn serve(directory: &Path, port: u16, settings: &[String]) -> Child {
    let mut postgres = program("postgres");
    postgres.arg("-D").arg(directory.join("data")).arg("-p").arg(port.to_string());
    postgres.arg("-k").arg(directory).args(["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]);
    for setting in settings {
        postgres.args(["-c", setting]);
    }
    let log = fs::OpenOptions::new().append(true).create(true).open(directory.join("log")).unwrap();
    postgres.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

/// The account that the server runs as: it refuses root.
fn postgres() -> Option<User> {
    geteuid().is_root().then(|| User::from_name("postgres").unwrap().unwrap())
}

fn program(name: &str) -> Command {
    let mut command = Command::new(directory().join(name));
    if let Some(user) = postgres() {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    command.current_dir("/").env_clear();
    command
}

/// Where Debian keeps the server's programs, the latest version's first; elsewhere they are on the
/// path.
fn directory() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let version = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    versions.map(|entry| entry.path()).max_by_key(version).map_or_else(PathBuf::new, |path| path.join("bin"))
}
