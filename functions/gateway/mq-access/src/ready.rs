//! A target that is ready for a broker: its secrets are read, and read again if the broker refuses
//! them.

use api::Problem;
use broker::{Broker, Deadline};
use mq::{Access, BrokerError, QueueName, Target, TestReport};

use crate::MqAccess;
use crate::secrets::{SecretError, Secrets};

/// A target with its broker and its secrets, which [`Self::with_login`] alone hands out: no
/// operation can forget that they may have been replaced since they were read.
pub(crate) struct Ready<'a> {
    pub(crate) broker: &'a dyn Broker,
    secrets: &'a Secrets,
    access: Access,
    target: &'a Target,
    deadline: Deadline,
}

/// Result of an attempt at a broker.
pub(crate) trait Attempt {
    /// Tells whether the attempt failed because of the target's secrets.
    fn is_about_secrets(&self, broker: &dyn Broker) -> bool;
}

impl<T> Attempt for Result<T, BrokerError> {
    fn is_about_secrets(&self, broker: &dyn Broker) -> bool {
        self.as_ref().is_err_and(|error| broker.is_about_secrets(error))
    }
}

impl Attempt for TestReport {
    fn is_about_secrets(&self, _: &dyn Broker) -> bool {
        self.is_login_refused()
    }
}

impl MqAccess {
    /// Reads the target's secrets and finds its broker.
    pub(crate) async fn ready<'a>(
        &'a self,
        target: &'a Target,
        deadline: Deadline,
    ) -> Result<Ready<'a>, SecretError> {
        let broker = self.brokers.of(target.endpoint.broker);
        let access = self.secrets.access(target, deadline).await?;
        Ok(Ready { broker, secrets: &self.secrets, access, target, deadline })
    }
}

impl<'a> Ready<'a> {
    pub(crate) fn queue(&self) -> Result<&'a QueueName, Problem> {
        self.target.queue.as_ref().ok_or_else(|| Problem::violation("/target/queue", "is required"))
    }

    /// Makes an attempt with the target's secrets. If it fails because of them, they are read
    /// again. If they are others than before, the attempt is made a second time.
    pub(crate) async fn with_login<T: Attempt>(&self, attempt: impl AsyncFn(&dyn Broker, &Access) -> T) -> T {
        let result = attempt(self.broker, &self.access).await;
        if !result.is_about_secrets(self.broker) {
            return result;
        }
        match self.secrets.renewed(self.target, &self.access, self.deadline).await {
            Some(access) => attempt(self.broker, &access).await,
            None => result,
        }
    }
}
