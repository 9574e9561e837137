//! Soak: well-behaved and hostile callers send requests to a running stack for a given time.
//!
//! Well-behaved callers check every response. Blocks of time without and with hostile callers
//! alternate, so that both see the same machine; the durations of requests in both are compared at
//! the end. The memory of every function is sampled all the time.

mod honest;
mod hostile;
mod memory;
mod report;
mod shapes;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use broker::chain;
use clap::Args;
use tokio::sync::{RwLock, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use crate::callers::{Caller, Phase};
use crate::clients::broker::Queues;
use crate::error::Error;
use crate::http_client::Http;
use crate::soak::memory::Memory;
use crate::soak::report::conclude;

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[arg(long, env = "API")]
    base_url: String,
    #[arg(long, env = "AMQP_URL", hide_env_values = true)]
    amqp_url: String,
    /// AWS endpoint of this stack's functions, by which their processes are recognized
    #[arg(long, env = "AWS_ENDPOINT_URL")]
    endpoint: String,
    /// Number of seconds of the run, without the time that the last requests take
    #[arg(long, env = "SOAK_SECONDS", default_value_t = 1200)]
    seconds: u32,
    /// Number of well-behaved callers that put and get messages, each on its own queue
    #[arg(long, env = "SOAK_CALLERS", default_value_t = 2)]
    callers: usize,
    /// Number of hostile callers, besides one that only browses an empty queue
    #[arg(long, env = "SOAK_HOSTILE", default_value_t = 1)]
    hostile: usize,
}

/// Minimum length of a run whose times and memory have to meet the goals. A shorter run only checks
/// that responses are right.
const JUDGED_FROM: Duration = Duration::from_secs(120);
/// Number of blocks without hostile callers, and of blocks with them.
const TURNS: u32 = 5;
/// Divisor of the run's length that gives the length of the warm-up. Measurements begin after the
/// warm-up, when functions have started and their memory has grown to its usual size.
const WARM_UP: u32 = 5;
/// Maximum time for a hostile caller's last request after the end of the run.
const LAST_REQUESTS: Duration = Duration::from_secs(60);
/// Maximum time for a well-behaved caller's last batch after the end of the run.
const LAST_BATCHES: Duration = Duration::from_secs(180);
const BETWEEN_SAMPLES: Duration = Duration::from_secs(2);

/// State that all callers of a soak share, apart from the durations and outcomes of their requests.
#[derive(Debug, Default)]
struct Shared {
    wrong: Mutex<Vec<String>>,
    /// Id of a batch that a well-behaved caller created. Hostile callers try to read its errors and
    /// to replay it with another tenant's key.
    batch: OnceLock<String>,
    /// Lock that each hostile request holds for reading until its response. Write access means that
    /// no such request is in flight.
    under_way: RwLock<()>,
}

impl Shared {
    /// Returns a checked value. An error is added to the list of wrong responses, and `None` is
    /// returned.
    fn check<T>(&self, checked: Result<T, Error>) -> Option<T> {
        let keep = |wrong: Error| {
            self.wrong.lock().unwrap_or_else(PoisonError::into_inner).push(chain(&*wrong));
        };
        checked.map_err(keep).ok()
    }
}

/// Caller of a soak, well-behaved or hostile.
#[derive(Clone, Debug)]
struct Soaker {
    caller: Caller,
    shared: Arc<Shared>,
}

pub(crate) async fn run(options: &Options) -> Result<(), Error> {
    let whole = Duration::from_secs(options.seconds.into());
    let queues = Queues::open(&options.amqp_url).await?;
    let names: Vec<_> = (0..options.callers).map(|caller| format!("soak.{caller}")).collect();
    for name in names.iter().map(String::as_str).chain(shapes::QUEUES) {
        queues.create(name).await?;
    }
    let (phase, phases) = watch::channel(Phase::Unmeasured);
    let caller = Caller { http: Http::new(&options.base_url)?, tally: Arc::default(), phase: phases };
    let soaker = Soaker { caller, shared: Arc::default() };

    let mut honest = JoinSet::new();
    for name in &names {
        honest.spawn(soaker.clone().put_and_get(name.clone()));
    }
    honest.spawn(soaker.clone().load());
    honest.spawn(soaker.clone().look());
    let mut hostile = JoinSet::new();
    for number in 1..=options.hostile {
        hostile.spawn(soaker.clone().attack(number));
    }
    hostile.spawn(soaker.clone().browse());
    let Soaker { caller, shared } = soaker;
    let mut memory = Memory::of_functions_at(&options.endpoint);
    let blocks = take_turns(whole, &phase, &shared);
    let sampled = async {
        loop {
            memory.sample();
            sleep(BETWEEN_SAMPLES).await;
        }
    };
    tokio::select! {
        () = blocks => {}
        () = sampled => {}
    }
    phase.send_replace(Phase::Over);
    for (callers, patience) in [(&mut hostile, LAST_REQUESTS), (&mut honest, LAST_BATCHES)] {
        let ended = timeout(patience, async { while callers.join_next().await.is_some() {} }).await;
        let late = |_| format!("a caller does not come to its end within {} s", patience.as_secs()).into();
        shared.check(ended.map_err(late));
    }
    for name in names.iter().map(String::as_str).chain(shapes::QUEUES) {
        queues.delete(name).await?;
    }
    let wrong = shared.wrong.lock().unwrap_or_else(PoisonError::into_inner);
    conclude(&caller.tally, &memory, &wrong, whole)
}

/// Switches the phases of a soak: a warm-up, then alternating blocks without and with hostile
/// callers. Between two blocks, hostile requests that are still in flight may end; that time is not
/// measured.
async fn take_turns(whole: Duration, phase: &watch::Sender<Phase>, shared: &Shared) {
    let begin = Instant::now();
    let warm_up = whole / WARM_UP;
    let block = (whole - warm_up) / (2 * TURNS);
    sleep(warm_up / 2).await;
    // The hostile ones' code paths warm up too.
    phase.send_replace(Phase::HostileWarmUp);
    sleep_until(begin + warm_up).await;
    for turn in 0..2 * TURNS {
        let end = begin + warm_up + block * (turn + 1);
        let next = if turn % 2 == 0 { Phase::Calm } else { Phase::Hostile };
        phase.send_replace(Phase::Unmeasured);
        // At most as long as the block lasts.
        drop(timeout_at(end, shared.under_way.write()).await);
        phase.send_replace(next);
        sleep_until(end).await;
    }
}
