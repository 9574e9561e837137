//! Databases for single tests, in the PostgreSQL server of the local stack.

use tokio_postgres::NoTls;

pub(crate) struct Fresh {
    pub(crate) url: String,
    name: String,
}

impl Fresh {
    pub(crate) async fn create() -> Self {
        let name = format!("migrate_{}", uuid::Uuid::new_v4().simple());
        execute(&server(), &format!("CREATE DATABASE {name}")).await;
        let server = server();
        let (address, query) = server.split_once('?').unwrap();
        let (address, _) = address.rsplit_once('/').unwrap();
        Self { url: format!("{address}/{name}?{query}"), name }
    }

    pub(crate) async fn pretend_a_later_migration(&self, version: i32) {
        let statement = format!(
            "INSERT INTO refinery_schema_history (version, name, applied_on, checksum)
             VALUES ({version}, 'later', '2026-11-21T12:00:00Z', '1')"
        );
        execute(&self.url, &statement).await;
    }

    pub(crate) async fn drop(self) {
        // Not by FORCE, which may not end a worker of autovacuum on behalf of such a user.
        execute(&server(), &format!("DROP DATABASE {}", self.name)).await;
    }
}

fn server() -> String {
    std::env::var("DATABASE_URL").unwrap_or_else(|_| {
        panic!("DATABASE_URL is not set: run these tests by `make test`, which starts a server")
    })
}

async fn execute(url: &str, statement: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(statement).await.unwrap();
}
