//! `local run`: starts a stack, shows the demonstration, and serves until Ctrl-C.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use ingestion::generate::{Catalogue, Layout as Form};
use tokio::process::Command;

use super::{Signals, child};
use crate::console::say;
use crate::failure::{Explain as _, Failure};
use crate::front::{self, Kind};
use crate::layout::Layout;
use crate::lock::{Claim, claim};
use crate::seed::KEYS;
use crate::stack::{self, Stack};
use crate::supervisor::isolate;
use crate::targets::Given;

const DEMONSTRATION: &str = "local/demo.sh";
/// File name of the catalogue that the user can send after the demonstration.
const CATALOGUE: &str = "catalogue.json";

pub(super) async fn run(port: u16, kind: Kind, demonstrate: bool, given: Given) -> Result<ExitCode, Failure> {
    let mut signals = Signals::new()?;
    let layout = Layout::of_run()?;
    let _lock = match claim(&layout.lock_file(), &format!("http://127.0.0.1:{port}"))? {
        Claim::Ours(lock) => lock,
        Claim::Taken(holder) => {
            return Err(Failure::new(format!(
                "A stack of this directory is running already: {holder}. Use it, or stop it with Ctrl-C there or \
                 `make stop` here."
            )));
        }
    };
    let door = front::bind(port, kind).await?;
    stack::during(&layout, door, &mut signals, given, async |stack, signals| {
        let catalogue = write_catalogues(&layout)?;
        if demonstrate && !show(&[], stack, &layout, signals).await? {
            return Ok(ExitCode::SUCCESS);
        }
        introduce(stack, &layout, &catalogue)?;
        let targets = stack.given.targets.profiles.keys().map(String::as_str);
        let arguments: Vec<&str> = std::iter::once("targets").chain(targets).collect();
        if arguments.len() > 1 && !show(&arguments, stack, &layout, signals).await? {
            return Ok(ExitCode::SUCCESS);
        }
        signals.wait().await;
        Ok(ExitCode::SUCCESS)
    })
    .await
}

/// Runs the demonstration's script, or with arguments a part of it. Returns false if a signal
/// stopped this process meanwhile.
async fn show(
    arguments: &[&str],
    stack: &Stack,
    layout: &Layout,
    signals: &mut Signals,
) -> Result<bool, Failure> {
    let mut command = Command::new(layout.root.join(DEMONSTRATION));
    command.env_clear();
    isolate(&mut command, layout);
    let program = program()?;
    command.args(arguments).env("PROGRAMS", program.parent().unwrap_or(&layout.root));
    if let Some(library) = &stack.given.ibm_mq_library {
        command.env("IBM_MQ_LIBRARY", library);
    }
    // Ctrl-C reaches this program alone. It ends the script, and what the script has started.
    command.stdin(Stdio::null()).process_group(0);
    match child::run(command, DEMONSTRATION, stack, signals).await? {
        ControlFlow::Continue(status) if status.success() => Ok(true),
        ControlFlow::Continue(_) => {
            Err(Failure::new(format!("{DEMONSTRATION} has failed, so the stack stops.")))
        }
        ControlFlow::Break(_) => Ok(false),
    }
}

fn introduce(stack: &Stack, layout: &Layout, catalogue: &Path) -> Result<(), Failure> {
    let base_url = &stack.base_url;
    say(format_args!(
        "\nServing at {base_url}, Ctrl-C stops.\n  Console: {base_url}/console (enter one of these keys)\n  \
         Contract to read and try: {base_url}/docs\n  X-Api-Key:"
    ));
    for key in &KEYS {
        say(format_args!("    {:<20} {}", stack.given.api_key(key.name), key.purpose));
    }
    say(
        "  In another terminal: `. .local/env` (addresses and credentials). Logs: .local/logs/functions.log and others",
    );
    let program = program()?;
    let program = program.strip_prefix(&layout.root).unwrap_or(&program);
    say(format_args!("  Send a catalogue: {} send --type delta {}", program.display(), catalogue.display()));
    Ok(())
}

/// Writes the catalogues that the demonstration loads, and one for the user to send. Returns the
/// path of the latter, relative to the repository.
fn write_catalogues(layout: &Layout) -> Result<PathBuf, Failure> {
    let full = Catalogue { items: 5_000, ..Catalogue::default() };
    for (name, form, catalogue) in [
        ("full.json", Form::Array, full),
        ("shorter.json", Form::Array, Catalogue { items: 4_800, ..full }),
        ("loja-12.ndjson", Form::Lines, Catalogue { seed: 12, items: 3_000, ..full }),
        (CATALOGUE, Form::Array, Catalogue { seed: 35, items: 1_000, ..full }),
    ] {
        let path = layout.data().join(name);
        std::fs::write(&path, catalogue.payload(form)).or_explain(|| format!("write {}", path.display()))?;
    }
    let path = layout.data().join(CATALOGUE);
    Ok(path.strip_prefix(&layout.root).unwrap_or(&path).to_owned())
}

/// Returns the path of the program `integrahub`, which is built next to this program.
fn program() -> Result<PathBuf, Failure> {
    let local = std::env::current_exe().or_explain(|| "find this program".to_owned())?;
    Ok(local.with_file_name("integrahub"))
}
