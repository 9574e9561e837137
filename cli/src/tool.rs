//! Shell completions and manual pages of this program.

use std::fs;

use clap::CommandFactory as _;

use crate::args::{Cli, Completions, Man};
use crate::exit::{Exit, Explain as _, Failure};
use crate::output::Output;

/// Prints the completion script of a shell.
///
/// # Errors
/// If standard output cannot be written.
pub(crate) fn completions(args: Completions, out: &mut Output) -> Result<Exit, Failure> {
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    out.raw(&script).or_explain(|| "print the completions".to_owned())?;
    Ok(Exit::Done)
}

/// Writes a manual page for each command.
pub(crate) fn man(args: &Man, out: &mut Output) -> Result<Exit, Failure> {
    let directory = &args.directory;
    fs::create_dir_all(directory).or_explain(|| format!("create {}", directory.display()))?;
    clap_mangen::generate_to(Cli::command(), directory)
        .or_explain(|| format!("write the pages into {}", directory.display()))?;
    let directory = directory.display();
    out.note(&format!("the pages are in {directory}; read one: man {directory}/integrahub.1"));
    Ok(Exit::Done)
}
