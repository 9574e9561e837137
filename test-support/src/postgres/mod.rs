//! PostgreSQL servers: the programs, and a server in a directory of its own.

mod cluster;
mod migrated;
mod programs;

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::root::Root;
use programs::programs;

pub use cluster::{Cluster, PASSWORD};
pub use migrated::migrated;

/// Account that a server runs as.
#[derive(Clone, Copy, Debug)]
pub struct Account {
    pub uid: u32,
    pub gid: u32,
}

/// Makes a directory that only a server may read, and returns the account that owns it, if that is
/// not the caller. PostgreSQL refuses to run as root, so for root it runs as `postgres`, which
/// Debian's package creates.
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

/// Returns the directory below which a server's files are made: one in memory if it has room. The
/// tests make and drop hundreds of databases with 300 files each, and on a disk a third of the
/// server's processor time goes into that.
fn temporary() -> PathBuf {
    const MEMORY: &str = "/dev/shm";
    const ROOM: u64 = 4 << 30;
    let room = nix::sys::statvfs::statvfs(MEMORY)
        .map_or(0, |memory| memory.blocks_available().saturating_mul(memory.fragment_size()));
    if room >= ROOM { MEMORY.into() } else { "/tmp".into() }
}

/// A server in a directory that is its alone.
#[derive(Clone, Debug)]
pub struct Server {
    pub directory: PathBuf,
    /// Port on 127.0.0.1.
    pub port: u16,
    /// Account that the server runs as and that owns the directory, if it is not the caller.
    pub account: Option<Account>,
    /// Settings as `name=value`, besides the usual ones.
    pub settings: Vec<String>,
}

impl Server {
    /// Prepares the first start: the cluster will have a superuser `postgres` with this password,
    /// and what these statements make, one a line.
    ///
    /// # Errors
    /// If the files cannot be written.
    pub fn prepare(&self, password: &str, statements: &str) -> io::Result<()> {
        self.write("superuser-password", password)?;
        self.write("statements.sql", statements)
    }

    /// Returns the command that becomes the server. It makes the cluster first, if
    /// [`Server::prepare`] was called since the last start.
    ///
    /// # Errors
    /// If PostgreSQL is not installed.
    pub fn command(&self) -> io::Result<Command> {
        let root = Root::of_postgresql();
        let programs = programs(&root)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "there is no PostgreSQL"))?;
        let mut command = root.command("sh");
        command
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("BINARIES", programs)
            .env("PORT", self.port.to_string())
            .args(["-c", include_str!("launch.sh"), "launch"])
            .args(self.settings.iter().flat_map(|setting| [OsStr::new("-c"), setting.as_ref()]))
            .current_dir(&self.directory);
        if let Some(account) = self.account {
            root.run_as(&mut command, account.uid, account.gid);
        }
        Ok(command)
    }

    /// Writes a new file that the server can read, and nobody else.
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
