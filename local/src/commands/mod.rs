//! The commands of the program.

mod child;
mod run;
mod signals;
mod stop;
mod test;

use std::path::PathBuf;
use std::process::ExitCode;

use crate::failure::Failure;
use crate::front::Kind;
use crate::targets::Given;

pub(crate) use signals::Signals;

/// Runs IntegraHub on this machine.
#[derive(Debug, clap::Parser)]
#[command(name = "local")]
pub(crate) enum Command {
    /// Start the stack, show what it does, and serve until Ctrl-C.
    Run {
        /// Port of the API on 127.0.0.1.
        #[arg(long, env = "PORT", default_value_t = 8080)]
        port: u16,
        /// Kind of the API at that port; the other kind is at a free port.
        #[arg(long, env = "FRONT", default_value = "http")]
        front: Kind,
        /// Run the demonstration if 1, skip it if 0.
        #[arg(long, env = "DEMO", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=1))]
        demo: u8,
        /// Path of IBM MQ's client library, libmqm_r.so, to use in place of the stand-in's.
        #[arg(long, env = "IBM_MQ_LIBRARY")]
        ibm_mq_library: Option<PathBuf>,
        /// Directory with target profiles and secrets that exist from the start.
        #[arg(long, env = "TARGETS")]
        targets: Option<PathBuf>,
    },
    /// Start a separate stack for tests, run a command against it, stop the stack, and exit with
    /// the command's exit code.
    Test {
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Stop every stack of this repository, and all processes that a killed stack left running.
    Stop,
}

impl Command {
    /// Executes the command, and returns the program's exit code.
    ///
    /// # Errors
    /// Returns the sentence to show to the user.
    pub(crate) async fn execute(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Run { port, front, demo, ibm_mq_library, targets } => {
                run::run(port, front, demo == 1, Given::read(ibm_mq_library, targets.as_deref())?).await
            }
            Self::Test { command } => test::test(command).await,
            Self::Stop => stop::stop().await,
        }
    }
}
