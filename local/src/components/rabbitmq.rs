//! A private RabbitMQ node: its own name, ports, cookie, data and user.

use std::path::Path;

use tokio::process::Command;

use super::{Component, Ready};
use crate::failure::{Explain as _, Failure};
use crate::layout::{Layout, create};

/// Its launcher; the one in `/usr/sbin` switches to the system's user and the system's directories.
pub(crate) const SERVER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";
pub(crate) const USER: &str = "app";
pub(crate) const VIRTUAL_HOST: &str = "/";

#[derive(Debug)]
pub(crate) struct RabbitMq {
    port: u16,
    distribution_port: u16,
    epmd_port: u16,
    password: String,
}

impl RabbitMq {
    pub(crate) fn new(port: u16, distribution_port: u16, epmd_port: u16) -> Self {
        Self { port, distribution_port, epmd_port, password: uuid::Uuid::new_v4().simple().to_string() }
    }

    /// `host:port`, as targets name it.
    pub(crate) fn conn_name(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// With credentials.
    pub(crate) fn url(&self) -> String {
        format!("amqp://{USER}:{}@{}/%2f", self.password, self.conn_name())
    }

    pub(crate) fn password(&self) -> &str {
        &self.password
    }

    fn write_configuration(&self, home: &Path) -> Result<(), Failure> {
        let configuration = format!(
            "listeners.tcp.1 = {}\ndefault_user = {USER}\ndefault_pass = {}\ndisk_free_limit.absolute = 50MB\n",
            self.conn_name(),
            self.password,
        );
        for (name, text) in [("rabbitmq.conf", configuration.as_str()), ("enabled_plugins", "[].\n")] {
            let path = home.join(name);
            std::fs::write(&path, text).or_explain(|| format!("write {}", path.display()))?;
        }
        for directory in ["mnesia", "log", "generated"] {
            create(&home.join(directory))?;
        }
        Ok(())
    }
}

impl Component for RabbitMq {
    fn name(&self) -> &'static str {
        "rabbitmq"
    }

    fn command(&self, layout: &Layout) -> Result<Command, Failure> {
        let home = layout.component_directory(self.name())?;
        self.write_configuration(&home)?;
        let mut command = Command::new(SERVER);
        command
            .env_clear()
            .current_dir(&home)
            // Where the cookie is made.
            .env("HOME", &home)
            .env("ERL_EPMD_PORT", self.epmd_port.to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            // Makes the launcher become the server instead of waiting for it.
            .env("RUNNING_UNDER_SYSTEMD", "true")
            .env("RABBITMQ_NODENAME", "integrahub@localhost")
            .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODE_PORT", self.port.to_string())
            .env("RABBITMQ_DIST_PORT", self.distribution_port.to_string())
            .env("RABBITMQ_CONF_ENV_FILE", home.join("no-env.conf"))
            .env("RABBITMQ_CONFIG_FILE", home.join("rabbitmq.conf"))
            .env("RABBITMQ_ADVANCED_CONFIG_FILE", home.join("no-advanced.config"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", home.join("enabled_plugins"))
            .env("RABBITMQ_GENERATED_CONFIG_DIR", home.join("generated"))
            .env("RABBITMQ_MNESIA_BASE", home.join("mnesia"))
            .env("RABBITMQ_LOG_BASE", home.join("log"))
            .env("RABBITMQ_LOGS", "-")
            .env(
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}",
            );
        Ok(command)
    }

    fn ready(&self) -> Ready {
        Ready::Listens(self.port)
    }

    fn usual(&self) -> &'static str {
        "usually 5 to 10 s"
    }
}
