//! How long `mq-access` takes from its spawn to its first poll, with the library and without.

use std::path::Path;
use std::time::Duration;

use tokio::process::Command;

use crate::error::Error;
use crate::function::{Environment, Function, Variables};

/// Times of all starts, in turn.
#[derive(Debug, Default)]
pub(super) struct Starts {
    pub(super) with: Vec<Duration>,
    pub(super) without: Vec<Duration>,
}

pub(super) async fn measure(library: &Path, starts: usize) -> Result<Starts, Error> {
    let function = Function::named("mq-access")?;
    let binary = function.binary()?;
    let at = |library: &Path| -> Variables {
        let others = function.variables.iter().filter(|(name, _)| name != "IBM_MQ_LIBRARY").cloned();
        others.chain([("IBM_MQ_LIBRARY".to_owned(), library.display().to_string())]).collect()
    };
    let (with, without) = (at(library), at(Path::new("/opt/none/libmqm_r.so")));
    let mut measured = Starts::default();
    for round in 0..starts {
        let mut order = [(&with, true), (&without, false)];
        order.rotate_left(round % 2);
        for (variables, is_present) in order {
            let took = to_poll(&binary, variables).await?;
            if is_present { measured.with.push(took) } else { measured.without.push(took) }
        }
    }
    Ok(measured)
}

async fn to_poll(binary: &Path, variables: &Variables) -> Result<Duration, Error> {
    let mut environment = Environment::start(Command::new(binary), variables).await?;
    let polled = environment.api.polled().await?;
    let took = polled - environment.spawned;
    environment.stop().await?;
    Ok(took)
}
