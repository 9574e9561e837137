use serde::Serialize;

use crate::cost::{Line, Prices};
use crate::limits::{
    ACCEPT_MB, CHUNKER_MB, DISPATCH_MB, MB_OF_GB, PUTS_PER_SECOND, TABLE_WRITES, TABLE_WRITES_PER_SECOND,
};
use crate::question::Question;
use crate::service_times::ServiceTimes;
use crate::simulation::Simulation;
use crate::worker::{Usage, Worker};

/// Result of the simulation of one peak load, with its cost. Times are in seconds, money in USD.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Answer {
    pub(crate) payloads: f64,
    pub(crate) chunks: f64,
    pub(crate) items: f64,
    /// Seconds from a stored payload to the end of its batch, for all tenants except the flooding
    /// one.
    pub(crate) to_final: Spread,
    /// Seconds from a stored payload to the end of its batch, for the tenant that floods the
    /// others.
    pub(crate) flood_to_final: Spread,
    /// Seconds from the first request to the end of the last batch.
    pub(crate) all_within: f64,
    /// Number of batches that had not ended at the end of the simulation. Any number but 0 is a
    /// fault of the model.
    pub(crate) open: usize,
    pub(crate) queues: Vec<Queue>,
    pub(crate) functions: Vec<Function>,
    /// Time that executions of `upsert` waited for locks, as a share of their whole time. `lost` is
    /// the part of this share that delayed other messages: the waits at whose end messages waited
    /// for an execution of `upsert`. `long_lock_waits` is the number of waits above 15 s.
    pub(crate) locked: f64,
    pub(crate) lost: f64,
    pub(crate) long_lock_waits: u32,
    pub(crate) vcpus: f64,
    pub(crate) database_cpu: f64,
    pub(crate) log_gb: f64,
    pub(crate) pages_read: f64,
    pub(crate) products_gb: f64,
    pub(crate) history_gb: f64,
    /// Use of each limited resource, beginning with the busiest, which saturates first.
    pub(crate) resources: Vec<Resource>,
    pub(crate) cost: Vec<Line>,
    /// Cost of a million produce requests to the gateway, in USD.
    pub(crate) gateway_million: f64,
    /// Number of machines with two vCPUs that could do the functions' work between the first
    /// request and the end of the last batch (`all_within`). `machines_month` is the monthly cost
    /// of the machines and their disks, in USD.
    pub(crate) machines: f64,
    pub(crate) machines_month: f64,
    /// Day on which the prices in the price list were valid.
    pub(crate) prices_as_of: String,
    /// Names of the prices in the price list that are estimates, because no source confirmed them.
    pub(crate) unverified: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Spread {
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) last: f64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Queue {
    pub(crate) name: &'static str,
    /// Seconds that messages waited in the queue before a function received them.
    pub(crate) age: Spread,
    pub(crate) most_waiting: u32,
}

#[derive(Debug, Serialize)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) most_at_once: u32,
    pub(crate) invocations: f64,
    pub(crate) gb_seconds: f64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Resource {
    pub(crate) name: &'static str,
    /// Demand of the whole peak for the resource, as a share of its capacity within the window in
    /// which catalogues arrive. Above 1, work piles up.
    pub(crate) offered: f64,
    /// Demand of the whole peak for the resource, as a share of its capacity from the first request
    /// to the end of the last batch. Executions of `upsert` that wait for locks count as demand if
    /// other messages wait for an execution.
    pub(crate) busy: f64,
    pub(crate) moved_by: &'static str,
}

impl Answer {
    pub(crate) fn of(question: &Question, times: &ServiceTimes, prices: &Prices) -> Self {
        let ran = Simulation::run(question, times);
        let ends = |is_flood: bool| {
            let those = ran
                .payloads
                .iter()
                .filter(move |payload| (payload.tenant >= question.pharmacies) == is_flood);
            those.map(|payload| payload.ended - payload.stored).collect()
        };
        let first = ran.payloads.iter().map(|payload| payload.requested).fold(f64::INFINITY, f64::min);
        let last = ran.payloads.iter().map(|payload| payload.ended).fold(0.0, f64::max);
        let (products, history) = ran.service.stored_bytes();
        let mut answer = Self {
            payloads: f64::from(question.payloads()),
            chunks: f64::from(question.payloads()) * f64::from(question.chunks()),
            items: f64::from(question.payloads()) * f64::from(question.products),
            to_final: Spread::of(ends(false)),
            flood_to_final: Spread::of(ends(true)),
            all_within: last - first,
            open: ran.payloads.iter().filter(|payload| payload.ended.is_nan()).count(),
            queues: vec![
                Queue::of("notifications", &ran.dispatch),
                Queue::of("batches-received", &ran.chunker),
                Queue::of("chunks-ready", &ran.upsert),
            ],
            functions: vec![
                Function::of("product-ingest", ran.accept, ACCEPT_MB),
                // As if each message had an invocation of its own.
                Function::of("dispatch", ran.dispatch.usage, DISPATCH_MB),
                Function::of("chunker", ran.chunker.usage, CHUNKER_MB),
                Function::of("upsert", ran.upsert.usage, f64::from(question.memory)),
            ],
            locked: ran.lock_seconds / ran.upsert.usage.busy,
            lost: ran.lock_seconds_with_backlog / ran.upsert.usage.busy,
            long_lock_waits: ran.long_lock_waits,
            vcpus: ran.processor.cores,
            database_cpu: ran.processor.used,
            log_gb: ran.write_ahead_log.used / 1e9,
            pages_read: ran.pages.used,
            products_gb: products / 1e9,
            history_gb: history / 1e9,
            resources: resources(question, times, &ran, last - first),
            ..Self::default()
        };
        prices.add_to(&mut answer, question, times);
        answer
    }
}

/// Returns the use of each limited resource, the busiest first. `within` is the time in seconds
/// from the first request to the end of the last batch.
fn resources(question: &Question, times: &ServiceTimes, ran: &Simulation<'_>, within: f64) -> Vec<Resource> {
    // Nobody sends everything at once: the shortest window is a minute.
    let window = question.window.max(1.0) * 60.0;
    let (accept, cut, written) = (ran.accept.alone, ran.chunker.usage.alone, ran.upsert.usage.alone);
    let (pages, log) = times.storage.limits(question.database.is_serverless);
    let is_local = question.local_cores.is_some();
    let cores = if is_local { "cores of the machine" } else { "CPU of the database" };
    let locks = if ran.lock_seconds_with_backlog > written {
        "CHUNK_ITEMS: chunks wait for locks"
    } else {
        "UpsertConcurrency"
    };
    let writes = f64::from(question.payloads()) * TABLE_WRITES;
    let quota = (f64::from(question.account_concurrency), accept + cut + written);
    let mut all = [
        ("requests to the API", "ApiRateLimit", (f64::from(question.api_rate), ran.api.used), 0.0),
        ("executions of chunker", "UpsertConcurrency", (ran.chunker.limit, cut), 0.0),
        ("executions of upsert", locks, (ran.upsert.limit, written), ran.lock_seconds_with_backlog),
        ("executions of the account", "the account's quota", quota, ran.lock_seconds_with_backlog),
        (cores, "DatabaseMaxCapacity, or the instance", (ran.processor.cores, ran.processor.used), 0.0),
        ("reads of its storage", "its memory, or provisioned IOPS", (pages, ran.pages.used), 0.0),
        ("its write-ahead log", "the volume's throughput", (log, ran.write_ahead_log.used), 0.0),
        ("puts to S3", "CHUNK_ITEMS", (PUTS_PER_SECOND, ran.puts.used), 0.0),
        ("writes to DynamoDB", "warm throughput", (TABLE_WRITES_PER_SECOND, writes), 0.0),
    ]
    .map(|(name, moved_by, (capacity, demand), locked)| Resource {
        name,
        offered: demand / (capacity * window),
        busy: (demand + locked) / (capacity * within),
        moved_by,
    });
    all.sort_by(|left, right| right.busy.total_cmp(&left.busy));
    all.into()
}

impl Queue {
    fn of(name: &'static str, worker: &Worker) -> Self {
        let age = Spread::of(worker.queue.ages.clone());
        Self { name, age, most_waiting: worker.queue.most_waiting }
    }
}

impl Function {
    fn of(name: &'static str, usage: Usage, megabytes: f64) -> Self {
        let gb_seconds = usage.billed * megabytes / MB_OF_GB;
        Self { name, most_at_once: usage.most, invocations: usage.invocations, gb_seconds }
    }
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |percent: usize| {
            let rank = (values.len() * percent).div_ceil(100).saturating_sub(1);
            values.get(rank).copied().unwrap_or_default()
        };
        Self { p50: at(50), p95: at(95), p99: at(99), last: at(100) }
    }
}

/// Converts a count to `f64`.
pub(crate) fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}
