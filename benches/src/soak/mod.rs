//! Well-behaved and hostile callers against a running stack, for as long as it is told.
//!
//! The well-behaved ones check every answer. Blocks without and with the hostile ones take turns,
//! so that both meet the same machine; their times are compared at the end. The memory of every
//! function is read all the while.

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
    /// Endpoint in the environment of this stack's functions, which tells them from others'
    #[arg(long, env = "AWS_ENDPOINT_URL")]
    endpoint: String,
    /// Seconds of the run, without the time that the last requests take
    #[arg(long, env = "SOAK_SECONDS", default_value_t = 1200)]
    seconds: u32,
    /// Callers that put and get messages, each with a queue of its own
    #[arg(long, env = "SOAK_CALLERS", default_value_t = 2)]
    callers: usize,
    /// Hostile callers, beside one that browses an empty queue for as long as it may
    #[arg(long, env = "SOAK_HOSTILE", default_value_t = 1)]
    hostile: usize,
}

/// Shorter runs show that answers are right; times and memory they only report.
const JUDGED_FROM: Duration = Duration::from_secs(120);
/// Number of turns that a block of each kind has.
const TURNS: u32 = 5;
/// The share of the run in which nothing is compared yet: functions start, and their memory grows
/// to its size.
const WARM_UP: u32 = 5;
/// The longest that a request may still run after its block.
const LAST_REQUESTS: Duration = Duration::from_secs(60);
/// The longest that a catalogue may still take.
const LAST_BATCHES: Duration = Duration::from_secs(180);
const BETWEEN_SAMPLES: Duration = Duration::from_secs(2);

/// State that all callers of a soak share, beside the times and counts of their requests.
#[derive(Debug, Default)]
struct Shared {
    wrong: Mutex<Vec<String>>,
    /// Id of a batch of the well-behaved callers.
    batch: OnceLock<String>,
    /// Read by every hostile request while it is under way.
    under_way: RwLock<()>,
}

impl Shared {
    /// Keeps what is wrong with an answer.
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

/// A warm-up, and then blocks without and with hostile callers. Between them the requests of the
/// block before come to their end, and what is measured then belongs to neither.
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
