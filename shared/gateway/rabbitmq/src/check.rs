//! Connection test: opens a separate connection step by step and reports each step.

use std::time::{Duration, Instant};

use broker::{Deadline, HealthStatus, Step, StepLog, milliseconds};
use lapin::BasicProperties;
use lapin::options::{BasicPublishOptions, BasicQosOptions};
use lapin::types::ShortString;
use mq::{Access, BrokerError, BrokerKind, QueueName, TestReport};

use crate::connect::{Dials, StepError};
use crate::connection::Connection;
use crate::errors::{During, Failure};
use crate::pool::Pool;
use crate::session::{call, inspect};

/// Maximum time for which a connection test waits for the broker to report whether it accepts
/// messages.
const BLOCKED: Duration = Duration::from_secs(1);

pub(crate) async fn test(
    pool: &Pool,
    access: &Access,
    queue: Option<&QueueName>,
    deadline: Deadline,
) -> TestReport {
    let report = |log: &StepLog, failure: Option<&StepError>| {
        log.report(BrokerKind::RabbitMq, failure.map(|failure| (failure.step, &failure.error)))
    };
    let (connector, permit, reservation) = match pool.reserve(access, deadline).await {
        Ok(reserved) => reserved,
        Err(error) => return report(&StepLog::default(), Some(&failed(Step::Resolve, error))),
    };
    let started = Instant::now();
    let (mut log, result) = Box::pin(connector.round(deadline, &mut Dials::new())).await;
    let pooled = match result {
        Ok(opened) => reservation.hold(opened.holding(permit), HealthStatus::healthy(started.elapsed())),
        Err(failure) => return report(&log, Some(&failure)),
    };
    let connection = pooled.connection();
    let (latency, failure) = look(connection, queue, deadline, &mut log).await;
    let blocked = blocked(connection, deadline).await;
    let version = connection.server.version.clone();
    let product = connection.server.product.clone();
    pooled.close().await;
    let latency_ms = latency.map(milliseconds);
    TestReport { product, version, latency_ms, blocked, ..report(&log, failure.as_ref()) }
}

/// Returns the reason why the broker accepts no messages; `None` if it accepts them, or if this
/// cannot be determined, as for a user without write permission. RabbitMQ tells only publishing
/// connections, so this publishes an empty message to a queue name that does not exist; the broker
/// returns it.
async fn blocked(connection: &Connection, deadline: Deadline) -> Option<String> {
    let deadline = deadline.min(BLOCKED);
    let channel = connection.open_channel(deadline).await.ok()?;
    let key = format!("integrahub.connection-test.{:032x}", fastrand::u128(..));
    let key = ShortString::try_new(key).ok()?;
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let nothing = BasicProperties::default();
    let question = async {
        call(deadline, channel.basic_publish(ShortString::default(), key, options, &[], nothing)).await?;
        // A broker that blocks the connection reports it before it reads this request.
        call(deadline, channel.basic_qos(1, BasicQosOptions::default())).await
    };
    let shortage = tokio::select! {
        shortage = connection.noticed.until_blocked() => Some(shortage),
        _ = question => connection.blocked(),
    };
    if shortage.is_none() {
        let _ = connection.close_channel(&channel, deadline).await;
    }
    shortage.map(|shortage| shortage.to_string())
}

/// Measures one round trip, and checks that the queue exists if the test names one. Returns the
/// duration of the round trip (`None` if the broker did not answer), and the failure if there was
/// one.
async fn look(
    connection: &Connection,
    queue: Option<&QueueName>,
    deadline: Deadline,
    log: &mut StepLog,
) -> (Option<Duration>, Option<StepError>) {
    let (channel, latency) = match round_trip(connection, deadline).await {
        Ok(measured) => measured,
        Err(failure) => {
            let error = failure.into_error(During::Connection);
            return (None, Some(failed(Step::OpenQueue, error)));
        }
    };
    let Some(queue) = queue else {
        return (Some(latency), None);
    };
    let started = Instant::now();
    let opened = inspect(&channel, queue, deadline).await;
    log.0.push((Step::OpenQueue, started.elapsed()));
    let failure =
        opened.err().map(|failure| failed(Step::OpenQueue, failure.into_error(During::Queue(queue))));
    (Some(latency), failure)
}

/// Opens a channel, and then measures a request that the broker answers at once (`basic.qos`).
/// Returns the channel with that duration. Opening the channel itself takes the broker longer.
async fn round_trip(
    connection: &Connection,
    deadline: Deadline,
) -> Result<(lapin::Channel, Duration), Failure> {
    let channel = connection.open_channel(deadline).await?;
    let started = Instant::now();
    call(deadline, channel.basic_qos(1, BasicQosOptions::default())).await?;
    Ok((channel, started.elapsed()))
}

fn failed(step: Step, error: BrokerError) -> StepError {
    StepError { step, error, timed_out: false }
}
