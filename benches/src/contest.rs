//! What comparisons of whole processes have in common: the contenders take turns, and each process
//! prints what it measured of itself.

use std::path::Path;
use std::process::Stdio;

use serde::de::DeserializeOwned;
use tokio::process::Command;

use crate::error::Error;

/// Returns this program with the command `name`.
pub(crate) fn own(name: &str) -> Result<Command, Error> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(name);
    Ok(command)
}

/// A script of `benches/python`.
pub(crate) fn of_python(python: &str, script: &str) -> Command {
    let mut command = Command::new(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("python").join(script));
    command
}

/// Everyone's turn, beginning with another one each round.
pub(crate) fn turns<T: Copy>(all: &[T], round: u32) -> Vec<T> {
    let mut turns = all.to_vec();
    let first = usize::try_from(round).unwrap_or_default() % turns.len().max(1);
    turns.rotate_left(first);
    turns
}

/// Runs a contender to its end, and reads what it prints.
pub(crate) async fn run<T: DeserializeOwned>(mut command: Command, who: &str, job: &str) -> Result<T, Error> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).kill_on_drop(true).output().await?;
    if !output.status.success() {
        return Err(Error::Unexpected(format!("{who} failed to {job} ({})", output.status)));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::turns;

    #[test]
    fn everyone_begins_once_in_as_many_rounds_as_there_are_contenders() {
        let rounds: Vec<_> = (0..3).map(|round| turns(&["a", "b", "c"], round)).collect();
        assert_eq!(rounds, [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]]);
    }
}
