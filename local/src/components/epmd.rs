//! Erlang's port mapper. RabbitMQ would start one by itself, as a daemon that outlives it.

use test_support::rabbitmq;
use test_support::root::Root;

use super::{Component, Ready};
use crate::failure::Failure;
use crate::layout::Layout;

/// # Errors
/// The component's directory cannot be made.
pub(crate) fn component(layout: &Layout, port: u16) -> Result<Component, Failure> {
    let mut command = rabbitmq::epmd(&Root::of_rabbitmq(), port);
    command.current_dir(layout.component_directory("epmd")?);
    Ok(Component::new("epmd", command, Ready::Listens(port), "usually at once"))
}
