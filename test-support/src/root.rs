//! Versions of servers that this machine does not have: `scripts/brokers.sh` unpacks them, each
//! into a directory of its own, and lets a process see that version's programs in place of the
//! machine's.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/brokers.sh");
/// Names the directory of `scripts/cached.sh`.
const CACHE: &str = "INTEGRAHUB_CACHE";

/// Directory tree with a server's programs. The default is the machine's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Root(Option<String>);

impl Root {
    /// The version of RabbitMQ that the environment chooses, as `RABBITMQ=4.3` does, or else the
    /// machine's own.
    #[must_use]
    pub fn of_rabbitmq() -> Self {
        Self::chosen("rabbitmq", "RABBITMQ")
    }

    /// The version of PostgreSQL that the environment chooses, as `POSTGRESQL=17` does, or else the
    /// machine's own.
    #[must_use]
    pub fn of_postgresql() -> Self {
        Self::chosen("postgresql", "POSTGRESQL")
    }

    fn chosen(product: &str, variable: &str) -> Self {
        let version = std::env::var(variable).ok().filter(|version| !version.is_empty());
        Self(version.map(|version| format!("{product}-{version}")))
    }

    /// The root of this name, as `rabbitmq-4.3`, if it has been made, and this process may enter
    /// it: in some containers, nothing may be mounted.
    #[must_use]
    pub fn usable(name: &str) -> Option<Self> {
        let root = Self(Some(name.to_owned()));
        let is_usable = root.is_made() && root.command("true").status().is_ok_and(|status| status.success());
        is_usable.then_some(root)
    }

    fn is_made(&self) -> bool {
        self.directory().is_none_or(|directory| directory.join("version").is_file())
    }

    /// The directory that has its `/usr`; the machine's own has none.
    #[must_use]
    pub fn directory(&self) -> Option<PathBuf> {
        self.0.as_ref().map(|name| cache().join("brokers").join(name))
    }

    /// A command of one of its programs, with an empty environment. The process that is started
    /// becomes the program.
    #[must_use]
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

    /// Lets a command of this root run as another account.
    pub fn run_as(&self, command: &mut Command, uid: u32, gid: u32) {
        match &self.0 {
            None => command.uid(uid).gid(gid),
            // Entering takes root; the script changes to the account after it.
            Some(_) => command.env("AS", format!("{uid}:{gid}")),
        };
    }
}

/// The directory that every clone of this machine shares, as `scripts/cached.sh` finds it.
fn cache() -> PathBuf {
    let named =
        |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    named(CACHE).unwrap_or_else(|| {
        let home = || named("HOME").unwrap_or_default().join(".cache");
        named("XDG_CACHE_HOME").unwrap_or_else(home).join("integrahub")
    })
}
