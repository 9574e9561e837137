//! Depths of several queues at one place.

use api::{Problem, Reply};
use broker::Deadline;
use jiff::Timestamp;
use mq::{BrokerError, QueueName, Target};
use orders::from_broker;
use serde_json::{Value, json};

use crate::answer;
use crate::{MqAccess, explained};

/// Refusals in a row, with nothing before them, after which no further queue is asked for: the
/// broker refuses the login or the place, and would refuse it for each queue.
const REFUSALS: usize = 3;

impl MqAccess {
    /// Measures the queues one after the other. A queue that the broker does not have, or does not
    /// let this login measure, has an error in the place of its depth.
    ///
    /// # Errors
    /// An error that is not about one queue, with the first queue that it was found at.
    pub(crate) async fn depths(
        &self,
        target: &Target,
        queues: &[QueueName],
        deadline: Deadline,
    ) -> Result<Reply, Problem> {
        let ready = self.brokers.ready(target, deadline).await?;
        let mut measured = Vec::with_capacity(queues.len());
        let mut found = Found::default();
        for queue in queues {
            let depth = ready.with_login(async |broker, access| broker.depth(access, queue, deadline).await);
            measured.push(match depth.await {
                Ok(report) => {
                    found.any = true;
                    answer::measured(queue, &report, Timestamp::now())
                }
                Err(error) if found.is_about_the_queue(&error) => failed(queue, &error, target),
                Err(error) => return Err(from_broker(&error)),
            });
        }
        Ok(Reply::json(200, &json!({"target": target.endpoint.queue_manager, "queues": measured})))
    }
}

/// Answers of the broker so far.
#[derive(Default)]
struct Found {
    /// True if the broker has answered about a queue.
    any: bool,
    refusals: usize,
}

impl Found {
    /// True if the other queues can be measured, although this one cannot.
    fn is_about_the_queue(&mut self, error: &BrokerError) -> bool {
        match error {
            BrokerError::QueueNotFound { .. } => {
                self.any = true;
                true
            }
            BrokerError::Rejected { .. } | BrokerError::Unsupported { .. } => {
                self.refusals += 1;
                self.any || self.refusals < REFUSALS
            }
            _ => false,
        }
    }
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
        let missing = || BrokerError::queue_not_found("Q".to_owned().try_into().unwrap());
        let refused = || BrokerError::rejected("no");
        let mut found = Found::default();
        for error in [
            BrokerError::unreachable("down"),
            BrokerError::timeout("late"),
            BrokerError::authentication_failed("who"),
            BrokerError::pool_timeout(),
        ] {
            assert!(!found.is_about_the_queue(&error), "{error}");
        }
        assert!(found.is_about_the_queue(&refused()) && found.is_about_the_queue(&refused()));
        assert!(!found.is_about_the_queue(&refused()), "no queue was measured before");
        let mut found = Found::default();
        assert!(found.is_about_the_queue(&missing()));
        assert!((0..10).all(|_| found.is_about_the_queue(&refused())));
    }
}
