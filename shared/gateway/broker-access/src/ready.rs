//! Target that is ready for operations: its secrets are read, and the client of its broker is
//! selected. If the broker refuses the secrets, they are read again.

use std::fmt;

use broker::{Broker, Deadline};
use mq::{Access, BrokerError, Target, TestReport};

use crate::brokers::Brokers;
use crate::secrets::{SecretError, Secrets};

/// Target with the client of its broker and its secrets. The secrets are available only through
/// [`Self::with_login`], which reads them again if the broker refuses them.
pub struct Ready<'a> {
    broker: &'a dyn Broker,
    secrets: &'a Secrets,
    access: Access,
    target: &'a Target,
    deadline: Deadline,
}

/// Result of an operation at a broker. [`Ready::with_login`] asks it whether the operation failed
/// because of the target's secrets.
pub trait Attempt {
    /// True if the operation failed because of the target's secrets. `broker` is the client that
    /// ran the operation, and classifies its errors.
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

impl Brokers {
    /// Reads the target's secrets and selects the client of its broker.
    ///
    /// # Errors
    /// If a secret cannot be read or used before `deadline`.
    pub async fn ready<'a>(
        &'a self,
        target: &'a Target,
        deadline: Deadline,
    ) -> Result<Ready<'a>, SecretError> {
        let broker = self.of(target.endpoint.broker);
        let access = self.secrets.access(target, deadline).await?;
        Ok(Ready { broker, secrets: &self.secrets, access, target, deadline })
    }
}

impl<'a> Ready<'a> {
    /// Returns the client of the target's broker, for calls that need no connection.
    #[must_use]
    pub fn broker(&self) -> &'a dyn Broker {
        self.broker
    }

    /// Runs `attempt` with the target's secrets, and returns its result. If it fails because of the
    /// secrets, they are read again, and if they have changed, `attempt` runs a second time.
    pub async fn with_login<T: Attempt>(&self, attempt: impl AsyncFn(&dyn Broker, &Access) -> T) -> T {
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

impl fmt::Debug for Ready<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready").field("target", &format_args!("{}", self.target)).finish_non_exhaustive()
    }
}
