//! Connection test: opens a separate connection step by step and reports each step.

use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::{Deadline, milliseconds};
use lapin::BasicProperties;
use lapin::options::{BasicPublishOptions, BasicQosOptions};
use lapin::types::ShortString;
use mq::{Access, BrokerError, QueueName, TestReport, TestStep};

use crate::connect::{Step, StepError, StepLog};
use crate::connection::Connection;
use crate::errors::{During, Failure, PRODUCT};
use crate::pools::ConnectionPools;
use crate::session::{call, inspect};

/// Time to wait for the broker to report whether it accepts messages.
const BLOCKED: Duration = Duration::from_secs(1);

pub(crate) async fn test(
    pool: &Arc<ConnectionPools>,
    access: &Access,
    queue: Option<&QueueName>,
    deadline: Deadline,
) -> TestReport {
    let (connector, _place) = match pool.acquire_place(access).await {
        Ok(acquired) => acquired,
        Err(error) => return report(&StepLog::default(), Some(&failed(Step::Resolve, error))),
    };
    let (mut log, result) = Box::pin(connector.connect_step_by_step(deadline)).await;
    let connection = match result {
        Ok(connection) => connection,
        Err(failure) => return report(&log, Some(&failure)),
    };
    let (latency, failure) = look(&connection, queue, deadline, &mut log).await;
    if let Some(StepError { step, error, .. }) = &failure {
        let error: &dyn std::error::Error = error;
        tracing::warn!(
            event_type = "connection.test_failed",
            step = step.name(),
            error,
            "The connection test failed at step {}: {error}",
            step.name()
        );
    }
    let blocked = blocked(&connection, deadline).await;
    let version = connection.server.version.clone();
    let product = connection.server.product.clone();
    connection.close().await;
    let latency_ms = latency.map(milliseconds);
    TestReport { product, version, latency_ms, blocked, ..report(&log, failure.as_ref()) }
}

/// Asks whether the broker accepts messages, and returns the broker's reason if it does not.
/// RabbitMQ reports this only to a connection that publishes. So an empty message goes to the
/// default exchange under a name that no queue has, and the broker returns it. `None` if the broker
/// accepts messages, and also if this cannot be determined, as for a user without write permission.
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
        shortage = connection.until_blocked() => Some(shortage),
        _ = question => connection.blocked(),
    };
    if shortage.is_none() {
        let _ = connection.close_channel(&channel, deadline).await;
    }
    shortage.map(|shortage| shortage.to_string())
}

/// Measures one round trip, and opens the queue if one is given.
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

/// Opens a channel, which takes the broker some time to prepare, and then times a request that the
/// broker answers at once (`basic.qos`).
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

fn report(log: &StepLog, failure: Option<&StepError>) -> TestReport {
    let ok = failure.is_none();
    let steps = Step::ALL
        .into_iter()
        .map(|step| {
            let duration = log.0.iter().find(|(done, _)| *done == step).map(|(_, duration)| *duration);
            let duration_ms = duration.map(milliseconds);
            match failure {
                Some(failure) if failure.step == step => TestStep {
                    name: step.name(),
                    ok: Some(false),
                    duration_ms,
                    code: Some(code(failure)),
                    detail: Some(failure.error.to_string()),
                    skipped: false,
                },
                _ if duration.is_some() => {
                    TestStep { name: step.name(), ok: Some(true), duration_ms, ..TestStep::default() }
                }
                _ => TestStep { name: step.name(), skipped: true, ..TestStep::default() },
            }
        })
        .collect();
    TestReport { ok, product: PRODUCT.to_owned(), version: None, latency_ms: None, blocked: None, steps }
}

/// Error code of the failed step, for the caller to act on.
fn code(failure: &StepError) -> &'static str {
    match (&failure.error, failure.step) {
        (BrokerError::Timeout { .. }, _) => "BROKER_TIMEOUT",
        (_, Step::Tls) => "TLS_FAILED",
        (BrokerError::Rejected { .. }, Step::Authenticate) => "VIRTUAL_HOST_REFUSED",
        (BrokerError::QueueNotFound { .. }, _) => "QUEUE_NOT_FOUND",
        (BrokerError::AuthenticationFailed { .. }, _) => "AUTHENTICATION_FAILED",
        (BrokerError::Unreachable { .. }, _) => "BROKER_UNREACHABLE",
        (BrokerError::PoolTimeout { .. }, _) => "POOL_TIMEOUT",
        (BrokerError::Unsupported { .. }, _) => "UNSUPPORTED_BY_BROKER",
        (
            BrokerError::Rejected { .. }
            | BrokerError::ExchangeNotFound { .. }
            | BrokerError::Unroutable { .. }
            | BrokerError::QueueFull { .. }
            | BrokerError::InDoubt { .. }
            | BrokerError::MessageTooLarge { .. },
            _,
        ) => "BROKER_REJECTED",
    }
}
