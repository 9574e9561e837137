//! `local run`.

use std::path::PathBuf;
use std::process::ExitCode;

use ingestion::generate::{self, Catalogue};

use super::Signals;
use crate::console::say;
use crate::demo;
use crate::failure::{Explain as _, Failure};
use crate::front::{self, Kind};
use crate::layout::Layout;
use crate::lock::{Claim, claim};
use crate::seed::KEYS;
use crate::stack::{self, Stack};
use crate::targets::Given;

/// Products of the catalogue to send.
const PRODUCTS: u32 = 1_000;

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
        if demonstrate {
            let shown = tokio::select! {
                _ = signals.wait() => return Ok(ExitCode::SUCCESS),
                shown = demo::show(stack) => shown,
            };
            shown?;
        }
        introduce(stack, &layout)?;
        demo::show_targets(stack).await?;
        signals.wait().await;
        Ok(ExitCode::SUCCESS)
    })
    .await
}

fn introduce(stack: &Stack, layout: &Layout) -> Result<(), Failure> {
    let base_url = stack.base_url();
    say(format_args!(
        "\nServing at {base_url}, Ctrl-C stops.\n  Console: {base_url}/console (enter one of these keys)\n  \
         Contract to read and try: {base_url}/docs\n  X-Api-Key:"
    ));
    for key in &KEYS {
        say(format_args!("    {:<20} {}", stack.given().api_key(key.name), key.purpose));
    }
    say(
        "  In another terminal: `. .local/env` (addresses and credentials). Logs: .local/logs/functions.log and others",
    );
    let catalogue = write_catalogue(layout)?;
    say(format_args!("  Send a catalogue: {} send --type delta {}", program(layout)?, catalogue.display()));
    Ok(())
}

/// Writes a catalogue that the demonstration does not load, and returns its path in the repository.
fn write_catalogue(layout: &Layout) -> Result<PathBuf, Failure> {
    let path = layout.data().join("catalogue.json");
    let catalogue = Catalogue { seed: 35, items: PRODUCTS, ..Catalogue::default() };
    std::fs::write(&path, catalogue.payload(generate::Layout::Array))
        .or_explain(|| format!("write {}", path.display()))?;
    Ok(path.strip_prefix(layout.root()).unwrap_or(&path).to_owned())
}

/// Returns the command line, which is built beside this program.
fn program(layout: &Layout) -> Result<String, Failure> {
    let local = std::env::current_exe().or_explain(|| "find this program".to_owned())?;
    let path = local.with_file_name("integrahub");
    Ok(path.strip_prefix(layout.root()).unwrap_or(&path).display().to_string())
}
