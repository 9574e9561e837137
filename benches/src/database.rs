//! Databases that a benchmark creates for itself on a local server, and the CPU time of the
//! server's processes that serve them.

use std::time::Duration;

use reqwest::Url;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use crate::cpu::Cpu;
use crate::error::Error;

/// PostgreSQL server on which the benchmarks create their databases.
pub(crate) struct Server {
    url: Url,
    administrator: Client,
}

impl Server {
    pub(crate) async fn connect(url: &str) -> Result<Self, Error> {
        Ok(Self { url: Url::parse(url)?, administrator: connect(url).await? })
    }

    /// Creates a database, runs `work` with its URL, and drops the database.
    pub(crate) async fn during<T>(
        &self,
        work: impl AsyncFnOnce(&str) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let name = format!("bench_{}", Uuid::new_v4().simple());
        self.administrator.batch_execute(&format!("CREATE DATABASE {name}")).await?;
        let mut url = self.url.clone();
        url.set_path(&format!("/{name}"));
        let done = work(url.as_str()).await;
        let statement = format!("DROP DATABASE {name}");
        // By itself it ends workers of autovacuum, which FORCE may not on behalf of such a user;
        // FORCE ends what a contender left.
        if self.administrator.batch_execute(&statement).await.is_err() {
            self.administrator.batch_execute(&format!("{statement} WITH (FORCE)")).await?;
        }
        done
    }
}

pub(crate) async fn connect(url: &str) -> Result<Client, Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // Ends with its client.
    tokio::spawn(connection);
    Ok(client)
}

/// Returns the CPU time so far of all PostgreSQL processes that serve clients of the observer's
/// database, except the observer's own.
pub(crate) async fn of_others(observer: &Client) -> Result<Duration, Error> {
    let query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() \
         AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
    let mut sum = Duration::ZERO;
    for row in observer.query(query, &[]).await? {
        sum += Cpu::of(row.try_get(0)?)?.so_far()?;
    }
    Ok(sum)
}
