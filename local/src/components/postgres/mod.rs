//! A private PostgreSQL server: its own port, data, roles and passwords.

mod home;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use test_support::postgres::Server;
use tokio_postgres::NoTls;

use super::{Component, Ready};
use crate::failure::{Explain as _, Failure};
use crate::layout::Layout;

pub(crate) use home::forget;

/// Name of the functions' role and of their database. The role is no superuser, like the master
/// user of RDS.
const NAME: &str = "integrahub";

#[derive(Debug)]
pub(crate) struct Postgres {
    port: u16,
    password: String,
}

impl Postgres {
    pub(crate) fn new(port: u16) -> Self {
        Self { port, password: secret() }
    }

    /// Returns the URL of the database, with credentials.
    pub(crate) fn url(&self) -> String {
        format!("postgres://{NAME}:{}@127.0.0.1:{}/{NAME}?sslmode=disable", self.password, self.port)
    }

    /// Returns the database's secret, in the JSON that RDS writes to Secrets Manager.
    pub(crate) fn secret(&self) -> Value {
        json!({
            "engine": "postgres",
            "host": "127.0.0.1",
            "port": self.port,
            "dbname": NAME,
            "username": NAME,
            "password": self.password,
        })
    }

    fn roles(&self) -> String {
        // One statement a line: that is how a server in single-user mode reads.
        format!(
            "CREATE ROLE {NAME} LOGIN CREATEDB PASSWORD '{}';\n\
             GRANT pg_monitor TO {NAME};\n\
             CREATE DATABASE {NAME} OWNER {NAME};\n",
            self.password
        )
    }

    /// Returns the component that runs PostgreSQL.
    ///
    /// # Errors
    /// If there is no user to run it as, or its files cannot be written.
    pub(crate) fn component(&self, layout: &Layout) -> Result<Component, Failure> {
        let (directory, account) = home::prepare(&layout.component_directory("postgres")?)?;
        let server = Server { directory, port: self.port, account, settings: Vec::new() };
        let explain = || format!("prepare {}", server.directory.display());
        server.prepare(&secret(), &self.roles()).or_explain(explain)?;
        let ready = Ready::Connects(self.url());
        let component = Component::new("postgres", server.command().into(), ready, "usually 2 s");
        // At SIGTERM it would wait for its clients to go.
        Ok(Component { stop_signal: Signal::SIGINT, ..component })
    }
}

/// Returns true if the PostgreSQL server at this URL answers a query.
pub(crate) async fn connects(url: &str) -> bool {
    let Ok((client, connection)) = tokio_postgres::connect(url, NoTls).await else { return false };
    let connection = tokio::spawn(connection);
    let answered = client.simple_query("SELECT 1").await.is_ok();
    drop(client);
    let _closed = connection.await;
    answered
}

fn secret() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}
