//! The local stack: everything that `template.yaml` deploys, on this machine.

mod commands;
mod components;
mod console;
mod deploy;
mod env_file;
mod failure;
mod front;
mod layout;
mod lock;
mod seed;
mod setup;
mod stack;
mod supervisor;
mod targets;

use std::process::ExitCode;

use clap::Parser as _;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match commands::Command::parse().execute().await {
        Ok(code) => code,
        Err(failure) => {
            console::complain(failure);
            ExitCode::FAILURE
        }
    }
}
