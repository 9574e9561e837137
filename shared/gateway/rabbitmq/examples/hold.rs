//! Holds a connection to RabbitMQ through its restarts, and prints every state that it comes to.
//!
//! ```text
//! cargo run -p rabbitmq --example hold -- --host 127.0.0.1 --seconds 60
//! ```
//!
//! What the command line leaves open comes from the environment (`AMQP_HOST`, `AMQP_PORT`,
//! `AMQP_USER`, `AMQP_PASSWORD`, `AMQP_VHOST`, `AMQP_TIMEOUT`, `AMQP_HEARTBEAT`, and for AMQPS
//! `AMQP_TLS`, `AMQP_CA_FILE`, `AMQP_CERT_FILE`, `AMQP_KEY_FILE`), the table `[amqp]` of
//! `config.toml`, and the defaults. There is no argument for the password: others can read a
//! command line. The log goes to standard output too.

#![allow(clippy::print_stdout, reason = "it is what the program is for")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use broker::Deadline;
use clap::Parser;
use rabbitmq::long_running::{
    ConnectionArguments, ConnectionConfig, ConnectionManager, ConnectionState, Host, Jitter, RetryPolicy,
};

/// Interval at which the example checks the connection.
const LOOK: Duration = Duration::from_secs(5);

/// Holds a connection to RabbitMQ.
#[derive(Debug, Parser)]
struct Arguments {
    #[arg(long)]
    host: Option<String>,
    #[arg(long)]
    port: Option<i64>,
    #[arg(long)]
    user: Option<String>,
    #[arg(long)]
    vhost: Option<String>,
    /// Seconds that one attempt to connect may take.
    #[arg(long)]
    timeout: Option<i64>,
    /// Seconds between heartbeats.
    #[arg(long)]
    heartbeat: Option<i64>,
    /// Connect under TLS.
    #[arg(long)]
    tls: bool,
    /// A PEM file with the authorities to trust instead of the system's.
    #[arg(long)]
    ca_file: Option<PathBuf>,
    /// A PEM file with a client certificate. Without user and password, it is the login.
    #[arg(long)]
    cert_file: Option<PathBuf>,
    /// A PEM file with the certificate's private key.
    #[arg(long)]
    key_file: Option<PathBuf>,
    /// The longest delay between two attempts to connect, in seconds.
    #[arg(long, default_value_t = 60.0)]
    max_delay: f64,
    /// Time to hold the connection, in seconds.
    #[arg(long, default_value_t = 3_600)]
    seconds: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    runtime::init_log("info");
    let arguments = Arguments::parse();
    let given = ConnectionArguments {
        host: arguments.host,
        port: arguments.port,
        user: arguments.user,
        password: None,
        vhost: arguments.vhost,
        timeout: arguments.timeout,
        heartbeat: arguments.heartbeat,
        tls: arguments.tls.then_some(true),
        ca_file: arguments.ca_file,
        cert_file: arguments.cert_file,
        key_file: arguments.key_file,
    };
    let config = match given.load() {
        Ok(config) => config.running_in(Host::Process),
        Err(error) => return refuse(&error),
    };
    let retry = match RetryPolicy::new(1.0, 2.0, arguments.max_delay) {
        Ok(retry) => retry.with_jitter(Jitter::Half),
        Err(error) => return refuse(&error),
    };
    hold(config, retry, Duration::from_secs(arguments.seconds)).await
}

fn refuse(error: &dyn std::error::Error) -> ExitCode {
    println!("{error}");
    ExitCode::FAILURE
}

async fn hold(config: ConnectionConfig, retry: RetryPolicy, time: Duration) -> ExitCode {
    println!("holding {} for {} s", config.get_connection_url(), time.as_secs());
    let deadline = Deadline::after(time);
    let manager = ConnectionManager::new(config)
        .with_retry_policy(retry)
        .on_connection_lost(|why| println!("lost: {why}"));
    let mut states = manager.subscribe();
    let print = async {
        while states.changed().await.is_ok() {
            println!("state: {}", *states.borrow_and_update());
        }
    };
    tokio::select! {
        // First, so that no state is missed when both are ready.
        biased;
        () = print => {}
        () = keep(&manager, deadline) => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    let is_held = manager.get_status() == ConnectionState::Connected;
    manager.disconnect().await;
    println!("state: {}", manager.get_status());
    if is_held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Holds the connection until `deadline`: checks it, and reconnects it if necessary, on each change
/// of its state and every few seconds. Returns early, after printing the error, if it cannot
/// reconnect.
async fn keep(manager: &ConnectionManager, deadline: Deadline) {
    let mut states = manager.subscribe();
    while !deadline.has_passed() {
        if let Err(error) = manager.ensure_connected(deadline).await {
            println!("no connection: {error}");
            return;
        }
        states.mark_unchanged();
        if manager.get_status() == ConnectionState::Connected {
            let _ = deadline.min(LOOK).run(states.changed()).await;
        }
    }
}
