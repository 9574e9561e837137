//! Lambda function in the crash tests: a process for each concurrent invocation, which is kept for
//! later invocations.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use test_support::freeze::freeze;
use test_support::template::Deployed;

use super::environment::Environment;

/// Maximum time until all invocations have ended.
const PATIENCE: Duration = Duration::from_secs(90);

/// Outcome of an invocation of a function.
#[derive(Clone, Debug)]
pub(crate) enum Invoked {
    Answered(Bytes),
    /// The function reported an error, or its process ended. Contains the error as JSON.
    Failed(Bytes),
    TimedOut(Bytes),
}

/// Lambda function that a test invokes. Clones share its processes.
#[derive(Clone, Debug)]
pub(crate) struct Function(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    deployed: Deployed,
    idle: Mutex<Vec<Environment>>,
    busy: Mutex<Vec<Pid>>,
}

impl Function {
    /// Makes a function as deployed, with further environment variables. Starts no process yet.
    pub(crate) fn new(mut deployed: Deployed, further: &[(&str, String)]) -> Self {
        deployed.variables.extend(further.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        Self(Arc::new(Inner { deployed, idle: Mutex::default(), busy: Mutex::default() }))
    }

    /// Invokes the function. The invocation runs to its end even if this future is dropped, as in
    /// Lambda.
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

    /// Starts a process if no idle one is left, so that the next invocation does not wait for one.
    pub(crate) async fn warm(&self) {
        self.0.idle.lock().unwrap().retain_mut(Environment::is_alive);
        if self.0.idle.lock().unwrap().is_empty() {
            let environment = Environment::start(&self.0.deployed).await;
            self.0.idle.lock().unwrap().push(environment);
        }
    }

    /// Kills the processes that execute an invocation. Panics if there are none.
    pub(crate) fn kill(&self) {
        let busy = self.busy();
        assert!(!busy.is_empty(), "nothing of {} is at work", self.0.deployed.binary);
        busy.into_iter().for_each(|pid| kill(pid, Signal::SIGKILL).unwrap());
    }

    /// Kills the processes that execute an invocation, if there are any. Returns their number.
    pub(crate) fn kill_any(&self) -> usize {
        self.busy().into_iter().filter(|pid| kill(*pid, Signal::SIGKILL).is_ok()).count()
    }

    /// Stops the processes that execute an invocation, by a signal. Panics if there are none.
    pub(crate) fn freeze(&self) -> Frozen {
        let busy = self.busy();
        assert!(!busy.is_empty(), "nothing of {} is at work", self.0.deployed.binary);
        busy.iter().copied().for_each(freeze);
        Frozen { processes: busy, since: Instant::now() }
    }

    /// Returns true if no idle process of the function is alive.
    pub(crate) fn has_ended(&self) -> bool {
        let mut idle = self.0.idle.lock().unwrap();
        idle.retain_mut(Environment::is_alive);
        idle.is_empty()
    }

    /// Ends all idle processes, so that the next invocation starts a new one.
    pub(crate) fn end_idle(&self) {
        self.0.idle.lock().unwrap().clear();
    }

    fn busy(&self) -> Vec<Pid> {
        self.0.busy.lock().unwrap().clone()
    }

    /// Waits until no invocation is in progress. Panics after [`PATIENCE`].
    pub(crate) async fn settled(&self) {
        let settled = async {
            while !self.busy().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, settled).await.expect("every invocation ends");
    }
}

/// Processes that [`Function::freeze`] has stopped.
#[derive(Debug)]
pub(crate) struct Frozen {
    processes: Vec<Pid>,
    since: Instant,
}

impl Frozen {
    /// Lets the processes continue, and returns the time for which they were stopped.
    pub(crate) fn thaw(self) -> Duration {
        self.processes.iter().for_each(|pid| kill(*pid, Signal::SIGCONT).unwrap());
        self.since.elapsed()
    }
}
