//! The project's own Python environment, for the AWS stand-in and the deployment.

use std::path::Path;

use tokio::process::Command;

use super::{apt, on_path, run};
use crate::console;
use crate::failure::{Explain as _, Failure};
use crate::layout::Layout;

/// Creates the environment, and again when the pinned versions or the machine's Python have
/// changed.
///
/// # Errors
/// Python or its venv module is missing, or pip failed.
pub(super) async fn ensure(layout: &Layout) -> Result<(), Failure> {
    let environment = layout.python();
    let stamp = environment.join("requirements.txt");
    let wanted = std::fs::read(layout.requirements()).or_explain(|| "read local/requirements.txt".into())?;
    if std::fs::read(&stamp).is_ok_and(|installed| installed == wanted) && runs(&environment).await {
        return Ok(());
    }
    console::say("  Installing the AWS stand-in into .local/python, about 20 s");
    create(layout, &environment).await?;
    let mut pip = Command::new(environment.join("bin/python"));
    pip.args(["-m", "pip", "install", "--require-hashes", "--no-input", "--disable-pip-version-check", "-r"])
        .arg(layout.requirements())
        .kill_on_drop(true);
    run(layout, "the Python packages", "python-packages", "usually 10 to 20 s", pip).await?;
    // Last, so that an interrupted installation is not taken for a finished one.
    std::fs::write(&stamp, wanted).or_explain(|| format!("write {}", stamp.display()))
}

/// The same for the stand-in for Kafka, by the script that tests use for it too.
///
/// # Errors
/// The script failed.
pub(super) async fn ensure_kafka(layout: &Layout) -> Result<(), Failure> {
    let mut script = Command::new(layout.root().join("scripts/python-env.sh"));
    script.arg(layout.kafka_python()).arg("local/kafka/requirements.txt").kill_on_drop(true);
    run(layout, "the stand-in for Kafka", "kafka-packages", "usually 10 s", script).await
}

async fn runs(environment: &Path) -> bool {
    let output = Command::new(environment.join("bin/python")).args(["-c", "import ministack"]).output().await;
    output.is_ok_and(|output| output.status.success())
}

async fn create(layout: &Layout, environment: &Path) -> Result<(), Failure> {
    if !has_venv().await {
        apt::install(layout, "Python 3 with venv", &["python3", "python3-venv"]).await?;
    }
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv", "--clear"]).arg(environment).kill_on_drop(true);
    run(layout, "the Python environment", "python-environment", "usually 5 s", venv).await
}

async fn has_venv() -> bool {
    // Debian ships `venv` without `ensurepip` until python3-venv is installed.
    let probe = Command::new("python3").args(["-c", "import venv, ensurepip"]).output();
    on_path("python3") && probe.await.is_ok_and(|output| output.status.success())
}
