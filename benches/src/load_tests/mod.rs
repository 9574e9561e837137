//! Load tests (`POST /tests`) on RabbitMQ, compared with a bare client under the same load: first
//! the highest rates in messages per second, then latencies at half of the lower rate.

pub(crate) mod bare;
mod ours;

use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::child::Program;
use crate::clients::bare_lapin::{ACK_EVERY, IN_FLIGHT};
use crate::clients::broker::{PREFETCH, Queues};
use crate::contender::{Answering, once, turns};
use crate::error::Error;
use crate::http_client::Http;
use crate::report::Goal::{self, AtLeast, AtMost};
use crate::report::{Column, Report};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Number of seconds of each run, without the time in which the consumer empties the queue
    /// afterwards
    #[arg(long, env = "BENCH_TEST_SECONDS", default_value_t = 20)]
    seconds: u32,
    /// Number of runs of each contender at each rate
    #[arg(long, env = "ROUNDS", default_value_t = 5)]
    rounds: u32,
    #[arg(long, env = "API")]
    base_url: String,
    /// API key with the scope `mq:admin`, of a tenant with the target profile `local-rabbit`
    #[arg(long, env = "API_KEY", hide_env_values = true)]
    api_key: String,
    #[arg(long, env = "AMQP_URL", hide_env_values = true)]
    amqp_url: String,
}

const QUEUE: &str = "bench.tests";
/// Maximum time by which a run may exceed its planned seconds. A load test waits up to five minutes
/// until its queue is empty.
const PATIENCE: Duration = Duration::from_mins(7);

const OURS: &str = "IntegraHub";
const BARE: &str = "bare lapin";
const RATE: &str = "messages/s";
const P50: &str = "p50, µs";
const P95: &str = "p95, µs";
const TIMES: &str = "IntegraHub / it";
const THROUGHPUT: [Column; 3] = [
    Column::median(RATE, 0),
    Column::spread(RATE),
    Column::times(TIMES, RATE, OURS).goals(&[(BARE, AtLeast(0.8))]),
];
const LATENCIES: [Column; 6] = [
    Column::median(P50, 0),
    Column::spread(P50),
    Column::times(TIMES, P50, OURS).goals(WITHIN),
    Column::median(P95, 0),
    Column::spread(P95),
    Column::times(TIMES, P95, OURS).goals(WITHIN),
];
const WITHIN: &[(&str, Goal)] = &[("put, bare lapin", AtMost(1.1)), ("end to end, bare lapin", AtMost(1.1))];

/// Load that a contender puts on the broker in one run.
#[derive(Debug, Serialize, Deserialize)]
struct Task {
    seconds: u32,
    warm_up_seconds: u32,
    /// Rate in messages a second, at least 1; `None` if the producer sends as fast as it can.
    rate_per_sec: Option<u32>,
}

/// Measured values of a run, in the JSON of a load test's report.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Measured {
    rates: Rates,
    /// Latencies from a message's due time until it was sent.
    lateness_us: Latency,
    /// Latencies from a message's due time until the broker confirmed it.
    put_latency_us: Latency,
    /// Latencies from a message's due time until it was received.
    end_to_end_latency_us: Latency,
    accounting: Accounting,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rates {
    received_per_sec: f64,
}

/// Percentiles of a latency in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Latency {
    p50: u32,
    p95: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct Accounting {
    due: u64,
    received: u64,
}

/// Returns the length of the warm-up, which is left out of the measured values, in seconds.
const fn warm_up(seconds: u32) -> u32 {
    seconds / 4
}

pub(crate) async fn run(options: &Options) -> Result<(), Error> {
    let stand = Stand {
        options,
        http: Http::new(&options.base_url)?,
        queues: Queues::open(&options.amqp_url).await?,
        bare: Program::own(BARE, "paced-lapin")?.env("AMQP_URL", &options.amqp_url),
    };
    let Options { rounds, seconds, .. } = options;
    let setting = format!(
        "1 KiB, persistent, a durable classic queue; one producer with {IN_FLIGHT} confirms in flight, one \
         consumer with a prefetch of {PREFETCH} and an acknowledgement for {ACK_EVERY} messages; medians of \
         {rounds} rounds of {seconds} s, of which the first {} s do not count.",
        warm_up(*seconds)
    );

    let mut throughput = Report::new(format!("As fast as they go: {setting}"), &THROUGHPUT);
    for round in 0..*rounds {
        for &who in turns(&[OURS, BARE], round) {
            let measured = stand.measure(who, None).await?;
            throughput.tell("", who, &[(RATE, measured.rates.received_per_sec)]);
        }
    }
    throughput.print();

    let lower = throughput.median("", OURS, RATE).min(throughput.median("", BARE, RATE));
    let half = (lower / 2.0).trunc().to_string().parse::<u32>()?.max(1);
    let about = format!("At {half} messages/s, half of the lower rate: {setting}");
    let mut latencies = Report::new(about, &LATENCIES);
    for round in 0..*rounds {
        for &who in turns(&[OURS, BARE], round) {
            let measured = stand.measure(who, Some(half)).await?;
            for (case, Latency { p50, p95 }) in [
                ("put", measured.put_latency_us),
                ("end to end", measured.end_to_end_latency_us),
                ("lateness", measured.lateness_us),
            ] {
                latencies.tell(case, who, &[(P50, f64::from(p50)), (P95, f64::from(p95))]);
            }
        }
    }
    latencies.print();
    Ok(())
}

/// Connections and settings for measuring both contenders.
struct Stand<'a> {
    options: &'a Options,
    http: Http,
    queues: Queues,
    bare: Program,
}

impl Stand<'_> {
    /// Measures one contender on a new queue.
    ///
    /// # Errors
    /// If a message that was due was not received, besides other failures.
    async fn measure(&self, who: &str, rate_per_sec: Option<u32>) -> Result<Measured, Error> {
        let Options { seconds, api_key, .. } = self.options;
        let task = Task { seconds: *seconds, warm_up_seconds: warm_up(*seconds), rate_per_sec };
        self.queues.create(QUEUE).await?;
        let load = async {
            if who == OURS {
                return ours::load(&self.http, api_key, &task).await;
            }
            once::<Answering<Measured>>(&self.bare, &serde_json::to_string(&task)?).await
        };
        let patience = PATIENCE + Duration::from_secs((*seconds).into());
        let measured = timeout(patience, load).await.map_err(|_| format!("{who} does not end"))??;
        self.queues.expect(QUEUE, 0).await?;
        self.queues.delete(QUEUE).await?;
        let Accounting { due, received } = measured.accounting;
        if received != due {
            return Err(format!("{who} received {received} of {due} messages").into());
        }
        Ok(measured)
    }
}
