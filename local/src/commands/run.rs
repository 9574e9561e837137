//! `local run`.

use std::process::ExitCode;

use super::Signals;
use crate::console::say;
use crate::demo;
use crate::failure::Failure;
use crate::front;
use crate::layout::Layout;
use crate::seed::KEYS;
use crate::stack::{self, Claim, Stack};
use crate::targets::Given;

pub(super) async fn run(port: u16, demonstrate: bool, given: Given) -> Result<ExitCode, Failure> {
    let mut signals = Signals::new()?;
    let layout = Layout::of_run()?;
    let _lock = match stack::claim(&layout, &format!("http://127.0.0.1:{port}"))? {
        Claim::Ours(lock) => lock,
        Claim::Taken(holder) => {
            return Err(Failure::new(format!(
                "A stack of this directory is running already: {holder}. Use it, or stop it with Ctrl-C there or \
                 `make stop` here."
            )));
        }
    };
    let door = front::bind(port).await?;
    stack::during(&layout, door, &mut signals, given, async |stack, signals| {
        if demonstrate {
            let shown = tokio::select! {
                _ = signals.wait() => return Ok(ExitCode::SUCCESS),
                shown = demo::show(stack) => shown,
            };
            shown?;
        }
        introduce(stack);
        demo::show_targets(stack).await?;
        signals.wait().await;
        Ok(ExitCode::SUCCESS)
    })
    .await
}

fn introduce(stack: &Stack) {
    let base_url = stack.base_url();
    say(format_args!(
        "\nServing at {base_url}, Ctrl-C stops.\n  Contract to read and try: {base_url}/docs\n  X-Api-Key:"
    ));
    for key in &KEYS {
        say(format_args!("    {:<20} {}", stack.given().api_key(key.name), key.purpose));
    }
    say(
        "  In another terminal: `. .local/env` (addresses and credentials). Logs: .local/logs/functions.log and others",
    );
}
