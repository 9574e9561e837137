//! Installs what is missing, and nothing that is there.

mod apt;
mod python;

use std::path::{Path, PathBuf};
use std::time::Duration;

use test_support::root::Root;
use test_support::{postgres, rabbitmq};
use tokio::process::Command;

use crate::components::kafka;
use crate::console;
use crate::failure::{Explain as _, Failure};
use crate::layout::Layout;
use crate::lock::Lock;
use crate::supervisor::with_log;

/// Everything that the components need.
///
/// # Errors
/// What could not be installed, and what to do.
pub(crate) async fn ensure(layout: &Layout) -> Result<(), Failure> {
    let _lock = wait_for_lock(layout).await?;
    if !Path::new(rabbitmq::PROGRAMS).join("rabbitmq-server").is_file() || !on_path("epmd") {
        apt::install(layout, "RabbitMQ", &["rabbitmq-server"]).await?;
    }
    if postgres::programs(&Root::default()).is_none() {
        apt::install_postgresql(layout).await?;
    }
    if !faketime().is_file() {
        apt::install(layout, "libfaketime", &["libfaketime"]).await?;
    }
    for root in [Root::of_rabbitmq(), Root::of_postgresql()] {
        if let Some((name, command)) = root.missing() {
            run(layout, name, "brokers", "about a minute", command.into()).await?;
        }
    }
    python::ensure(layout).await?;
    if kafka::is_wanted() { python::ensure_kafka(layout).await } else { Ok(()) }
}

/// Shifts the clock of a single process; tests run functions whose clocks differ.
fn faketime() -> PathBuf {
    let architecture = std::env::consts::ARCH;
    PathBuf::from(format!("/usr/lib/{architecture}-linux-gnu/faketime/libfaketimeMT.so.1"))
}

/// Two stacks of one repository may start at once, but only one of them installs.
async fn wait_for_lock(layout: &Layout) -> Result<Lock, Failure> {
    let path = layout.shared().join("setup.lock");
    let holder = format!("process {}", std::process::id());
    let taken = async {
        loop {
            if let Ok(lock) = Lock::take(&path, &holder)? {
                return Ok(lock);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    console::during("waiting for the other stack's set-up", "under a minute", taken).await
}

fn on_path(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|directory| directory.join(program).is_file()))
}

/// Runs an installer of `what` to its end, its output in the log `setup-<step>.log`, which a
/// failure quotes.
async fn run(
    layout: &Layout,
    what: &str,
    step: &str,
    usual: &str,
    mut command: Command,
) -> Result<(), Failure> {
    let log = layout.shared().join(format!("setup-{step}.log"));
    let explain = || format!("install {what}");
    let output = std::fs::File::create(&log).or_explain(explain)?;
    command.stdin(std::process::Stdio::null()).stdout(output.try_clone().or_explain(explain)?).stderr(output);
    let mut child = command.spawn().or_explain(explain)?;
    let status =
        console::during(&format!("installing {what}"), usual, child.wait()).await.or_explain(explain)?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::new(with_log(&format!("Installing {what} failed ({status})."), &log)))
}
