//! Installation of the programs that the components need and the machine lacks.

use std::process::Stdio;

use tokio::process::Command;

use crate::failure::{Explain as _, Failure};
use crate::layout::Layout;

/// Runs the script that installs everything the components need.
///
/// # Errors
/// If something is missing and cannot be installed. The script has printed what to do.
pub(crate) async fn ensure(layout: &Layout) -> Result<(), Failure> {
    let script = layout.root.join("scripts/setup.sh");
    let mut command = Command::new(&script);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let status = command.status().await.or_explain(|| format!("run {}", script.display()))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::new("Something that the local stack needs is missing: see the lines before this one."))
}
