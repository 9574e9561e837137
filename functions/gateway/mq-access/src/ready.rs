//! Reads the secrets of an order's target and selects the client of its broker. Converts the errors
//! of a target that cannot be used to problems.

use api::{Problem, Reason};
use broker::Deadline;
use broker_access::{Ready, SecretError};
use mq::{QueueName, Target};

use crate::MqAccess;

impl MqAccess {
    /// Reads the secrets of the order's target, and selects the client of its broker.
    ///
    /// # Errors
    /// The problem of a secret that cannot be read or used before `deadline`.
    pub(crate) async fn ready<'a>(
        &'a self,
        target: &'a Target,
        deadline: Deadline,
    ) -> Result<Ready<'a>, Problem> {
        self.brokers.ready(target, deadline).await.map_err(|unusable| from_secret(&unusable))
    }
}

/// Returns the queue of the order's target.
///
/// # Errors
/// If the target names no queue.
pub(crate) fn queue_of(target: &Target) -> Result<&QueueName, Problem> {
    target.queue.as_ref().ok_or_else(|| Problem::violation("/target/queue", "is required"))
}

/// Converts the error of an unusable secret to a problem response.
fn from_secret(unusable: &SecretError) -> Problem {
    match unusable {
        SecretError::Unreadable(_)
        | SecretError::Binary(_)
        | SecretError::NoLogin(_)
        | SecretError::NoFile(_)
        | SecretError::Object { .. }
        | SecretError::NoUserInProfile(_) => Problem::new(Reason::AuthenticationFailed, unusable.to_string()),
        SecretError::NoUser { target, .. } => {
            Problem::violation(format!("{target}/auth/user"), unusable.to_string())
        }
        SecretError::OfTls(unusable) => from_secret(unusable),
    }
}

#[cfg(test)]
mod tests {
    use mq::SecretRef;

    use super::*;

    #[test]
    fn only_a_user_that_the_request_can_name_is_a_fault_of_the_request() {
        let secret = || SecretRef::SecretsManager("local/rabbit".to_owned());
        for (target, pointer) in [("/target", "/target/auth/user"), ("", "/auth/user")] {
            let unusable = SecretError::NoUser { secret: secret(), target: target.to_owned() };
            let problem = from_secret(&unusable);
            assert_eq!(problem.reason, Reason::SchemaViolation);
            assert_eq!(problem.faults[0].pointer, pointer);
            assert!(problem.to_string().contains("names a user"), "{problem}");
        }
        for unusable in [
            SecretError::NoUserInProfile("orders".to_owned().try_into().unwrap()),
            SecretError::NoLogin(secret()),
            SecretError::OfTls(Box::new(SecretError::Unreadable(secret()))),
        ] {
            let problem = from_secret(&unusable);
            assert_eq!((problem.reason, problem.faults.len()), (Reason::AuthenticationFailed, 0));
            assert_eq!(problem.detail, unusable.to_string());
        }
    }
}
