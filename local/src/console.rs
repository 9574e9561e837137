//! Output for the person at the terminal.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the one place that prints")]

use std::fmt::Display;
use std::future::Future;
use std::time::{Duration, Instant};

/// Time after which a running step prints that it is still running.
const PATIENCE: Duration = Duration::from_secs(4);

pub(crate) fn say(line: impl Display) {
    println!("{line}");
}

/// Prints a line to standard error, after an empty line that sets it apart.
pub(crate) fn complain(line: impl Display) {
    eprintln!("\n{line}");
}

/// Waits for `work`. Meanwhile, prints every few seconds what it waits for, the time so far, and
/// the usual duration `usual`.
pub(crate) async fn during<T>(what: &str, usual: &str, work: impl Future<Output = T>) -> T {
    let start = Instant::now();
    let mut work = std::pin::pin!(work);
    loop {
        match tokio::time::timeout(PATIENCE, work.as_mut()).await {
            Ok(done) => return done,
            Err(_) => say(format_args!("    {what}: {} s so far ({usual})", start.elapsed().as_secs())),
        }
    }
}
