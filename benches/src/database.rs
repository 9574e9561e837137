//! Databases of a measurement's own on a server of this machine, and the CPU time of the processes
//! that serve them.

use std::time::Duration;

use catalog::DatabaseConfig;
use secrecy::ExposeSecret as _;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use crate::cpu::Cpu;
use crate::error::Error;

/// Server on which databases are made.
pub(crate) struct Server {
    config: DatabaseConfig,
    administrator: Client,
}

impl Server {
    pub(crate) async fn connect(url: &str) -> Result<Self, Error> {
        let config = DatabaseConfig::from_url(url)?;
        let administrator = connect(&config).await?;
        Ok(Self { config, administrator })
    }

    /// A new database.
    pub(crate) async fn create(&self) -> Result<DatabaseConfig, Error> {
        let dbname = format!("bench_{}", Uuid::new_v4().simple());
        self.administrator.batch_execute(&format!("CREATE DATABASE {dbname}")).await?;
        Ok(DatabaseConfig { dbname, ..self.config.clone() })
    }

    pub(crate) async fn drop(&self, config: &DatabaseConfig) -> Result<(), Error> {
        let statement = format!("DROP DATABASE {}", config.dbname);
        // By itself it ends workers of autovacuum, which FORCE may not on behalf of such a user;
        // FORCE ends what a contender left.
        if self.administrator.batch_execute(&statement).await.is_err() {
            self.administrator.batch_execute(&format!("{statement} WITH (FORCE)")).await?;
        }
        Ok(())
    }
}

pub(crate) async fn connect(config: &DatabaseConfig) -> Result<Client, Error> {
    let (client, connection) = tokio_postgres::Config::new()
        .host(&config.host)
        .port(config.port)
        .dbname(&config.dbname)
        .user(&config.user)
        .password(config.password.expose_secret())
        .connect(NoTls)
        .await?;
    // Ends with its client.
    tokio::spawn(connection);
    Ok(client)
}

/// CPU time so far of all processes that serve the observer's database, the observer's own left
/// out.
pub(crate) async fn of_others(observer: &Client) -> Result<Duration, Error> {
    let query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() \
         AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
    let mut sum = Duration::ZERO;
    for row in observer.query(query, &[]).await? {
        sum += Cpu::of(row.try_get(0)?)?.so_far()?;
    }
    Ok(sum)
}
