//! PostgreSQL servers: the programs, and a server in a directory of its own.

mod cluster;
mod migrated;

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::root::Root;

pub use cluster::{Cluster, PASSWORD};
pub use migrated::migrated;

/// Directory where Debian has PostgreSQL's programs by version, and not on the path.
const VERSIONS: &str = "/usr/lib/postgresql";
const LAUNCH: &str = include_str!("launch.sh");

/// Account that a server runs as.
#[derive(Clone, Copy, Debug)]
pub struct Account {
    pub uid: u32,
    pub gid: u32,
}

/// Creates a temporary directory that only the server can read. Returns it with the account that
/// the server must run as; `None` means the caller's own. PostgreSQL refuses to run as root, so
/// root runs it as the user `postgres`, which Debian's package creates.
///
/// # Errors
/// If there is no such account, or the file system refuses.
pub fn home(prefix: &str) -> io::Result<(TempDir, Option<Account>)> {
    let only_owner = Permissions::from_mode(0o700);
    let directory = tempfile::Builder::new().prefix(prefix).permissions(only_owner).tempdir_in(temporary())?;
    if !nix::unistd::geteuid().is_root() {
        return Ok((directory, None));
    }
    let user = nix::unistd::User::from_name("postgres")?.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            "PostgreSQL does not run as root, and there is no user postgres to run it as: start again as \
             another user, or create that one",
        )
    })?;
    let account = Account { uid: user.uid.as_raw(), gid: user.gid.as_raw() };
    chown(directory.path(), Some(account.uid), Some(account.gid))?;
    Ok((directory, Some(account)))
}

/// Returns the parent directory for servers' files: `/dev/shm` if it has 4 GiB free, or else
/// `/tmp`. Tests create and drop hundreds of databases with 300 files each, and on a disk that
/// takes a third of the server's CPU time.
fn temporary() -> PathBuf {
    const MEMORY: &str = "/dev/shm";
    const ROOM: u64 = 4 << 30;
    let room = nix::sys::statvfs::statvfs(MEMORY)
        .map_or(0, |memory| memory.blocks_available().saturating_mul(memory.fragment_size()));
    if room >= ROOM { MEMORY.into() } else { "/tmp".into() }
}

/// PostgreSQL server with a directory of its own.
#[derive(Clone, Debug)]
pub struct Server {
    pub directory: PathBuf,
    /// Port of 127.0.0.1 on which the server listens.
    pub port: u16,
    /// Account that the server runs as and that owns the directory; `None` for the caller's own.
    pub account: Option<Account>,
    /// Settings of the server as `name=value`, besides the usual ones.
    pub settings: Vec<String>,
}

impl Server {
    /// Prepares the first start. The new cluster gets a superuser `postgres` with this password,
    /// and runs these SQL statements, one a line.
    ///
    /// # Errors
    /// If the files cannot be written.
    pub fn prepare(&self, password: &str, statements: &str) -> io::Result<()> {
        self.write("superuser-password", password)?;
        self.write("statements.sql", statements)
    }

    /// Returns a command whose process becomes the server. The process creates the cluster first if
    /// [`Server::prepare`] was called since the last start.
    pub fn command(&self) -> Command {
        let root = Root::of_postgresql();
        let mut command = root.command("sh");
        command
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("VERSIONS", VERSIONS)
            .env("PORT", self.port.to_string())
            .args(["-c", LAUNCH, "launch"])
            .args(self.settings.iter().flat_map(|setting| [OsStr::new("-c"), setting.as_ref()]))
            .current_dir(&self.directory);
        if let Some(account) = self.account {
            root.run_as(&mut command, account.uid, account.gid);
        }
        command
    }

    /// Writes a new file that only the server can read.
    ///
    /// # Errors
    /// If there is such a file, or the file system refuses.
    pub fn write(&self, name: &str, content: &str) -> io::Result<()> {
        let path = self.directory.join(name);
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(content.as_bytes())?;
        self.account.map_or(Ok(()), |account| chown(path, Some(account.uid), Some(account.gid)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_with_a_server_is_launched() {
        let versions = tempfile::tempdir().unwrap();
        for (version, program) in [("9", "postgres"), ("15", "postgres"), ("17", "psql")] {
            let directory = versions.path().join(version).join("bin");
            std::fs::create_dir_all(&directory).unwrap();
            for name in ["initdb", program] {
                let path = directory.join(name);
                let mut file = File::options().write(true).create_new(true).mode(0o700).open(path).unwrap();
                file.write_all(b"#!/bin/sh\necho $0").unwrap();
            }
        }
        let mut launch = Command::new("sh");
        launch.args(["-c", LAUNCH]).env("VERSIONS", versions.path()).env("PORT", "1");
        let launched = launch.current_dir(versions.path()).output().unwrap().stdout;
        let newest = versions.path().join("15/bin/postgres");
        assert_eq!(String::from_utf8_lossy(&launched).trim(), newest.to_str().unwrap());
    }
}
