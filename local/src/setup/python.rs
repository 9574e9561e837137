//! Python environments of the stand-ins, which the script makes that tests use for theirs.

use std::path::Path;

use tokio::process::Command;

use super::{apt, on_path, run};
use crate::failure::Failure;
use crate::layout::Layout;

/// Makes the environment of the AWS stand-in and the deployment.
///
/// # Errors
/// Python or its venv module is missing, or pip failed.
pub(super) async fn ensure(layout: &Layout) -> Result<(), Failure> {
    if !has_venv().await {
        apt::install(layout, "Python 3 with venv", &["python3", "python3-venv"]).await?;
    }
    environment(layout, "the AWS stand-in", &layout.python(), "local/requirements.txt").await
}

/// Makes the environment of the stand-in for Kafka.
///
/// # Errors
/// Pip failed.
pub(super) async fn ensure_kafka(layout: &Layout) -> Result<(), Failure> {
    environment(layout, "the stand-in for Kafka", &layout.kafka_python(), "local/kafka/requirements.txt")
        .await
}

async fn environment(
    layout: &Layout,
    what: &str,
    directory: &Path,
    requirements: &str,
) -> Result<(), Failure> {
    let mut script = Command::new(layout.root().join("scripts/python-env.sh"));
    script.arg(directory).arg(requirements).kill_on_drop(true);
    run(layout, what, "python-packages", "usually 20 s", script).await
}

async fn has_venv() -> bool {
    // Debian ships `venv` without `ensurepip` until python3-venv is installed.
    let probe = Command::new("python3").args(["-c", "import venv, ensurepip"]).output();
    on_path("python3") && probe.await.is_ok_and(|output| output.status.success())
}
