//! Debian packages.

use tokio::process::Command;

use super::{on_path, run};
use crate::console;
use crate::failure::Failure;
use crate::layout::Layout;

/// # Errors
/// Not on Debian, not allowed to install, or the installation failed.
pub(super) async fn install(layout: &Layout, what: &str, packages: &[&str]) -> Result<(), Failure> {
    let names = packages.join(" ");
    if !on_path("apt-get") {
        return Err(Failure::new(format!(
            "{what} is missing and this is not a Debian or Ubuntu system: install the equivalent of the Debian \
             package(s) {names} (RabbitMQ with its launcher in /usr/lib/rabbitmq/bin, PostgreSQL with `initdb` on the path) and start again."
        )));
    }
    let Some(prefix) = privilege().await else {
        return Err(Failure::new(format!(
            "{what} is missing. Run `sudo apt-get update && sudo apt-get install -y --no-install-recommends {names}` \
             and start again."
        )));
    };
    console::say(format_args!("  Installing {what} ({names}) through apt, about half a minute"));
    // A list that cannot be refreshed may still be good enough; if it is not, the installation says
    // so.
    let _outdated = run(layout, what, "apt-update", "usually 10 s", apt_get(prefix, &["update"])).await;
    let mut arguments = vec!["install", "-y", "--no-install-recommends"];
    arguments.extend(packages);
    run(layout, what, "apt-install", "usually 25 s", apt_get(prefix, &arguments)).await
}

/// PostgreSQL's server, without the cluster that Debian's package would make and start at every
/// boot.
///
/// # Errors
/// As [`install`].
pub(super) async fn install_postgresql(layout: &Layout) -> Result<(), Failure> {
    const WHAT: &str = "PostgreSQL";
    let prefix = privilege().await.filter(|_| on_path("apt-get"));
    if let Some(prefix) = prefix {
        without_cluster(layout, prefix, "printf 'create_main_cluster = false\\n' >").await?;
    }
    let installed = install(layout, WHAT, &["postgresql"]).await;
    // The package looks there at its first installation only, so nobody will miss it.
    if let Some(prefix) = prefix {
        without_cluster(layout, prefix, "rm -f").await?;
    }
    installed
}

/// Runs a command on the file by which an administrator refuses the cluster that Debian's package
/// makes.
async fn without_cluster(layout: &Layout, prefix: &[&str], action: &str) -> Result<(), Failure> {
    const DIRECTORY: &str = "/etc/postgresql-common/createcluster.d";
    let script = format!("mkdir -p {DIRECTORY} && {action} {DIRECTORY}/integrahub.conf");
    let mut words = prefix.iter().copied().chain(["sh", "-c", &script]);
    let mut command = Command::new(words.next().unwrap_or("sh"));
    command.args(words);
    run(layout, "PostgreSQL", "postgresql-cluster", "at once", command).await
}

fn apt_get(prefix: &[&str], arguments: &[&str]) -> Command {
    // In run level 1 Debian's packages do not start their services: the stack runs instances of its
    // own.
    let words = prefix.iter().chain(&["env", "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1", "apt-get"]);
    let mut words = words.chain(arguments);
    let mut command = Command::new(words.next().copied().unwrap_or("env"));
    command.args(words);
    command
}

/// Returns the prefix that makes a command run as root without a password; `None` if there is none.
async fn privilege() -> Option<&'static [&'static str]> {
    if nix::unistd::geteuid().is_root() {
        return Some(&[]);
    }
    let sudo = Command::new("sudo").args(["-n", "true"]).output().await;
    sudo.is_ok_and(|output| output.status.success()).then_some(&["sudo", "-n"])
}
