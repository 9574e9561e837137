//! A connection to PostgreSQL with its prepared statements.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::try_join_all;
use secrecy::ExposeSecret as _;
use tokio_postgres::config::SslMode;
use tokio_postgres::types::ToSql;
use tokio_postgres::{
    Client, Config, GenericClient, IsolationLevel, NoTls, Row, RowStream, Statement, Transaction,
};
use uuid::Uuid;

use crate::config::{DatabaseConfig, Tls};
use crate::error::DatabaseError;
use crate::outbox::OutboxMode;
use crate::tls;

const CONNECT: Duration = Duration::from_secs(5);
/// Time limit for the empty query that checks a connection. A connection that does not respond in
/// time is replaced.
const PROBE: Duration = Duration::from_secs(2);

/// Settings of every session. The server enforces their time limits, so that no transaction
/// outlives the function that began it, whether the function was frozen, was cut off, or waits for
/// a lock. JIT is off, because compiling a statement would take longer than running it.
const SESSION: &str = "SET statement_timeout = '20s'; SET lock_timeout = '15s'; \
    SET idle_in_transaction_session_timeout = '10s'; SET client_connection_check_interval = '1s'; \
    SET jit = off; SET timezone = 'UTC'";

/// Session settings of migrations. Statements have no time limit. The wait for a lock is short,
/// because every later statement on the table waits behind a migration that waits.
pub(crate) const MIGRATION_SESSION: &str =
    "SET statement_timeout = 0; SET lock_timeout = '10s'; SET timezone = 'UTC'";

/// Turns sequential scans off until the transaction ends. Otherwise a plan from the time when the
/// tables had few rows would scan them for some time after they have grown.
pub(crate) const NO_SCANS: &str = "SELECT set_config('enable_seqscan', 'off', true)";

pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Connection to PostgreSQL, with its prepared statements, and with two observations about the last
/// chunk that was written on it. They decide which locks and which kind of look-up the next chunk
/// uses.
pub(crate) struct Connection {
    client: Client,
    statements: HashMap<&'static str, Statement>,
    /// True if the table already held all rows of the last chunk written on this connection. The
    /// table then probably holds all rows of the next chunk too.
    pub(crate) nothing_differed: bool,
    /// True if the rows of the last chunk were close together in the table, so that range scans
    /// found them. The rows of the next chunk probably are close together too.
    pub(crate) were_neighbours: bool,
    pub(crate) outbox: OutboxState,
}

/// Outbox mode of a connection, and the batches for which its transactions wrote events.
#[derive(Default)]
pub(crate) struct OutboxState {
    pub(crate) mode: OutboxMode,
    /// Ids of batches whose events are committed, but not published yet.
    pub(crate) committed: Vec<Uuid>,
}

impl Connection {
    pub(crate) async fn open(config: &DatabaseConfig) -> Result<Self, DatabaseError> {
        let client = connect(config, SESSION).await?;
        Ok(Self {
            client,
            statements: HashMap::new(),
            nothing_differed: false,
            were_neighbours: false,
            outbox: OutboxState::default(),
        })
    }

    /// True if the connection still works, as an empty query shows. After the function was frozen,
    /// only a query shows that a connection is broken.
    pub(crate) async fn is_alive(&self) -> bool {
        !self.client.is_closed()
            && matches!(tokio::time::timeout(PROBE, self.client.check_connection()).await, Ok(Ok(())))
    }

    /// Runs a read-only query outside a transaction, and returns its rows. The query sees
    /// everything that was committed before it.
    pub(crate) async fn query(
        &mut self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, DatabaseError> {
        let statement = prepared(&self.client, &mut self.statements, sql).await?;
        Ok(self.client.query(&statement, params).await?)
    }

    /// Begins a transaction with isolation level READ COMMITTED: each statement sees everything
    /// that was committed before that statement.
    pub(crate) async fn begin(&mut self) -> Result<Session<'_>, DatabaseError> {
        let Self { client, statements, were_neighbours, outbox, .. } = self;
        let transaction =
            client.build_transaction().isolation_level(IsolationLevel::ReadCommitted).start().await?;
        Ok(Session { transaction, statements, were_neighbours, outbox, written: Vec::new() })
    }
}

/// Open transaction. It is rolled back unless it is committed.
pub(crate) struct Session<'a> {
    pub(crate) transaction: Transaction<'a>,
    statements: &'a mut HashMap<&'static str, Statement>,
    pub(crate) were_neighbours: &'a mut bool,
    outbox: &'a mut OutboxState,
    /// Ids of batches for which this transaction wrote outbox events.
    written: Vec<Uuid>,
}

impl Session<'_> {
    /// Returns the prepared statement for `sql`, which is prepared on first use and kept with the
    /// connection.
    pub(crate) async fn prepared(&mut self, sql: &'static str) -> Result<Statement, DatabaseError> {
        prepared(&self.transaction, self.statements, sql).await
    }

    pub(crate) async fn query(
        &mut self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, DatabaseError> {
        let statement = self.prepared(sql).await?;
        Ok(self.transaction.query(&statement, params).await?)
    }

    /// Streams the rows of a query, for results that are too large for memory.
    pub(crate) async fn stream(
        &mut self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<RowStream, DatabaseError> {
        let statement = self.prepared(sql).await?;
        Ok(self.transaction.query_raw(&statement, params.iter().copied()).await?)
    }

    /// Sends several queries in one round trip, and returns the rows of each. The server executes
    /// them in order, so each sees the effects of the previous ones, and none is executed after a
    /// query that failed.
    pub(crate) async fn query_each<const N: usize>(
        &mut self,
        queries: [(&'static str, Params<'_>); N],
    ) -> Result<[Vec<Row>; N], DatabaseError> {
        let mut sent = Vec::with_capacity(N);
        // All are prepared before the first is sent: otherwise a query that is already prepared
        // would overtake one that is not.
        for (sql, params) in queries {
            sent.push((self.prepared(sql).await?, params));
        }
        let transaction = &self.transaction;
        let answers = sent.iter().map(|(statement, params)| async {
            Ok::<_, DatabaseError>(transaction.query(statement, params).await?)
        });
        let answers = try_join_all(answers).await?;
        answers.try_into().map_err(|_| DatabaseError::Unreadable("the number of answers"))
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

    pub(crate) const fn outbox_mode(&self) -> OutboxMode {
        self.outbox.mode
    }

    /// Records that this transaction wrote an outbox event of a batch, which may be published after
    /// the commit.
    pub(crate) fn wrote_event_of(&mut self, batch_id: Uuid) {
        if !self.written.contains(&batch_id) {
            self.written.push(batch_id);
        }
    }

    pub(crate) async fn commit(self) -> Result<(), DatabaseError> {
        self.transaction.commit().await?;
        self.outbox.committed.extend(self.written);
        Ok(())
    }
}

async fn prepared(
    client: &impl GenericClient,
    statements: &mut HashMap<&'static str, Statement>,
    sql: &'static str,
) -> Result<Statement, DatabaseError> {
    if let Some(statement) = statements.get(sql) {
        return Ok(statement.clone());
    }
    let statement = client.prepare(sql).await?;
    statements.insert(sql, statement.clone());
    Ok(statement)
}

/// Connects to PostgreSQL, and runs `session`, the statements that set the session's parameters.
/// These are not part of the login, because connection poolers refuse or ignore them there.
pub(crate) async fn connect(config: &DatabaseConfig, session: &str) -> Result<Client, DatabaseError> {
    let mut postgres = Config::new();
    postgres
        .host(&config.host)
        .port(config.port)
        .dbname(&config.dbname)
        .user(&config.user)
        .password(config.password.expose_secret())
        .application_name("integrahub")
        .connect_timeout(CONNECT)
        .tcp_user_timeout(Duration::from_secs(10))
        .keepalives_idle(Duration::from_secs(30));
    let connecting = async {
        let client = match &config.tls {
            Tls::Off => {
                let (client, connection) = postgres.ssl_mode(SslMode::Disable).connect(NoTls).await?;
                drive(connection);
                client
            }
            Tls::VerifyFull { ca } => {
                let connector = tls::connector(ca.as_ref())?;
                let (client, connection) = postgres.ssl_mode(SslMode::Require).connect(connector).await?;
                drive(connection);
                client
            }
        };
        client.batch_execute(session).await?;
        Ok(client)
    };
    tokio::time::timeout(CONNECT, connecting).await.map_err(|_| DatabaseError::TimedOut)?.map_err(
        |error: DatabaseError| match error {
            // A refused login may work later: passwords rotate, servers start.
            DatabaseError::Rejected(error) => DatabaseError::Unavailable(error),
            error => error,
        },
    )
}

/// Spawns the task that does a connection's I/O for as long as its client lives. The client's next
/// call returns the error of a broken connection.
fn drive<F>(connection: F)
where
    F: Future<Output = Result<(), tokio_postgres::Error>> + Send + 'static,
{
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(error = %error, "a database connection ended: {error}");
        }
    });
}

#[cfg(test)]
mod tests {
    use test_support::postgres::Cluster;

    use super::*;

    #[tokio::test]
    async fn a_session_has_its_settings_before_its_first_statement() {
        let cluster = Cluster::start(&[]).await;
        let config = DatabaseConfig::from_url(&cluster.url()).unwrap();
        let mut connection = Connection::open(&config).await.unwrap();
        let mut session = connection.begin().await.unwrap();
        const SETTINGS: &str = "SELECT array[current_setting('statement_timeout'), current_setting('lock_timeout'), \
            current_setting('idle_in_transaction_session_timeout'), current_setting('client_connection_check_interval'), \
            current_setting('jit'), current_setting('timezone')]";
        let settings: Vec<String> = session.query(SETTINGS, &[]).await.unwrap()[0].get(0);
        assert_eq!(settings, ["20s", "15s", "10s", "1s", "off", "UTC"]);
    }

    #[tokio::test]
    async fn queries_that_are_sent_at_once_are_done_in_their_order() {
        const FIRST: &str = "SELECT set_config('test.value', '1', true)";
        const READ: &str = "SELECT current_setting('test.value', true)";
        const SECOND: &str = "SELECT set_config('test.value', '2', true)";
        const READ_AGAIN: &str = "SELECT current_setting('test.value', true) || ''";
        const WRONG: &str = "SELECT 1 / length($1::text)";
        let cluster = Cluster::start(&[]).await;
        let config = DatabaseConfig::from_url(&cluster.url()).unwrap();
        let mut connection = Connection::open(&config).await.unwrap();
        // One of them is already prepared, and still does not overtake the others.
        connection.begin().await.unwrap().query(READ_AGAIN, &[]).await.unwrap();
        let mut session = connection.begin().await.unwrap();
        let answers =
            session.query_each([(FIRST, &[]), (READ, &[]), (SECOND, &[]), (READ_AGAIN, &[])]).await.unwrap();
        let values: Vec<String> = answers.iter().map(|rows| rows[0].get(0)).collect();
        assert_eq!(values, ["1", "1", "2", "2"]);
        let failed = session.query_each([(WRONG, &[&""]), (FIRST, &[]), (SECOND, &[])]).await.unwrap_err();
        assert!(failed.to_string().contains("22012"), "{failed}");
    }
}
