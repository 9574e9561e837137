//! Erlang's port mapper. RabbitMQ would start one by itself, as a daemon that outlives it.

use test_support::rabbitmq;
use test_support::root::Root;
use tokio::process::Command;

use super::{Component, Ready};
use crate::failure::Failure;
use crate::layout::Layout;

#[derive(Debug)]
pub(crate) struct Epmd {
    port: u16,
}

impl Epmd {
    pub(crate) fn new(port: u16) -> Self {
        Self { port }
    }
}

impl Component for Epmd {
    fn name(&self) -> &'static str {
        "epmd"
    }

    fn command(&self, layout: &Layout) -> Result<Command, Failure> {
        let home = layout.component_directory(self.name())?;
        let mut command = rabbitmq::epmd(&Root::of_rabbitmq(), self.port);
        command.current_dir(home);
        Ok(command)
    }

    fn ready(&self) -> Ready {
        Ready::Listens(self.port)
    }

    fn usual(&self) -> &'static str {
        "usually at once"
    }
}
