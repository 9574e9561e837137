//! One connection to PostgreSQL with the statements that were prepared on it.

use std::collections::HashMap;
use std::time::Duration;

use secrecy::ExposeSecret as _;
use tokio_postgres::config::SslMode;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, IsolationLevel, NoTls, Row, Statement, Transaction};

use crate::config::{DatabaseConfig, Tls};
use crate::error::DatabaseError;
use crate::tls;

const CONNECT: Duration = Duration::from_secs(5);
/// A connection that does not answer an empty query in this time is given up.
const PROBE: Duration = Duration::from_secs(2);

/// What the server enforces on every session, so that no transaction outlives the function that began it: not one that was frozen or cut off
/// (it idles, or its socket is closed), and not one that waits for a lock. Compiling a statement would take longer than any of them.
const SESSION: &str = "-c statement_timeout=20s -c lock_timeout=15s -c idle_in_transaction_session_timeout=10s \
    -c client_connection_check_interval=1s -c jit=off -c timezone=UTC";

/// For migrations, whose statements may take long; waiting for a table's lock, they make everybody wait who comes after.
pub(crate) const MIGRATION_SESSION: &str = "-c statement_timeout=0 -c lock_timeout=10s -c timezone=UTC";

pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A client and its prepared statements.
pub(crate) struct Connection {
    client: Client,
    statements: HashMap<&'static str, Statement>,
}

impl Connection {
    pub(crate) async fn open(config: &DatabaseConfig) -> Result<Self, DatabaseError> {
        let client = connect(config, SESSION).await?;
        Ok(Self { client, statements: HashMap::new() })
    }

    /// Whether it still works: after a freeze, nothing else tells.
    pub(crate) async fn is_alive(&self) -> bool {
        !self.client.is_closed()
            && matches!(tokio::time::timeout(PROBE, self.client.check_connection()).await, Ok(Ok(())))
    }

    /// Begins a transaction. Each of its statements sees what was committed before that statement.
    pub(crate) async fn begin(&mut self) -> Result<Session<'_>, DatabaseError> {
        let Self { client, statements } = self;
        let transaction =
            client.build_transaction().isolation_level(IsolationLevel::ReadCommitted).start().await?;
        Ok(Session { transaction, statements })
    }
}

/// A transaction; it is rolled back where it is not committed.
pub(crate) struct Session<'a> {
    pub(crate) transaction: Transaction<'a>,
    statements: &'a mut HashMap<&'static str, Statement>,
}

impl Session<'_> {
    /// The statement, prepared when it is first used.
    pub(crate) async fn prepared(&mut self, sql: &'static str) -> Result<Statement, DatabaseError> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.transaction.prepare(sql).await?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    pub(crate) async fn query(
        &mut self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, DatabaseError> {
        let statement = self.prepared(sql).await?;
        Ok(self.transaction.query(&statement, params).await?)
    }

    pub(crate) async fn query_opt(
        &mut self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<Option<Row>, DatabaseError> {
        let statement = self.prepared(sql).await?;
        Ok(self.transaction.query_opt(&statement, params).await?)
    }

    pub(crate) async fn execute(
        &mut self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<u64, DatabaseError> {
        let statement = self.prepared(sql).await?;
        Ok(self.transaction.execute(&statement, params).await?)
    }

    pub(crate) async fn commit(self) -> Result<(), DatabaseError> {
        Ok(self.transaction.commit().await?)
    }
}

/// Connects with these session settings.
pub(crate) async fn connect(config: &DatabaseConfig, session: &str) -> Result<Client, DatabaseError> {
    let mut postgres = Config::new();
    postgres
        .host(&config.host)
        .port(config.port)
        .dbname(&config.dbname)
        .user(&config.user)
        .password(config.password.expose_secret())
        .application_name("integrahub")
        .options(session)
        .connect_timeout(CONNECT)
        .tcp_user_timeout(Duration::from_secs(10))
        .keepalives_idle(Duration::from_secs(30));
    let connecting = async {
        match &config.tls {
            Tls::Off => {
                let (client, connection) = postgres.ssl_mode(SslMode::Disable).connect(NoTls).await?;
                drive(connection);
                Ok(client)
            }
            Tls::VerifyFull { ca } => {
                let connector = tls::connector(ca.as_ref())?;
                let (client, connection) = postgres.ssl_mode(SslMode::Require).connect(connector).await?;
                drive(connection);
                Ok(client)
            }
        }
    };
    tokio::time::timeout(CONNECT, connecting).await.map_err(|_| DatabaseError::TimedOut)?.map_err(
        |error: DatabaseError| match error {
            // Whoever cannot log in may be let in later: passwords rotate, servers start.
            DatabaseError::Rejected(error) => DatabaseError::Unavailable(error),
            error => error,
        },
    )
}

/// Moves a connection's bytes for as long as its client lives. What goes wrong is told to the client's next call.
fn drive<F>(connection: F)
where
    F: Future<Output = Result<(), tokio_postgres::Error>> + Send + 'static,
{
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(error = %error, "a database connection ended");
        }
    });
}
