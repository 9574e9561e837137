//! Target of a load test, and the queues that the test's workers use there.

use broker::Deadline;
use broker::load::{GetOptions, LoadConsumer, LoadProducer, PutOptions};
use broker_access::{Brokers, SecretError};
use load_test::Queues;
use load_test::store::TestRecord;
use mq::{BrokerError, DepthReport, QueueName, Target};

/// Target of a load test with the test's queues there, and the pool of connections for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TestTarget<'a> {
    brokers: &'a Brokers,
    target: &'a Target,
    queues: &'a Queues,
}

/// Reason why the target of a load test cannot be used. Its text is shown to the caller of the API.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum TestTargetError {
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(transparent)]
    Broker(#[from] BrokerError),
    #[error("the target names no queue")]
    NoQueue,
}

/// Precision with which a [`TestTargetError`] states why a target cannot be used, the least precise
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ErrorPrecision {
    /// The error only says that a time limit has passed.
    Time,
    /// The error says that the target cannot be reached, or that the connection was lost.
    Loss,
    /// The error names the cause: the target refuses the use, the target's password cannot be read,
    /// or the target names no queue.
    Refusal,
}

impl TestTargetError {
    /// True if every later attempt to use the target would fail in the same way, so that a retry is
    /// useless.
    pub(crate) const fn is_final(&self) -> bool {
        match self {
            Self::Broker(error) => matches!(
                error,
                BrokerError::QueueNotFound { .. }
                    | BrokerError::AuthenticationFailed { .. }
                    | BrokerError::Unsupported { .. }
                    | BrokerError::MessageTooLarge { .. }
                    | BrokerError::AddressRefused { .. }
            ),
            Self::Secret(_) => false,
            Self::NoQueue => true,
        }
    }

    /// Returns the precision with which the error states why the target cannot be used.
    pub(crate) const fn precision(&self) -> ErrorPrecision {
        match self {
            Self::Broker(BrokerError::Timeout { .. } | BrokerError::PoolTimeout { .. }) => {
                ErrorPrecision::Time
            }
            Self::Broker(error) if error.may_mean_a_lost_broker() => ErrorPrecision::Loss,
            Self::Broker(_) | Self::Secret(_) | Self::NoQueue => ErrorPrecision::Refusal,
        }
    }
}

impl<'a> TestTarget<'a> {
    /// Number of queues of a test that are measured at once, each on its own connection.
    pub(crate) const AT_ONCE: usize = 3;

    /// Returns the target of a load test, with the queues that the test uses there.
    pub(crate) const fn of(brokers: &'a Brokers, record: &'a TestRecord) -> Self {
        Self { brokers, target: &record.target, queues: &record.test.queues }
    }

    /// Returns the queue that the producer or consumer with this number uses.
    pub(crate) fn queue(&self, number: u32) -> Result<QueueName, TestTargetError> {
        let own = self.queues.of_worker(number).or_else(|| self.target.queue.clone());
        own.ok_or(TestTargetError::NoQueue)
    }

    /// Returns the names of all queues of the load test.
    pub(crate) fn queues(&self) -> impl Iterator<Item = Result<QueueName, TestTargetError>> {
        (0..self.queue_count()).map(move |number| self.queue(number))
    }

    /// Returns the number of the load test's queues.
    pub(crate) const fn queue_count(&self) -> u32 {
        self.queues.count()
    }

    /// Measures the depths of the first [`Self::AT_ONCE`] of these queues concurrently, and returns
    /// them in the same order.
    pub(crate) async fn depths(
        &self,
        queues: &[QueueName],
        deadline: Deadline,
    ) -> Result<Vec<DepthReport>, TestTargetError> {
        let depth = async |index: usize| match queues.get(index) {
            Some(queue) => self.depth(queue, deadline).await.map(Some),
            None => Ok(None),
        };
        let (first, second, third) = tokio::join!(Box::pin(depth(0)), Box::pin(depth(1)), Box::pin(depth(2)));
        [first, second, third].into_iter().filter_map(Result::transpose).collect()
    }

    /// Measures the depth of a queue: the number of messages on it.
    pub(crate) async fn depth(
        &self,
        queue: &QueueName,
        deadline: Deadline,
    ) -> Result<DepthReport, TestTargetError> {
        let ready = self.brokers.ready(self.target, deadline).await?;
        let depth = ready.with_login(async |broker, access| broker.depth(access, queue, deadline).await);
        Ok(depth.await?)
    }

    /// Opens a connection on which a producer puts messages on `queue`.
    pub(crate) async fn producer<'o>(
        &self,
        queue: &'o QueueName,
        options: &'o PutOptions,
        deadline: Deadline,
    ) -> Result<Box<dyn LoadProducer + 'o>, TestTargetError> {
        let ready = self.brokers.ready(self.target, deadline).await?;
        let connected = ready.with_login(async |broker, access| {
            broker.connect_load_producer(access, queue, options, deadline).await
        });
        Ok(connected.await?)
    }

    /// Opens a connection on which a consumer takes messages from `queue`. It takes none before the
    /// first call of [`LoadConsumer::next`].
    pub(crate) async fn consumer<'o>(
        &self,
        queue: &'o QueueName,
        options: &'o GetOptions,
        deadline: Deadline,
    ) -> Result<Box<dyn LoadConsumer + 'o>, TestTargetError> {
        let ready = self.brokers.ready(self.target, deadline).await?;
        let connected = ready.with_login(async |broker, access| {
            broker.connect_load_consumer(access, queue, options, deadline).await
        });
        Ok(connected.await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_is_not_tried_again_and_a_broker_that_is_away_is() {
        for (error, is_final, precision) in [
            (BrokerError::authentication_failed("ours"), true, ErrorPrecision::Refusal),
            (BrokerError::unsupported("ours"), true, ErrorPrecision::Refusal),
            (BrokerError::too_large("ours"), true, ErrorPrecision::Refusal),
            (BrokerError::queue_not_found("Q".to_owned().try_into().unwrap()), true, ErrorPrecision::Refusal),
            (BrokerError::rejected("ours"), false, ErrorPrecision::Refusal),
            (BrokerError::unreachable("ours"), false, ErrorPrecision::Loss),
            (BrokerError::timeout("ours"), false, ErrorPrecision::Time),
            (BrokerError::pool_timeout(), false, ErrorPrecision::Time),
            (BrokerError::in_doubt("ours"), false, ErrorPrecision::Loss),
        ] {
            let target = TestTargetError::from(error.clone());
            assert_eq!((target.is_final(), target.precision()), (is_final, precision), "{error:?}");
        }
    }
}
