//! Completions and manual pages of this program.

use std::fs;

use clap::CommandFactory as _;

use crate::args::{Cli, Completions, Man};
use crate::exit::{Exit, Explain as _, Failure};
use crate::output::Output;

/// Prints the completions of a shell.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn completions(args: Completions, out: &mut Output) -> Result<Exit, Failure> {
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    out.raw(&script).or_explain(|| "print the completions".to_owned())?;
    Ok(Exit::Done)
}

/// Writes a manual page for each command.
///
/// # Errors
/// File system's error.
pub(crate) fn man(args: &Man, out: &mut Output) -> Result<Exit, Failure> {
    let directory = &args.directory;
    fs::create_dir_all(directory).or_explain(|| format!("create {}", directory.display()))?;
    clap_mangen::generate_to(Cli::command(), directory)
        .or_explain(|| format!("write the pages into {}", directory.display()))?;
    let directory = directory.display();
    out.note(&format!("the pages are in {directory}; read one: man {directory}/integrahub.1"));
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use clap_complete::Shell;

    use super::*;
    use crate::output::Format;
    use crate::output::memory::output;

    #[test]
    fn every_command_has_a_page() {
        let directory = tempfile::tempdir().unwrap();
        let (mut out, ..) = output(Format::Text, None);
        man(&Man { directory: directory.path().join("man") }, &mut out).unwrap();
        for name in ["integrahub", "integrahub-key", "integrahub-key-create", "integrahub-apply"] {
            let page = fs::read_to_string(directory.path().join(format!("man/{name}.1"))).unwrap();
            assert!(page.contains(".SH"), "{name}");
        }
    }

    #[test]
    fn completions_know_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::PowerShell] {
            let (mut out, data, _) = output(Format::Text, None);
            completions(Completions { shell }, &mut out).unwrap();
            assert!(data.text().contains("tenant") && data.text().contains("rotate"), "{shell}");
        }
    }
}
