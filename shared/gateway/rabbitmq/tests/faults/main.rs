//! Tests of the RabbitMQ client under faults. Each fault is inflicted on a RabbitMQ that the tests
//! own. The tests check the operation's result and duration, count the messages on the queues by an
//! independent client, and run another operation, which has to work. At the end they search
//! everything that was logged for every secret that was used.
//!
//! One broker serves all faults, because starting it takes longer than most of them. The test
//! runner gives each test a separate process, so all faults are one test. This program is its own
//! harness: it lists itself to the runner, starts itself again as the process that is frozen, and
//! prints a table with times and counts. `docs/rabbitmq-faults.md` explains the results, and
//! `docs/measurements` has the table of a day. `FAULT=name` chooses the faults whose names contain
//! `name`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "these are tests"
)]

#[path = "../it/authority.rs"]
mod authority;
mod certificates;
mod closed;
mod frozen;
mod limits;
mod log;
mod network;
mod observer;
#[path = "../it/proxy.rs"]
mod proxy;
mod refused;
mod report;
mod restart;
mod server;
mod support;
mod victims;

use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use nix::sys::signal::Signal;
use tokio::sync::Mutex;

use crate::server::Broker;

/// Name of the single test in this program, as listed to the test runner.
const NAME: &str = "faults";

type Fault = Pin<Box<dyn Future<Output = ()> + Send>>;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    if has("--list") {
        // The runner asks for ignored tests separately; there are none.
        if !has("--ignored") {
            println!("{NAME}: test");
        }
        return ExitCode::SUCCESS;
    }
    log::init();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    match std::env::var(frozen::VICTIM) {
        Ok(login) => runtime.block_on(victim(&login)),
        Err(_) => runtime.block_on(test()),
    }
}

/// Runs this program as the process that is frozen. `login` has the broker's port and password.
/// Prints the report's rows to standard output and the log to standard error, for the process that
/// started it.
async fn victim(login: &str) -> ExitCode {
    let (port, password) = login.split_once(' ').expect("port and password");
    support::connect_to(port.parse().unwrap(), password);
    let result = tokio::spawn(frozen::victim()).await;
    report::rows().iter().for_each(|row| println!("{row}"));
    eprint!("{}", log::text());
    if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn test() -> ExitCode {
    // With characters that a URL encodes.
    let secret = |name: &str| format!("{name}@Pa$s/{:x}", std::process::id());
    let (password, wrong, outsider) = (secret("right"), secret("wrong"), secret("outsider"));
    let broker = Broker::start(&password, &outsider).await;
    support::connect_to(broker.port(), &password);
    let broker = Arc::new(Mutex::new(broker));

    let chosen = std::env::var("FAULT").unwrap_or_default();
    let mut failed = Vec::new();
    for (name, fault) in faults(&broker, &wrong, &outsider) {
        if !name.contains(&chosen) {
            continue;
        }
        let started = Instant::now();
        // A panic fails only this fault; the others still run.
        let result = tokio::spawn(fault).await;
        println!(
            "{:>6.1} s  {name}{}",
            started.elapsed().as_secs_f64(),
            if result.is_ok() { "" } else { "  FAILED" }
        );
        if result.is_err() {
            failed.push(name);
        }
    }
    broker.lock().await.end(Signal::SIGKILL).await;
    println!("\n{}\n", report::rows().join("\n"));

    let leaked = log::leaks(&[&password, &wrong, &outsider, support::BODY]);
    // The search finds what is there: the user's name may be logged.
    let is_searched = !chosen.is_empty() || log::leaks(&[server::USER]) == [server::USER];
    if failed.is_empty() && leaked.is_empty() && is_searched {
        return ExitCode::SUCCESS;
    }
    eprintln!("failed: {failed:?}; secrets in the log: {leaked:?}\n{}", log::text());
    ExitCode::FAILURE
}

fn faults(broker: &Arc<Mutex<Broker>>, wrong: &str, outsider: &str) -> Vec<(&'static str, Fault)> {
    let broker = || Arc::clone(broker);
    vec![
        ("refused logins", Box::pin(refused::logins(wrong.to_owned()))),
        ("missing queue", Box::pin(refused::missing_queue())),
        ("refused on a channel", Box::pin(refused::on_a_channel(outsider.to_owned()))),
        ("full queues", Box::pin(limits::full_queues())),
        ("oversized messages", Box::pin(limits::oversized_messages())),
        ("network cut without a FIN", Box::pin(network::silent())),
        ("network cut without a FIN, idle", Box::pin(network::silent_while_idle())),
        ("connections reset", Box::pin(network::broken())),
        ("publishes at any moment", Box::pin(network::publishes_at_any_moment())),
        ("commits at any moment", Box::pin(network::commits_at_any_moment())),
        ("frozen", Box::pin(frozen::by_a_signal())),
        ("closed by the server", Box::pin(closed::by_the_server(broker()))),
        ("not settled in time", Box::pin(closed::for_want_of_settlement(broker()))),
        ("certificates", Box::pin(certificates::of_both_sides(broker()))),
        ("memory alarm", Box::pin(limits::memory_alarm(broker()))),
        ("broker stopped", Box::pin(restart::stopped(broker()))),
        ("broker killed", Box::pin(restart::killed(broker()))),
    ]
}
