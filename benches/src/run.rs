//! One contender's run, as its process tells it on its standard output.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::error::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Job {
    Produce,
    Consume,
}

impl Job {
    pub(crate) const ALL: [Self; 2] = [Self::Produce, Self::Consume];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Produce => "produce",
            Self::Consume => "consume",
        }
    }
}

/// From the first message to the last confirm or acknowledgement, on a connection that is open
/// already.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) messages: u32,
    pub(crate) seconds: f64,
    /// User and system time of the contender's process.
    pub(crate) cpu_seconds: f64,
}

impl Run {
    pub(crate) fn rate(self) -> f64 {
        f64::from(self.messages) / self.seconds
    }

    pub(crate) fn print(self) -> Result<(), Error> {
        let line = serde_json::to_string(&self)?;
        #[expect(clippy::print_stdout, reason = "what the comparison reads")]
        {
            println!("{line}");
        }
        Ok(())
    }
}
