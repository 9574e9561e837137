//! Simulation of a peak, event by event.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use fastrand::Rng;

use crate::limits::{API_BURST, DISPATCHED_TOGETHER, LOCK_SECONDS, POLLERS_PER_SECOND, PUTS_PER_SECOND};
use crate::question::Question;
use crate::resources::{Processor, Rate};
use crate::service::{Limited, Service, Step};
use crate::service_times::ServiceTimes;
use crate::timeline::Timeline;
use crate::worker::{Job, Usage, Work, Worker};

/// Simulation of a peak: the state while it runs, and its results afterwards.
#[derive(Debug)]
pub(crate) struct Simulation<'a> {
    question: &'a Question,
    pub(crate) service: Service<'a>,
    now: f64,
    events: Timeline<Event>,
    is_polling: bool,
    pub(crate) api: Rate,
    pub(crate) accept: Usage,
    pub(crate) dispatch: Worker,
    pub(crate) chunker: Worker,
    pub(crate) upsert: Worker,
    pub(crate) processor: Processor<Box<Job>>,
    /// Number of times that a job started or ended on the processor. An [`Event::Computed`] with a
    /// lower number is out of date, and is ignored.
    changes: u64,
    /// Reads from the database's storage, in pages. `log` stands for its writes of write-ahead log,
    /// in bytes.
    pub(crate) pages: Rate,
    pub(crate) write_ahead_log: Rate,
    /// Object storage: puts and tags of S3 objects.
    pub(crate) puts: Rate,
    /// Held locks of establishments, by the payload's index in `payloads`. Each entry has the jobs
    /// that wait for the lock.
    locks: HashMap<u32, VecDeque<Box<Job>>>,
    pub(crate) lock_seconds: f64,
    /// Part of `lock_seconds`: the waits at whose end messages waited for an execution of `upsert`.
    pub(crate) lock_seconds_with_backlog: f64,
    /// Number of lock waits above [`LOCK_SECONDS`], after which `upsert` would send the chunk's
    /// message again.
    pub(crate) long_lock_waits: u32,
    pub(crate) payloads: Vec<Payload>,
}

#[derive(Debug)]
enum Event {
    Request(u32),
    Notified(u32),
    Step(Box<Job>),
    /// Completion of the job that the processor finishes next. The number is the simulation's
    /// `changes` when the event was scheduled. The event is out of date if `changes` differs.
    Computed(u64),
    /// Time at which each SQS trigger may have one more poller.
    Poll,
}

/// Catalogue that a pharmacy sends, with the progress of its batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payload {
    /// Index of the payload's tenant, which is its message group. The flooding tenant has the last
    /// index.
    pub(crate) tenant: u32,
    pub(crate) requested: f64,
    pub(crate) stored: f64,
    /// Number of the batch's chunks that are not written yet.
    left: u32,
    /// Time in simulated seconds at which the batch ended; `NaN` until then.
    pub(crate) ended: f64,
}

impl<'a> Simulation<'a> {
    /// Simulates a peak from the first request to the end of the last batch.
    pub(crate) fn run(question: &'a Question, times: &'a ServiceTimes) -> Self {
        let (pages, log) = times.storage.limits(question.database.is_serverless);
        let mut simulation = Self {
            question,
            service: Service::new(question, times),
            now: 0.0,
            events: Timeline::default(),
            is_polling: false,
            api: Rate::new(f64::from(question.api_rate), API_BURST),
            accept: Usage::default(),
            dispatch: Worker::new(question.upsert_concurrency, times.queues, question.seed)
                .receiving(DISPATCHED_TOGETHER),
            chunker: Worker::new(question.chunker_concurrency(), times.queues, question.seed.wrapping_add(1)),
            upsert: Worker::new(question.upsert_concurrency, times.queues, question.seed.wrapping_add(2)),
            processor: Processor::new(question.local_cores.map_or(question.database.vcpus, f64::from)),
            changes: 0,
            pages: Rate::new(pages, 0.0),
            write_ahead_log: Rate::new(log, 0.0),
            puts: Rate::new(PUTS_PER_SECOND, 0.0),
            locks: HashMap::new(),
            lock_seconds: 0.0,
            lock_seconds_with_backlog: 0.0,
            long_lock_waits: 0,
            payloads: Vec::new(),
        };
        simulation.arrive();
        while let Some((now, event)) = simulation.events.pop() {
            simulation.now = now;
            simulation.handle(event);
        }
        simulation
    }

    /// Schedules the requests of all pharmacies at random times within the window, and those of the
    /// flooding tenant at its beginning.
    fn arrive(&mut self) {
        let mut random = Rng::with_seed(self.question.seed);
        let (pharmacies, window) = (self.question.pharmacies, self.question.window * 60.0);
        let flood = (0..self.question.flood_payloads()).map(|_| (0.0, pharmacies));
        let mut arrivals: Vec<_> =
            flood.chain((0..pharmacies).map(|tenant| (random.f64() * window, tenant))).collect();
        arrivals.sort_by(|left, right| left.0.total_cmp(&right.0));
        for (number, (at, tenant)) in (0..).zip(arrivals) {
            let requested = at + self.api.take(at, 1.0);
            let left = self.question.chunks();
            self.payloads.push(Payload { tenant, requested, stored: f64::NAN, left, ended: f64::NAN });
            self.events.push(requested, Event::Request(number));
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Request(payload) => {
                let is_new = self.accept.begin();
                self.begin(payload, Work::Accept, is_new);
            }
            Event::Notified(payload) => {
                // Nothing says yet whose payload it is.
                if self.question.without_groups {
                    self.chunker.send(self.now, None, (payload, Work::Cut));
                } else {
                    self.dispatch.send(self.now, None, (payload, Work::Dispatch));
                }
                self.receive();
            }
            Event::Step(job) => self.step(job),
            Event::Computed(changes) if changes == self.changes => {
                let job = self.processor.finish(self.now);
                self.compute_next();
                job.into_iter().for_each(|job| self.step(job));
            }
            Event::Computed(_) => {}
            Event::Poll => {
                self.is_polling = false;
                self.receive();
            }
        }
    }

    /// Starts as many invocations as waiting messages, pollers and the account's concurrency allow.
    fn receive(&mut self) {
        loop {
            let dispatches = self.dispatch.usage.running.div_ceil(DISPATCHED_TOGETHER);
            let running = self.accept.running + self.chunker.usage.running + self.upsert.usage.running;
            if running + dispatches >= self.question.account_concurrency {
                break;
            }
            // Chunks first: what was begun is ended.
            let received = self.upsert.receive(self.now).or_else(|| self.chunker.receive(self.now));
            let received = received.or_else(|| self.dispatch.receive(self.now));
            let Some(((payload, work), is_new)) = received else { break };
            self.begin(payload, work, is_new);
        }
        let workers = [&self.dispatch, &self.chunker, &self.upsert];
        if !self.is_polling && workers.iter().any(|worker| worker.wants_pollers(self.now)) {
            self.is_polling = true;
            self.events.push(self.now + 1.0 / POLLERS_PER_SECOND, Event::Poll);
        }
    }

    fn begin(&mut self, payload: u32, work: Work, is_new: bool) {
        let (idle, begin) = self.service.begin(is_new);
        let mut steps = self.service.steps(work);
        steps.reverse();
        steps.extend([begin, Step::Wait(idle)]);
        let (received, started) = (self.now, self.now + idle);
        let job = Job { payload, work, steps, received, started, locked_out: 0.0, alone: 0.0 };
        self.events.push(self.now, Event::Step(Box::new(job)));
    }

    /// Runs a job's steps up to the first one that takes time, and schedules the end of that step.
    fn step(&mut self, mut job: Box<Job>) {
        let now = self.now;
        while let Some(step) = job.steps.pop() {
            let seconds = match step {
                Step::Wait(seconds) => {
                    job.alone += seconds;
                    seconds
                }
                Step::Take(what, amount, seconds) => {
                    job.alone += seconds;
                    self.limited(what).take(now, amount).max(seconds)
                }
                Step::Compute(cpu) => {
                    job.alone += cpu;
                    self.processor.submit(now, cpu, job);
                    return self.compute_next();
                }
                Step::Unlock => {
                    self.unlock(job.payload);
                    0.0
                }
                Step::Lock => match self.locks.entry(job.payload) {
                    Entry::Occupied(mut waiting) => {
                        job.locked_out = now;
                        return waiting.get_mut().push_back(job);
                    }
                    Entry::Vacant(free) => {
                        free.insert(VecDeque::new());
                        0.0
                    }
                },
            };
            if seconds > 0.0 {
                return self.events.push(now + seconds, Event::Step(job));
            }
        }
        self.finish(job);
    }

    const fn limited(&mut self, what: Limited) -> &mut Rate {
        match what {
            Limited::Pages => &mut self.pages,
            Limited::WriteAheadLog => &mut self.write_ahead_log,
            Limited::Puts => &mut self.puts,
        }
    }

    fn unlock(&mut self, payload: u32) {
        if let Some(next) = self.locks.get_mut(&payload).and_then(VecDeque::pop_front) {
            let waited = self.now - next.locked_out;
            self.lock_seconds += waited;
            self.lock_seconds_with_backlog += if self.upsert.queue.waiting > 0 { waited } else { 0.0 };
            self.long_lock_waits += u32::from(waited > LOCK_SECONDS);
            self.events.push(self.now, Event::Step(next));
        } else {
            self.locks.remove(&payload);
        }
    }

    /// Schedules the completion of the job that the processor finishes next.
    fn compute_next(&mut self) {
        self.changes += 1;
        if let Some(at) = self.processor.next() {
            self.events.push(at, Event::Computed(self.changes));
        }
    }

    fn finish(&mut self, mut job: Box<Job>) {
        let number = usize::try_from(job.payload).unwrap_or(usize::MAX);
        let Some(payload) = self.payloads.get_mut(number) else { return };
        let group = (!self.question.without_groups).then_some(payload.tenant);
        match job.work {
            Work::Accept => {
                payload.stored = self.now;
                self.accept.end(self.now, &job);
                self.events.push(self.now + self.service.notification(), Event::Notified(job.payload));
            }
            Work::Dispatch => {
                self.dispatch.end(self.now, None, &job);
                self.chunker.send(self.now, group, (job.payload, Work::Cut));
            }
            Work::Cut => {
                self.chunker.end(self.now, group, &job);
                for chunk in 0..self.question.chunks() {
                    self.upsert.send(self.now, group, (job.payload, Work::Write(chunk)));
                }
            }
            Work::Write(_) => {
                payload.left -= 1;
                if payload.left == 0 {
                    job.work = Work::Finalize;
                    job.steps = self.service.steps(Work::Finalize);
                    job.steps.reverse();
                    return self.events.push(self.now, Event::Step(job));
                }
                self.upsert.end(self.now, group, &job);
            }
            Work::Finalize => {
                payload.ended = self.now;
                self.upsert.end(self.now, group, &job);
            }
        }
        self.receive();
    }
}
