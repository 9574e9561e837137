//! Test of the effects of each operation on each type of queue, and of dead-lettering, by version
//! of RabbitMQ. It fails if a version behaves otherwise than the tables in `tables.md` say, from
//! which `docs/rabbitmq-queues.md` follows. `scripts/brokers.sh` installs the versions that Debian
//! has for other releases. `BROKERS=all` tests all of them; otherwise the machine's own version and
//! the newest are tested.

#![allow(clippy::print_stdout, reason = "it prints the tables")]

mod dead_letters;
mod operations;
mod queues;
mod server;
mod table;

use test_support::root::Root;

use crate::versions::server::Broker;
use crate::versions::table::{Head, Table};

/// Returns the installation directories of the versions to test: the machine's own, and those that
/// `scripts/brokers.sh` has installed. Prints the versions that are missing.
fn roots() -> Vec<Root> {
    let others: &[&str] = match std::env::var("BROKERS").as_deref() {
        Ok("all") => &["rabbitmq-4.0", "rabbitmq-4.3"],
        _ => &["rabbitmq-4.3"],
    };
    let others = others.iter().filter_map(|name| {
        let root = Root::usable(name);
        if root.is_none() {
            println!("SKIPPED: {name} cannot be used here; `scripts/brokers.sh make {name}` brings it, or says why not");
        }
        root
    });
    std::iter::once(Root::default()).chain(others).collect()
}

/// Titles of the first two columns of the table of operations in `tables.md`.
const OPERATIONS: Head = ["operation", "queue"];
const DEAD_LETTERS: Head = ["what happens", "queue"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_operation_does_on_each_version_what_the_documentation_says() {
    let (mut operations, mut dead_letters) = (Table::new(OPERATIONS), Table::new(DEAD_LETTERS));
    let columns = roots().into_iter().map(|root| {
        tokio::spawn(async move {
            let broker = Broker::start(root).await;
            let rows = (operations::all(&broker).await, dead_letters::all(&broker).await);
            (broker.version().await, rows)
        })
    });
    for column in columns.collect::<Vec<_>>() {
        let (version, rows) = column.await.unwrap();
        operations.add(&version, rows.0);
        dead_letters.add(&version, rows.1);
    }
    let mut differences = Vec::new();
    for (head, seen) in [(OPERATIONS, operations), (DEAD_LETTERS, dead_letters)] {
        println!("{seen}");
        let said = Table::of_the_documentation(head);
        let versions = seen.versions();
        assert!(
            versions.iter().any(|version| said.has(version)),
            "the documentation has none of {versions:?}"
        );
        differences.extend(said.differences(&seen));
    }
    assert!(
        differences.is_empty(),
        "tables.md says otherwise, and docs/rabbitmq-queues.md follows from it:\n{}",
        differences.join("\n")
    );
}
