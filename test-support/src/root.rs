//! Versions of servers that are not installed on this machine. `scripts/brokers.sh` unpacks each
//! into a directory of its own, and lets a process see that version's programs in place of the
//! installed ones.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/brokers.sh");
/// Environment variable with the cache directory of `scripts/cached.sh`.
const CACHE: &str = "INTEGRAHUB_CACHE";

/// Directory tree with a server's programs, such as those of RabbitMQ 4.3. The default is the
/// machine's own file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Root(Option<String>);

impl Root {
    /// Returns the root with the RabbitMQ version in the variable `RABBITMQ`, such as `4.3`; the
    /// machine's own if it is not set.
    pub fn of_rabbitmq() -> Self {
        Self::chosen("rabbitmq", "RABBITMQ")
    }

    /// Returns the root with the PostgreSQL version in the variable `POSTGRESQL`, such as `17`; the
    /// machine's own if it is not set.
    pub fn of_postgresql() -> Self {
        Self::chosen("postgresql", "POSTGRESQL")
    }

    fn chosen(product: &str, variable: &str) -> Self {
        let version = std::env::var(variable).ok().filter(|version| !version.is_empty());
        Self(version.map(|version| format!("{product}-{version}")))
    }

    /// Returns the root of this name, such as `rabbitmq-4.3`. Returns `None` if it was not
    /// unpacked, or this process cannot enter it: some containers do not permit mounts.
    pub fn usable(name: &str) -> Option<Self> {
        let root = Self(Some(name.to_owned()));
        let is_made = root.directory().is_some_and(|directory| directory.join("version").is_file());
        let is_usable = is_made && root.command("true").status().is_ok_and(|status| status.success());
        is_usable.then_some(root)
    }

    /// Returns the directory that contains the root's files; `None` for the machine's own.
    pub fn directory(&self) -> Option<PathBuf> {
        self.0.as_ref().map(|name| cache().join("brokers").join(name))
    }

    /// Returns a command that runs a program of this root, with an empty environment. The started
    /// process becomes the program.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let Some(name) = &self.0 else {
            let mut command = Command::new(program);
            command.env_clear();
            return command;
        };
        let mut command = Command::new(SCRIPT);
        command.env_clear().env(CACHE, cache());
        command.args(["enter", name]).arg(program);
        command
    }

    /// Makes a command of this root run as another user and group.
    pub fn run_as(&self, command: &mut Command, uid: u32, gid: u32) {
        match &self.0 {
            None => command.uid(uid).gid(gid),
            // Entering takes root; the script changes to the account after it.
            Some(_) => command.env("AS", format!("{uid}:{gid}")),
        };
    }
}

/// Returns the cache directory that all clones on this machine share, by the same rules as
/// `scripts/cached.sh`.
fn cache() -> PathBuf {
    let named =
        |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    named(CACHE).unwrap_or_else(|| {
        let home = || named("HOME").unwrap_or_default().join(".cache");
        named("XDG_CACHE_HOME").unwrap_or_else(home).join("integrahub")
    })
}
