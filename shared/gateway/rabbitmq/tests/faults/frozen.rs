//! Fault of a process that is stopped for longer than the heartbeat, as Lambda freezes a function
//! between invocations.

use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use test_support::freeze::freeze;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::Command;

use crate::support::{access, heartbeat, login};
use crate::victims::Victims;
use crate::{log, report};

/// Environment variable with the broker's port and password. If set, this program is the process
/// that is frozen.
pub(crate) const VICTIM: &str = "FAULTS_VICTIM";
const READY: &str = "ready";
const HEARTBEAT_SECONDS: u64 = 1;
/// Duration for which the process is stopped. The broker closes a connection two to three
/// heartbeats of 1 s after it last received data.
const FREEZE: Duration = Duration::from_secs(5);

/// Starts this program again as a process with open connections, stops it by a signal for
/// [`FREEZE`], and checks that its operations then find the closed connections.
pub(crate) async fn by_a_signal() {
    let (port, _, password) = login();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .env(VICTIM, format!("{port} {password}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("start the process to freeze");
    let pid = Pid::from_raw(i32::try_from(child.id().expect("it runs")).unwrap());
    let mut logged = String::new();
    let mut stderr = child.stderr.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let talk = async {
        while let Some(line) = lines.next_line().await.expect("a line") {
            if line == READY {
                freeze(pid);
                tokio::time::sleep(FREEZE).await;
                kill(pid, Signal::SIGCONT).expect("unfreeze");
            } else {
                report::add(line);
            }
        }
    };
    let (_, ()) = tokio::join!(stderr.read_to_string(&mut logged), talk);
    let status = child.wait().await.expect("wait");
    log::note(&logged);
    assert!(status.success(), "the frozen process failed:\n{logged}");
}

/// Opens connections in the process that is frozen, waits for the freeze, and checks the operations
/// after it.
pub(crate) async fn victim() {
    let settings = heartbeat(HEARTBEAT_SECONDS);
    let victims = Victims::prepare("frozen for longer than the heartbeat", access(), settings).await;
    let blow = async {
        // Read first, so that no freeze falls between two readings of the clock.
        let mut last = Instant::now();
        println!("{READY}");
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let now = Instant::now();
            if now - last > FREEZE / 2 {
                return now;
            }
            last = now;
        }
    };
    victims.suffer(3_000, blow).await.settle().await;
}
