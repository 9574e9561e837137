//! Measures the depths of several queues of one virtual host or queue manager.

use api::{Problem, Reply};
use broker::Deadline;
use jiff::Timestamp;
use mq::{BrokerError, QueueName, Target};
use orders::from_broker;
use serde_json::{Value, json};

use crate::answer;
use crate::{MqAccess, explained};

impl MqAccess {
    /// Connects once and measures the queues one after the other. In the response, a queue that
    /// does not exist or that the target's login may not inspect has an error in place of its
    /// depth.
    ///
    /// # Errors
    /// If the connection cannot be opened or is lost.
    pub(crate) async fn depths(
        &self,
        target: &Target,
        queues: &[QueueName],
        deadline: Deadline,
    ) -> Result<Reply, Problem> {
        let ready = self.ready(target, deadline).await?;
        let connected = ready.with_login(async |broker, access| broker.connect(access, deadline).await);
        connected.await.map_err(|error| from_broker(&error))?;
        let mut measured = Vec::with_capacity(queues.len());
        for queue in queues {
            let depth = ready.with_login(async |broker, access| broker.depth(access, queue, deadline).await);
            measured.push(match depth.await {
                Ok(report) => answer::measured(queue, &report, Timestamp::now()),
                Err(error) if is_about_the_queue(&error) => failed(queue, &error, target),
                Err(error) => return Err(from_broker(&error)),
            });
        }
        Ok(Reply::json(200, &json!({"target": target.endpoint.queue_manager, "queues": measured})))
    }
}

/// True if the error concerns only this queue, so that other queues on the same connection can be
/// measured.
const fn is_about_the_queue(error: &BrokerError) -> bool {
    matches!(
        error,
        BrokerError::QueueNotFound { .. } | BrokerError::Rejected { .. } | BrokerError::Unsupported { .. }
    )
}

fn failed(queue: &QueueName, error: &BrokerError, target: &Target) -> Value {
    let problem = explained::problem(from_broker(error), target);
    let mut error = json!({
        "code": problem.reason.code(),
        "reason": problem.reason.as_str(),
        "detail": problem.detail,
    });
    if let (Some(broker), Some(members)) = (problem.extensions.get("broker"), error.as_object_mut()) {
        members.insert("broker".to_owned(), broker.clone());
    }
    json!({"queue": queue, "error": error})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_ends_the_measurement_unless_it_is_about_one_queue() {
        for error in [
            BrokerError::unreachable("down"),
            BrokerError::timeout("late"),
            BrokerError::authentication_failed("who"),
            BrokerError::pool_timeout(),
        ] {
            assert!(!is_about_the_queue(&error), "{error}");
        }
        for error in [
            BrokerError::queue_not_found("Q".to_owned().try_into().unwrap()),
            BrokerError::rejected("no"),
            BrokerError::unsupported("an alias"),
        ] {
            assert!(is_about_the_queue(&error), "{error}");
        }
    }
}
