//! Connection test: opens a separate connection and reports each step.
//!
//! Host names are resolved first, because IBM's client is given the addresses that were checked.
//! The client then connects, sets up TLS and logs in within one call (MQCONNX), and its reason code
//! shows which of these steps failed. If a channel table has the host names, they are unknown here,
//! and the step of resolving them is skipped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::{Deadline, Step, StepLog, milliseconds};
use libmqm_sys as mqi;
use mq::{Access, BrokerError, BrokerKind, QueueName, TestReport, Tls};

use crate::errors::{During, refusal_of, step_of};
use crate::facts::{QueueKind, QueueManager};
use crate::pool::Pool;
use crate::session::Session;

/// Results of the completed steps of a connection test.
#[derive(Default)]
struct Log {
    steps: StepLog,
    latency: Option<Duration>,
    version: Option<String>,
}

pub(crate) async fn test(
    pool: &Arc<Pool>,
    access: &Access,
    queue: Option<&QueueName>,
    deadline: Deadline,
) -> TestReport {
    let mut log = Log::default();
    let failure = run(&mut log, pool, access, queue, deadline).await.err();
    let failure = failure.as_ref().map(|(step, error)| (*step, error));
    let report = log.steps.report(BrokerKind::IbmMq, failure);
    TestReport { version: log.version, latency_ms: log.latency.map(milliseconds), ..report }
}

/// Runs the steps of the connection test, and ends the connection after the last one.
///
/// # Errors
/// The step that failed, with its error.
async fn run(
    log: &mut Log,
    pool: &Arc<Pool>,
    access: &Access,
    queue: Option<&QueueName>,
    deadline: Deadline,
) -> Result<(), (Step, BrokerError)> {
    let (session, took) = match pool.open_fresh(access, &mut log.steps, deadline).await {
        Ok(opened) => opened,
        Err((Some(step), error)) => return Err((step, error)),
        Err((None, error)) => {
            let mut at = step_of(&error);
            match refusal_of(&error).map(|refusal| refusal.reason) {
                // A table may have no channel to this queue manager; then the client did not
                // connect anywhere.
                Some(mqi::MQRC_Q_MGR_NAME_ERROR) if access.endpoint.addresses.is_empty() => {
                    at = Step::Connect;
                }
                // The client completed the steps before this one.
                Some(_) => {
                    let before = of_client(access).filter(|step| *step < at);
                    log.steps.0.extend(before.map(|step| (step, Duration::ZERO)));
                }
                // The client was not called, or did not return.
                None => {}
            }
            return Err((at, error));
        }
    };
    let took = |step| if step == Step::Connect { took } else { Duration::ZERO };
    log.steps.0.extend(of_client(access).map(|step| (step, took(step))));
    look(log, &session, queue, deadline).await.map_err(|error| (Step::OpenQueue, error))
}

/// Returns the steps that a successful MQCONNX covers: connecting, TLS if the target sets it, and
/// the login. TLS that only a channel table sets is left out, since the client does not report it.
fn of_client(access: &Access) -> impl Iterator<Item = Step> {
    let is_plain = access.endpoint.tls == Tls::Off;
    let steps = [Step::Connect, Step::Tls, Step::Authenticate];
    steps.into_iter().filter(move |step| *step != Step::Tls || !is_plain)
}

/// Measures a round trip to the queue manager, asks for its version, and opens the queue if the
/// connection test names one.
async fn look(
    log: &mut Log,
    session: &Session,
    queue: Option<&QueueName>,
    deadline: Deadline,
) -> Result<(), BrokerError> {
    let asked = session.call(deadline, |connection| {
        let started = Instant::now();
        let version = QueueManager::ask_version(connection);
        Ok((started.elapsed(), version))
    });
    let (took, version) = asked.await.map_err(|failure| failure.into_error(During::Connection))?;
    log.latency = Some(took);
    log.version = version_of(session.queue_manager(), version.ok());
    let Some(queue) = queue else { return Ok(()) };
    let started = Instant::now();
    let name = queue.as_str().to_owned();
    let opened = session.call(deadline, move |connection| QueueKind::ask(connection, &name)).await;
    opened.map_err(|failure| failure.into_error(During::Queue(queue)))?;
    log.steps.0.push((Step::OpenQueue, started.elapsed()));
    Ok(())
}

/// Returns a version text such as `9.4.5.0 (command level 945, UNIX, CCSID 1208)`. It leaves out
/// what the queue manager does not report; `None` if it reports nothing.
fn version_of(queue_manager: Option<&QueueManager>, version: Option<String>) -> Option<String> {
    let Some(facts) = queue_manager else { return version };
    let details =
        format!("command level {}, {}, CCSID {}", facts.command_level, facts.platform(), facts.ccsid);
    Some(match version {
        Some(version) => format!("{version} ({details})"),
        None => details,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_repository::Malformed;
    use crate::mqi::{Refusal, Verb};

    fn refused(reason: mqi::MQLONG) -> BrokerError {
        Refusal::failed(Verb::Connect, reason).into_error(During::LogIn { queue_manager: "QM1" })
    }

    #[test]
    fn the_reason_of_a_connection_names_the_step_that_failed() {
        for (reason, step, of) in [
            (2538, Step::Connect, "BROKER_UNREACHABLE"),
            (2537, Step::Connect, "BROKER_UNREACHABLE"),
            (2540, Step::Connect, "BROKER_REJECTED"),
            (2393, Step::Tls, "TLS_FAILED"),
            (2381, Step::Tls, "TLS_FAILED"),
            (2398, Step::Tls, "TLS_FAILED"),
            (2035, Step::Authenticate, "AUTHENTICATION_FAILED"),
            (2058, Step::Authenticate, "QUEUE_MANAGER_REFUSED"),
        ] {
            let error = refused(reason);
            let report = StepLog::default().report(BrokerKind::IbmMq, Some((step, &error)));
            let code = report.steps.iter().find_map(|step| step.code);
            assert_eq!((step_of(&error), code), (step, Some(of)), "{reason}");
        }
    }

    #[test]
    fn a_key_repository_that_cannot_be_used_is_a_failure_of_tls() {
        let error = BrokerError::authentication_failed("wrong").caused_by(Malformed::Closed);
        assert_eq!(step_of(&error), Step::Tls);
        assert_eq!(step_of(&BrokerError::authentication_failed("wrong")), Step::Connect);
    }

    #[test]
    fn a_queue_manager_is_shown_with_its_version_level_platform_and_character_set() {
        let facts = QueueManager { platform: 3, command_level: 945, ccsid: 1208, ..QueueManager::default() };
        let shown = version_of(Some(&facts), Some("9.4.5.0".to_owned())).unwrap();
        assert_eq!(shown, "9.4.5.0 (command level 945, UNIX, CCSID 1208)");
        assert_eq!(version_of(None, None), None);
    }
}
