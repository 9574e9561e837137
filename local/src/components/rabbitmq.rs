//! A private RabbitMQ node: its own name, ports, cookie, data and user.

use test_support::rabbitmq::{self, Node};
use test_support::root::Root;

use super::{Component, Ready};
use crate::failure::{Explain as _, Failure};
use crate::layout::Layout;

pub(crate) const USER: &str = "app";
pub(crate) const VIRTUAL_HOST: &str = "/";

#[derive(Debug)]
pub(crate) struct RabbitMq {
    port: u16,
    distribution_port: u16,
    epmd_port: u16,
    pub(crate) password: String,
}

impl RabbitMq {
    pub(crate) fn new(port: u16, distribution_port: u16, epmd_port: u16) -> Self {
        Self { port, distribution_port, epmd_port, password: uuid::Uuid::new_v4().simple().to_string() }
    }

    /// Returns the connection name `host:port` for targets.
    pub(crate) fn conn_name(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the URL of the broker, with credentials.
    pub(crate) fn url(&self) -> String {
        format!("amqp://{USER}:{}@{}/%2f", self.password, self.conn_name())
    }

    /// Returns the component that runs `epmd`, Erlang's port mapper. RabbitMQ would start its own
    /// as a daemon that keeps running after the node ends.
    pub(crate) fn epmd(&self, layout: &Layout) -> Result<Component, Failure> {
        let mut command = rabbitmq::epmd(&Root::of_rabbitmq(), self.epmd_port);
        command.current_dir(layout.component_directory("epmd")?);
        Ok(Component::new("epmd", command, Ready::Listens(self.epmd_port), "usually at once"))
    }

    /// Returns the component that runs RabbitMQ.
    pub(crate) fn component(&self, layout: &Layout) -> Result<Component, Failure> {
        let home = layout.component_directory("rabbitmq")?;
        let node = Node {
            root: Root::of_rabbitmq(),
            home,
            name: "integrahub@localhost",
            port: self.port,
            distribution_port: self.distribution_port,
            epmd_port: self.epmd_port,
        };
        // Before 4.0 this was the default. The bodies that the gateway takes and gives exceed the
        // later one of 16 MiB.
        let configuration = format!(
            "default_user = {USER}\ndefault_pass = {}\ndisk_free_limit.absolute = 50MB\nmax_message_size = 134217728\n",
            self.password
        );
        node.prepare(&configuration, &[]).or_explain(|| format!("prepare {}", node.home.display()))?;
        Ok(Component::new("rabbitmq", node.server(), Ready::Listens(self.port), "usually 5 to 10 s"))
    }
}
