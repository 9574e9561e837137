//! CPU time that a warm request takes in `produce` and in `mq-access`, beyond the calls to
//! DynamoDB, to Lambda and to the broker that it makes.
//!
//! The same calls are made by a program that does nothing else, request by request in turn with the
//! functions, so that all find the processor's caches in the same state.

pub(crate) mod baseline;
mod calls;
mod pair;
pub(crate) mod runtime_alone;

use std::time::Duration;

use clap::Args;
use uuid::Uuid;

use crate::child::Program;
use crate::contender::{Answering, Contender as _};
use crate::cpu::Took;
use crate::error::Error;
use crate::function::Environment;
use crate::recorder::Recorder;
use crate::report::Goal::AtMost;
use crate::report::{Column, Report};
use crate::warm::baseline::Task;
use crate::warm::pair::Pair;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Endpoint of DynamoDB and of the other AWS services that the functions use
    #[arg(long, env = "AWS_ENDPOINT_URL")]
    endpoint: String,
    /// Number of requests of each contender
    #[arg(long, env = "REQUESTS", default_value_t = 1000)]
    requests: u32,
}

/// Number of requests before the measurement, which warm caches and connections up.
const WARM_UP: u32 = 50;

const ALL: &str = "in all";
const CALLS: &str = "the calls alone";
const BEYOND: &str = "beyond them";
const RUNTIME: &str = "of that, Lambda's runtime";
const OURS: &str = "ours";
const COLUMNS: [Column; 5] = [
    Column::median(ALL, 0),
    Column::median(CALLS, 0),
    Column::median(BEYOND, 0),
    Column::median(RUNTIME, 0),
    Column::median(OURS, 0).goals(&[("together", AtMost(500.0))]),
];

pub(crate) async fn run(options: &Options) -> Result<(), Error> {
    let Options { endpoint, requests } = options;
    let recorded = record(endpoint).await?;
    let mut contenders = Contenders::start(endpoint, &recorded).await?;
    let about = "CPU time of a warm POST /messages/produce of one message of 1 KiB, µs";
    let mut report = Report::new(format!("{about}; medians of {requests} requests."), &COLUMNS);
    for number in 0..requests.saturating_add(WARM_UP) {
        let times = contenders.take_turns(&recorded).await?;
        if number >= WARM_UP {
            for (name, times) in FUNCTIONS.into_iter().zip(times) {
                let [all, calls, runtime] = times.map(|time| time.as_secs_f64() * 1e6);
                report.add("", name, &[(ALL, all), (CALLS, calls), (RUNTIME, runtime)]);
            }
        }
    }
    contenders.pair.stop().await?;
    let mut sum = [0.0; 3];
    for name in FUNCTIONS {
        let medians = [ALL, CALLS, RUNTIME].map(|figure| report.median("", name, figure));
        add_difference(&mut report, name, medians);
        for (sum, value) in sum.iter_mut().zip(medians) {
            *sum += value;
        }
    }
    let [all, calls, runtime] = sum;
    report.add("", "together", &[(ALL, all), (CALLS, calls), (RUNTIME, runtime)]);
    add_difference(&mut report, "together", sum);
    report.print();
    Ok(())
}

fn add_difference(report: &mut Report, name: &str, [all, calls, runtime]: [f64; 3]) {
    let beyond = all - calls;
    report.add("", name, &[(BEYOND, beyond), (OURS, beyond - runtime)]);
}

const FUNCTIONS: [&str; 2] = ["produce", "mq-access"];

fn new_key() -> String {
    Uuid::new_v4().to_string()
}

/// Functions to measure, each with two contenders for comparison: its calls alone, and Lambda's
/// runtime alone.
struct Contenders {
    pair: Pair,
    calls: [Answering<Took>; 2],
    runtimes: [Environment; 2],
}

impl Contenders {
    async fn start(endpoint: &str, recorded: &Recorded) -> Result<Self, Error> {
        let pair = Pair::start(endpoint, endpoint).await?;
        let lambda = pair.lambda.url();
        let calls = async |task| {
            let program = Program::own("the calls alone", "calls-alone")?.arg(serde_json::to_string(task)?);
            Answering::start(&program.env("AWS_ENDPOINT_URL_LAMBDA", &lambda)).await
        };
        // A function whose answers have that size.
        let runtime = async |kind: &str, answer: &[u8]| {
            let program = Program::own("the runtime alone", "runtime-alone")?;
            Environment::start(&program.arg(kind).arg(answer.len().to_string())).await
        };
        let calls = [calls(&recorded.produce).await?, calls(&recorded.mq_access).await?];
        let runtimes = [runtime("http", &recorded.answer).await?, runtime("order", &recorded.reply).await?];
        Ok(Self { pair, calls, runtimes })
    }

    /// Measures one request. Returns the CPU times of each function, of its calls alone and of the
    /// runtime alone.
    async fn take_turns(&mut self, recorded: &Recorded) -> Result<[[Duration; 3]; 2], Error> {
        let (key, other) = (new_key(), new_key());
        let [of_produce, of_mq_access] = &mut self.calls;
        let [http, order] = &mut self.runtimes;
        let cpu = |took: Took| Duration::from_secs_f64(took.cpu_seconds);
        let [produce, mq_access] = self.pair.cpu_of(&key).await?;
        let calls = [cpu(of_produce.send(&other).await?), cpu(of_mq_access.send(&other).await?)];
        let runtimes = [http.send(&recorded.event).await?.cpu, order.send(&recorded.order).await?.cpu];
        Ok([[produce, calls[0], runtimes[0]], [mq_access, calls[1], runtimes[1]]])
    }
}

/// Parts of one recorded warm request: events, responses and calls of both functions.
#[derive(Debug)]
struct Recorded {
    event: Vec<u8>,
    answer: Vec<u8>,
    order: Vec<u8>,
    reply: Vec<u8>,
    produce: Task,
    mq_access: Task,
}

/// Records the calls of one warm request, by running the functions with recorders in front of
/// DynamoDB. The third request is recorded, because the first ones also read data that the
/// functions then cache.
async fn record(endpoint: &str) -> Result<Recorded, Error> {
    let of_produce = Recorder::start(endpoint).await;
    let of_mq_access = Recorder::start(endpoint).await;
    let mut pair = Pair::start(&of_produce.url(), &of_mq_access.url()).await?;
    for _ in 0..2 {
        pair.send(&new_key()).await?;
    }
    of_produce.forget();
    of_mq_access.forget();
    let key = new_key();
    let (event, answer) = pair.send(&key).await?;
    let (order, reply) = pair.last_order();
    pair.stop().await?;
    let text = String::from_utf8_lossy(&order).into_owned();
    let produce = Task { key: key.clone(), calls: of_produce.calls()?, order: Some(text), publish: false };
    let mq_access = Task { key, calls: of_mq_access.calls()?, order: None, publish: true };
    Ok(Recorded { event, answer, order, reply, produce, mq_access })
}
