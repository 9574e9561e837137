use crate::fair_queue::FairQueue;
use crate::limits::{FIRST_POLLERS, MOST_POLLERS, POLLERS_PER_SECOND};
use crate::service::Step;
use crate::service_times::Queues;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    Accept,
    Dispatch,
    Cut,
    Write(u32),
    Finalize,
}

/// Simulated invocation of a function.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) payload: u32,
    pub(crate) work: Work,
    /// Steps that are still to do, in reverse order: the next one is the last element.
    pub(crate) steps: Vec<Step>,
    pub(crate) received: f64,
    /// Simulated time in seconds from which on the invocation is billed.
    pub(crate) started: f64,
    /// Simulated time in seconds at which the invocation began to wait for a lock; 0 before its
    /// first wait.
    pub(crate) locked_out: f64,
    /// Seconds that the invocation would take if it shared no resource with others.
    pub(crate) alone: f64,
}

/// Use of one function's execution environments in the simulation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) running: u32,
    pub(crate) most: u32,
    pub(crate) invocations: f64,
    /// Sum of the seconds for which environments ran invocations.
    pub(crate) busy: f64,
    /// Seconds that all invocations would take if they shared no resource.
    pub(crate) alone: f64,
    pub(crate) billed: f64,
}

/// Simulated function, with the SQS queue that invokes it.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) queue: FairQueue<(u32, Work)>,
    /// Maximum number of messages that all executions of the function process at the same time.
    pub(crate) limit: f64,
    /// Maximum number of messages that one invocation of the function receives.
    together: f64,
    /// Simulated time in seconds at which the first message was sent, from which on the trigger
    /// adds pollers; `None` before.
    since: Option<f64>,
    pub(crate) usage: Usage,
}

impl Usage {
    /// Counts the start of an invocation. Returns true if it needs a new execution environment.
    pub(crate) fn begin(&mut self) -> bool {
        let is_new = self.running >= self.most;
        self.running += 1;
        self.most = self.most.max(self.running);
        self.invocations += 1.0;
        is_new
    }

    pub(crate) fn end(&mut self, now: f64, job: &Job) {
        self.running -= 1;
        self.busy += now - job.received;
        self.alone += job.alone;
        self.billed += now - job.started;
    }
}

impl Worker {
    pub(crate) fn new(limit: u32, queues: Queues, seed: u64) -> Self {
        let queue = FairQueue::new(queues, seed);
        let limit = f64::from(limit).min(MOST_POLLERS);
        Self { queue, limit, together: 1.0, since: None, usage: Usage::default() }
    }

    /// Sets the number of messages that each invocation of the function receives, and multiplies
    /// the limit by it.
    pub(crate) fn receiving(self, together: u32) -> Self {
        let together = f64::from(together);
        Self { limit: self.limit * together, together, ..self }
    }

    pub(crate) fn send(&mut self, now: f64, group: Option<u32>, message: (u32, Work)) {
        self.since.get_or_insert(now);
        self.queue.send(now, group, message);
    }

    /// Receives a message and starts its invocation, if a message waits and a poller is free. `now`
    /// is the simulated time in seconds. Returns the index of the message's payload, the work to
    /// do, and a flag that is true if the invocation needs a new execution environment.
    pub(crate) fn receive(&mut self, now: f64) -> Option<((u32, Work), bool)> {
        if f64::from(self.usage.running) + 1.0 > self.pollers(now) {
            return None;
        }
        Some((self.queue.receive(now)?, self.usage.begin()))
    }

    pub(crate) fn end(&mut self, now: f64, group: Option<u32>, job: &Job) {
        self.queue.done(now, group, now - job.received);
        self.usage.end(now, job);
    }

    /// Returns whether messages wait and the trigger has fewer pollers than its maximum. `now` is
    /// the simulated time in seconds.
    pub(crate) fn wants_pollers(&self, now: f64) -> bool {
        self.queue.waiting > 0 && self.pollers(now) < self.limit
    }

    fn pollers(&self, now: f64) -> f64 {
        let grown = self.since.map_or(0.0, |since| (now - since) * POLLERS_PER_SECOND);
        self.limit.min((FIRST_POLLERS + grown) * self.together)
    }
}
