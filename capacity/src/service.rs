//! Steps of each kind of invocation in the simulation, with the time or resources that each step
//! takes.

use crate::limits::{
    ACCEPT_MB, CHUNKER_MB, MB_OF_VCPU, MESSAGES_OF_CALL, PAGE_BYTES, PUTS_AT_ONCE, TAGS_AT_ONCE,
};
use crate::question::Question;
use crate::service_times::{ByChange, ServiceTimes};
use crate::worker::Work;

/// Step of a simulated invocation: a wait, or the use of one resource.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Wait of this many seconds, which other jobs do not lengthen.
    Wait(f64),
    /// Work of this many CPU seconds on the shared processor. It is a query of the database, or on
    /// a single machine also work of a function.
    Compute(f64),
    /// Use of a limited resource: which one, the amount, and the seconds that it takes at least.
    Take(Limited, f64, f64),
    /// Acquisition of the establishment's lock, which the invocation holds until [`Step::Unlock`].
    Lock,
    Unlock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limited {
    /// Reads of the database's storage, counted in pages.
    Pages,
    /// Writes of the database to its write-ahead log, counted in bytes.
    WriteAheadLog,
    /// Puts and tags of S3 objects, counted in requests.
    Puts,
}

/// Model of the functions: returns the steps of each kind of invocation for the flags in
/// `question`.
#[derive(Debug)]
pub(crate) struct Service<'a> {
    question: &'a Question,
    times: &'a ServiceTimes,
}

impl<'a> Service<'a> {
    pub(crate) const fn new(question: &'a Question, times: &'a ServiceTimes) -> Self {
        Self { question, times }
    }

    pub(crate) fn steps(&self, work: Work) -> Vec<Step> {
        match work {
            Work::Accept => self.accept(),
            // Sends a notification again, with its tenant's message group.
            Work::Dispatch => vec![self.wait(self.times.waits.dispatch)],
            Work::Cut => self.cut(),
            Work::Write(chunk) => self.write(f64::from(self.question.rows(chunk))),
            Work::Finalize => self.finalize(),
        }
    }

    /// Returns the steps by which `product-ingest` accepts a catalogue, from the request to the
    /// stored payload.
    fn accept(&self) -> Vec<Step> {
        let (functions, waits) = (self.times.functions, self.times.waits);
        // An upload is announced, and its sender puts the object.
        let (items, put) = if self.question.is_uploaded(self.times.sizes) {
            (0.0, 0.0)
        } else {
            (self.items(), waits.object_put)
        };
        let cpu = functions.accept_ms + functions.accept_us_per_item * items * 1e-3;
        let wait = 3.0 * waits.table_write + put;
        vec![self.wait(wait), self.compute(cpu, ACCEPT_MB, 1.0), self.take(Limited::Puts, 1.0, 0.0)]
    }

    /// Returns the steps by which `chunker` cuts a payload into chunks, seals its batch and
    /// announces the chunks.
    fn cut(&self) -> Vec<Step> {
        let (functions, waits) = (self.times.functions, self.times.waits);
        let chunks = f64::from(self.question.chunks());
        let cpu = functions.cut_us_per_item * self.items() * 1e-3 + functions.object_ms * chunks;
        vec![
            self.wait(waits.object_get),
            self.compute(cpu, CHUNKER_MB, functions.cut_parallel),
            // Chunks are stored while the next ones are cut, so only the last ones are waited for.
            self.take(Limited::Puts, chunks, waits.object_put * (chunks / PUTS_AT_ONCE).min(1.0)),
            self.wait(waits.round_trips * waits.round_trip + waits.commit),
            self.query(self.times.database.seal_ms),
            self.wait(waits.queue_send * (chunks / MESSAGES_OF_CALL).ceil()),
        ]
    }

    /// Returns the steps by which `upsert` writes a chunk of `rows` rows to the database.
    fn write(&self, rows: f64) -> Vec<Step> {
        let (functions, database, waits) = (self.times.functions, self.times.database, self.times.waits);
        let mean = |figure: ByChange| self.question.mean(figure) * rows;
        let memory = f64::from(self.question.memory);
        let there = if self.is_cached() { 0.0 } else { 1.0 - self.question.new };
        let pages = rows * there * self.times.sizes.row / PAGE_BYTES;
        let mut steps = vec![
            self.wait(waits.object_get),
            self.compute(functions.object_ms, memory, 1.0),
            self.wait(waits.round_trips * waits.round_trip),
            self.compute(mean(functions.write_us_per_row) * 1e-3, memory, 1.0),
            self.take(Limited::Pages, pages, pages * self.times.storage.page_read_ms),
            self.query(mean(database.us_per_row) * 1e-3),
            self.take(Limited::WriteAheadLog, mean(database.log_bytes_per_row), waits.commit),
        ];
        // Chunks that change nothing share their locks.
        if self.question.changed + self.question.new > 0.0 {
            steps.insert(2, Step::Lock);
            steps.push(Step::Unlock);
        }
        steps
    }

    /// Returns the steps by which `upsert` ends a batch: it deactivates the products that a full
    /// load lacks, and tags the batch's objects.
    fn finalize(&self) -> Vec<Step> {
        let (functions, waits) = (self.times.functions, self.times.waits);
        let tags = f64::from(self.question.chunks()) + 1.0;
        let tag = self.take(Limited::Puts, tags, waits.object_put * (tags / TAGS_AT_ONCE).ceil());
        if self.question.delta {
            return vec![tag];
        }
        let memory = f64::from(self.question.memory);
        vec![
            Step::Lock,
            self.wait(waits.round_trips * waits.round_trip + waits.commit),
            self.query(self.times.database.finalize_us_per_row * self.items() * 1e-3),
            Step::Unlock,
            self.compute(functions.finalize_us_per_row * self.items() * 1e-3, memory, 1.0),
            tag,
        ]
    }

    /// Returns the beginning of an invocation: the seconds before it that are not billed, and the
    /// first billed step. `is_new` is true if it needs a new execution environment.
    pub(crate) fn begin(&self, is_new: bool) -> (f64, Step) {
        if self.is_local() {
            let local = &self.times.local;
            return (local.poll_ms * 1e-3, Step::Compute(local.invocation_ms * 1e-3));
        }
        (
            self.times.waits.between_invocations * 1e-3,
            self.wait(if is_new { self.times.waits.cold_start } else { 0.0 }),
        )
    }

    /// Returns the seconds from a stored payload until its S3 notification is in the queue.
    pub(crate) fn notification(&self) -> f64 {
        if self.is_local() { 0.0 } else { self.times.waits.notification * 1e-3 }
    }

    /// Returns the size in bytes of all products in the database, and that of the history of all
    /// loads.
    pub(crate) fn stored_bytes(&self) -> (f64, f64) {
        let products = f64::from(self.question.payloads()) * self.items();
        let history = self.times.sizes.history * f64::from(self.question.history_days);
        (products * self.times.sizes.row, products * history)
    }

    /// Returns whether all products fit into the memory that the database keeps between peaks. If
    /// not, a daily pass over all products evicts each page before it is read again.
    pub(crate) fn is_cached(&self) -> bool {
        let cache = self.question.database.kept_memory_bytes() * self.times.storage.cache_share;
        self.is_local() || self.stored_bytes().0 <= cache
    }

    fn is_local(&self) -> bool {
        self.question.local_cores.is_some()
    }

    fn items(&self) -> f64 {
        f64::from(self.question.products)
    }

    fn wait(&self, milliseconds: f64) -> Step {
        Step::Wait(if self.is_local() { 0.0 } else { milliseconds * 1e-3 })
    }

    /// Returns the step for a query with this measured CPU time in milliseconds, adjusted to the
    /// speed of the deployment's database.
    fn query(&self, milliseconds: f64) -> Step {
        Step::Compute(milliseconds * 1e-3 / self.times.database.speed)
    }

    /// Returns the step for work that takes this many CPU milliseconds of a function with
    /// `megabytes` of memory, on at most `parallel` processors. On a single machine, the function
    /// shares the processors with the database.
    fn compute(&self, milliseconds: f64, megabytes: f64, parallel: f64) -> Step {
        if self.is_local() {
            return Step::Compute(milliseconds * 1e-3);
        }
        let speed = (megabytes / MB_OF_VCPU).min(parallel) * self.times.functions.arm64_speed;
        Step::Wait(milliseconds * 1e-3 / speed)
    }

    fn take(&self, what: Limited, amount: f64, milliseconds: f64) -> Step {
        let seconds = if self.is_local() { 0.0 } else { milliseconds * 1e-3 };
        Step::Take(what, amount, seconds)
    }
}
