//! Faults by restarts of the broker: after an orderly stop, and after a kill.

use std::sync::Arc;
use std::time::Instant;

use nix::sys::signal::Signal;
use tokio::sync::Mutex;

use crate::server::Broker;
use crate::support::access;
use crate::victims::Victims;

pub(crate) async fn stopped(broker: Arc<Mutex<Broker>>) {
    restarted("broker stopped", Signal::SIGTERM, &broker).await;
}

pub(crate) async fn killed(broker: Arc<Mutex<Broker>>) {
    restarted("broker killed", Signal::SIGKILL, &broker).await;
}

async fn restarted(fault: &'static str, signal: Signal, broker: &Mutex<Broker>) {
    let victims = Victims::prepare(fault, access(), rabbitmq::Settings::default()).await;
    let mut broker = broker.lock().await;
    // Mnesia keeps its log in memory for up to two seconds, so a node that is killed earlier
    // forgets a new queue. Versions without Mnesia write it at once.
    broker.ctl(&["eval", "catch mnesia:sync_log()."]).await;
    let blow = async {
        let at = Instant::now();
        broker.end(signal).await;
        at
    };
    let aftermath = victims.suffer(3_000, blow).await;
    broker.start_again().await;
    drop(broker);
    aftermath.settle().await;
}
