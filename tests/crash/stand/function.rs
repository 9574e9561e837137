//! A function: as many environments as there are invocations at a time, kept warm between them.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use test_support::freeze::freeze;
use test_support::template::Deployed;

use super::environment::Environment;

/// Time that invocations may take to end.
const PATIENCE: Duration = Duration::from_secs(90);

/// Outcome of an invocation.
#[derive(Clone, Debug)]
pub(crate) enum Invoked {
    Answered(Bytes),
    /// The function said so itself, or its process ended.
    Failed(Bytes),
    TimedOut(Bytes),
}

/// Clones are the same function.
#[derive(Clone, Debug)]
pub(crate) struct Function(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    deployed: Deployed,
    idle: Mutex<Vec<Environment>>,
    busy: Mutex<Vec<Pid>>,
}

impl Function {
    /// A function with further variables.
    pub(crate) fn new(mut deployed: Deployed, further: &[(&str, String)]) -> Self {
        deployed.variables.extend(further.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        Self(Arc::new(Inner { deployed, idle: Mutex::default(), busy: Mutex::default() }))
    }

    /// Runs to its end also where the caller goes away, as in Lambda.
    pub(crate) async fn invoke(&self, payload: Bytes) -> Invoked {
        let this = self.clone();
        tokio::spawn(async move { this.run(payload).await }).await.unwrap()
    }

    async fn run(&self, payload: Bytes) -> Invoked {
        let warm = {
            let mut idle = self.0.idle.lock().unwrap();
            idle.retain_mut(Environment::is_alive);
            idle.pop()
        };
        let mut environment = match warm {
            Some(environment) => environment,
            None => Environment::start(&self.0.deployed).await,
        };
        let pid = environment.pid;
        self.0.busy.lock().unwrap().push(pid);
        let invoked = environment.invoke(payload, self.0.deployed.timeout).await;
        if environment.is_alive() && !matches!(invoked, Invoked::TimedOut(_)) {
            self.0.idle.lock().unwrap().push(environment);
        }
        self.0.busy.lock().unwrap().retain(|busy| *busy != pid);
        invoked
    }

    /// Sees to it that the next invocation finds a process.
    pub(crate) async fn warm(&self) {
        self.0.idle.lock().unwrap().retain_mut(Environment::is_alive);
        if self.0.idle.lock().unwrap().is_empty() {
            let environment = Environment::start(&self.0.deployed).await;
            self.0.idle.lock().unwrap().push(environment);
        }
    }

    /// Kills the processes that are at work.
    pub(crate) fn kill(&self) {
        let busy = self.busy();
        assert!(!busy.is_empty(), "nothing of {} is at work", self.0.deployed.binary);
        busy.into_iter().for_each(|pid| kill(pid, Signal::SIGKILL).unwrap());
    }

    /// Ends what is at work, if anything is, and says how many that were.
    pub(crate) fn kill_any(&self) -> usize {
        self.busy().into_iter().filter(|pid| kill(*pid, Signal::SIGKILL).is_ok()).count()
    }

    /// Freezes the processes that are at work.
    pub(crate) fn freeze(&self) -> Frozen {
        let busy = self.busy();
        assert!(!busy.is_empty(), "nothing of {} is at work", self.0.deployed.binary);
        busy.iter().copied().for_each(freeze);
        Frozen { processes: busy, since: Instant::now() }
    }

    /// Whether no process waits for an invocation any more.
    pub(crate) fn has_ended(&self) -> bool {
        let mut idle = self.0.idle.lock().unwrap();
        idle.retain_mut(Environment::is_alive);
        idle.is_empty()
    }

    /// The next invocation starts a process.
    pub(crate) fn end_idle(&self) {
        self.0.idle.lock().unwrap().clear();
    }

    fn busy(&self) -> Vec<Pid> {
        self.0.busy.lock().unwrap().clone()
    }

    /// Waits until nothing is at work.
    pub(crate) async fn settled(&self) {
        let settled = async {
            while !self.busy().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, settled).await.expect("every invocation ends");
    }
}

/// Processes that stand still.
#[derive(Debug)]
pub(crate) struct Frozen {
    processes: Vec<Pid>,
    since: Instant,
}

impl Frozen {
    /// Lets them go on, and says how long they stood still.
    pub(crate) fn thaw(self) -> Duration {
        self.processes.iter().for_each(|pid| kill(*pid, Signal::SIGCONT).unwrap());
        self.since.elapsed()
    }
}
