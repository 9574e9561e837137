//! Rate limits that many execution environments enforce together: requests admitted beyond a limit,
//! calls to DynamoDB, delays of one tenant by another, and the CPU time of a request that needs no
//! call.
//!
//! Each environment is a limiter of its own, as in a function. Tenants send to all environments
//! evenly, and do not wait for responses.

use std::time::Duration;

use access::{DefaultLimits, LimitedTarget, LimitsItem, Rate, TargetLimits};
use aws_sdk_dynamodb::Client;
use clap::Args;
use endpoint::limits::{Cost, Limiter, TIMEOUT};
use futures_util::future::try_join_all;
use runtime::Sdk;
use serde_json::Value;
use tokio::time::Instant;
use uuid::Uuid;

use crate::cpu::Stopwatch;
use crate::error::Error;
use crate::recorder::{Call, Recorder};
use crate::report::Goal::AtMost;
use crate::report::{Column, Report, count};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Endpoint of the DynamoDB with the table
    #[arg(long, env = "AWS_ENDPOINT_URL")]
    endpoint: String,
    /// Table of rate limit buckets, with the key `pk`
    #[arg(long, env = "LIMITS_TABLE")]
    table: String,
    /// Number of seconds for which tenants send requests
    #[arg(long, env = "LIMIT_SECONDS", default_value_t = 40)]
    seconds: u32,
    /// Number of blocks of requests that need no call to the table
    #[arg(long, env = "ROUNDS", default_value_t = 10)]
    rounds: u32,
    /// Number of requests in a block
    #[arg(long, env = "REQUESTS", default_value_t = 10_000)]
    requests: usize,
}

const ENVIRONMENTS: u32 = 50;
/// Rate limit of each tenant in requests per second, and its burst in requests.
const PER_SECOND: u32 = 500;
/// Tenants, with the rate of their requests as a multiple of their limit.
const TENANTS: [(&str, f64); 3] = [("over", 3.0), ("near", 0.9), ("below", 0.2)];
/// Length of the window in which admitted requests are counted.
const WINDOW: Duration = Duration::from_secs(10);

const ASKED: &str = "asked, 1/s";
const ADMITTED: &str = "admitted, 1/s";
const REFUSED: &str = "refused, %";
const WORST: &str = "most in 10 s";
const BEYOND: &str = "beyond the limit, %";
const CALLS: &str = "calls per request";
const LATE: &str = "of them late, %";
const COLUMNS: [Column; 7] = [
    Column::median(ASKED, 0),
    Column::median(ADMITTED, 0),
    Column::median(REFUSED, 1).goals(&[("near", AtMost(2.0)), ("below", AtMost(0.1))]),
    Column::median(WORST, 0),
    Column::median(BEYOND, 1).goals(&[("", AtMost(10.0))]),
    Column::median(CALLS, 3),
    Column::median(LATE, 1),
];

const CPU: &str = "CPU µs";
const CPU_COLUMNS: [Column; 2] =
    [Column::median(CPU, 1).goals(&[("no call", AtMost(20.0))]), Column::spread(CPU)];

/// Number of requests that a tenant sent, and those that its limit admitted.
#[derive(Debug, Default)]
struct Sent {
    asked: usize,
    /// Times at which requests were admitted, since the start.
    admitted: Vec<Duration>,
}

pub(crate) async fn run(options: &Options) -> Result<(), Error> {
    let recorder = Recorder::start(&options.endpoint).await;
    let sdk = Sdk::from_environment().await;
    let config = aws_sdk_dynamodb::config::Builder::from(sdk.standard()).endpoint_url(recorder.url());
    let dynamodb = Client::from_conf(config.build());
    flood(options, &dynamodb, &recorder).await?.print();
    without_calls(options, &dynamodb).await?.print();
    Ok(())
}

/// Sends the requests of all tenants at the same time, and reports how well the limits held.
async fn flood(options: &Options, dynamodb: &Client, recorder: &Recorder) -> Result<Report, Error> {
    let seconds = options.seconds;
    let item = LimitsItem {
        requests: Some(Rate::new(f64::from(PER_SECOND), Some(u64::from(PER_SECOND)))?),
        ..LimitsItem::default()
    };
    let limiters: Vec<_> = (0..ENVIRONMENTS).map(|_| limiter(options, dynamodb)).collect();
    let run = Uuid::new_v4();
    let duration = Duration::from_secs(u64::from(seconds));
    let start = Instant::now();
    let mut tasks = Vec::new();
    for (name, part) in TENANTS {
        let each = f64::from(ENVIRONMENTS) / (f64::from(PER_SECOND) * part);
        let interval = Duration::from_secs_f64(each);
        for (limiter, environment) in limiters.iter().zip(0_u32..) {
            let first = start + interval.mul_f64(f64::from(environment) / f64::from(ENVIRONMENTS));
            let ticks = tokio::time::interval_at(first, interval);
            let tenant = format!("{run}-{name}");
            tasks.push(tokio::spawn(send(limiter.clone(), tenant, item.clone(), ticks, start, duration)));
        }
    }
    let mut sent = try_join_all(tasks).await?.into_iter();
    let calls = recorder.calls()?;
    let mut report = Report::new(
        format!(
            "{ENVIRONMENTS} environments, three tenants for {seconds} s, each with a limit of {PER_SECOND} requests a second and {PER_SECOND} at once."
        ),
        &COLUMNS,
    );
    let admits = f64::from(PER_SECOND) * 11.0;
    for (name, _) in TENANTS {
        let mut all = Sent::default();
        for sent in sent.by_ref().take(limiters.len()) {
            all.asked += sent.asked;
            all.admitted.extend(sent.admitted);
        }
        let worst = count(most_in_a_window(&mut all.admitted));
        let (asked, admitted) = (count(all.asked), count(all.admitted.len()));
        let calls = of_tenant(&calls, &format!("{run}-{name}"));
        let late = calls.iter().filter(|call| call.took > TIMEOUT).count();
        let values = [
            (ASKED, asked / f64::from(seconds)),
            (ADMITTED, admitted / f64::from(seconds)),
            (REFUSED, (1.0 - admitted / asked) * 100.0),
            (WORST, worst),
            (BEYOND, (worst / admits - 1.0).max(0.0) * 100.0),
            (CALLS, count(calls.len()) / asked),
            (LATE, count(late) / count(calls.len().max(1)) * 100.0),
        ];
        report.add("", name, &values);
    }
    Ok(report)
}

/// Sends a tenant's requests to the limiter of one environment, until `duration` has passed.
async fn send(
    limiter: Limiter,
    tenant: String,
    item: LimitsItem,
    mut ticks: tokio::time::Interval,
    start: Instant,
    duration: Duration,
) -> Sent {
    let mut sent = Sent::default();
    loop {
        ticks.tick().await;
        if start.elapsed() >= duration {
            return sent;
        }
        sent.asked += 1;
        let policies = limiter.policies(&item, &tenant, None);
        if let Ok(ticket) = limiter.admit(&policies, Cost::default()).await {
            sent.admitted.push(start.elapsed());
            ticket.renew().await;
        }
    }
}

/// Measures requests that need no call to the table, because the environment has already drawn
/// enough of each limit. The requests are subject to every kind of limit.
async fn without_calls(options: &Options, dynamodb: &Client) -> Result<Report, Error> {
    let rate = |per_second| Rate::new(per_second, None).map(Some);
    let limits = TargetLimits { requests: rate(1e6)?, messages: rate(1e7)?, bytes: rate(1e9)? };
    let item = LimitsItem {
        requests: rate(1e6)?,
        targets: [("orders".to_owned(), limits)].into(),
        ..LimitsItem::default()
    };
    let limiter = limiter(options, dynamodb);
    let tenant = Uuid::new_v4().to_string();
    let target = LimitedTarget { target_ref: Some("orders"), queue_manager: "QM1" };
    let cost = Cost { messages: 1, bytes: 1_024 };
    let mut report = Report::new(
        format!("A request with four limits; medians of {} blocks of {}.", options.rounds, options.requests),
        &CPU_COLUMNS,
    );
    // The first round only warms up, and draws chunks of their full size.
    for round in 0..=options.rounds {
        let stopwatch = Stopwatch::start()?;
        for _ in 0..options.requests {
            let policies = limiter.policies(&item, &tenant, Some(&target));
            let ticket =
                limiter.admit(&policies, cost).await.map_err(|refusal| refusal.problem().to_string())?;
            ticket.renew().await;
            if !ticket.headers().is_empty() {
                return Err("most of a limit is gone".into());
            }
            ticket.settle(cost);
        }
        let took = stopwatch.stop()?;
        if round > 0 {
            report.tell("no call", "", &[(CPU, took.cpu_seconds * 1e6 / count(options.requests))]);
        }
    }
    Ok(report)
}

fn limiter(options: &Options, dynamodb: &Client) -> Limiter {
    Limiter::new(dynamodb.clone(), options.table.clone(), DefaultLimits::default())
}

/// Returns the calls to DynamoDB about rate limit buckets of this tenant.
fn of_tenant<'a>(calls: &'a [Call], tenant: &str) -> Vec<&'a Call> {
    let is_of = |call: &Call| {
        let pk = call.body.pointer("/Key/pk/S").and_then(Value::as_str);
        pk.is_some_and(|pk| pk.starts_with(tenant))
    };
    calls.iter().filter(|call| is_of(call)).collect()
}

/// Returns the largest number of these times that lie within one window.
fn most_in_a_window(times: &mut [Duration]) -> usize {
    times.sort();
    let windows = times.iter().enumerate().map(|(first, begin)| {
        times.iter().skip(first).take_while(|time| time.saturating_sub(*begin) < WINDOW).count()
    });
    windows.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_its_beginning_and_not_its_end() {
        let mut times = [25, 1, 3, 11, 12, 10].map(Duration::from_secs);
        assert_eq!(most_in_a_window(&mut times), 4, "3, 10, 11 and 12, but neither 1 and 11 nor 3 and 25");
        assert_eq!(most_in_a_window(&mut []), 0);
    }
}
