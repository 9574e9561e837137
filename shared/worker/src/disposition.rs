use retry::{Retry, Retryable};

/// What becomes of a record whose work failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// It is acknowledged: the job has moved it elsewhere.
    Acknowledge,
    /// It is delivered again after a pause that grows with each receive.
    RetryLater,
    /// It is delivered again at once, so that it is soon in the dead-letter queue.
    RetryNow,
    /// It is delivered again when the queue's own visibility timeout is over.
    LeaveToQueue,
}

impl Disposition {
    /// What becomes of a record by what helps after its failure.
    #[must_use]
    pub const fn of(retry: Retry) -> Self {
        match retry {
            Retry::Later | Retry::Contended => Self::RetryLater,
            // More receives change nothing. The dead-letter queue's function decides what is next.
            Retry::AfterRepair | Retry::Never => Self::RetryNow,
            // There is no time for the call that changes the visibility timeout either.
            Retry::OutOfTime => Self::LeaveToQueue,
        }
    }
}

/// Why a record's work was not done.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum Failure<E> {
    #[error(transparent)]
    Job(E),
    #[error("not enough time left in the invocation")]
    OutOfTime,
}

impl<E: Retryable + 'static> Retryable for Failure<E> {
    fn retry(&self) -> Retry {
        match self {
            Self::Job(error) => error.retry(),
            Self::OutOfTime => Retry::OutOfTime,
        }
    }
}

impl<E: Retryable + 'static> Failure<E> {
    pub(crate) fn log(&self, subject: &str) {
        let error: &dyn std::error::Error = self;
        if self.retry().is_transient() {
            let event_type = format!("{subject}.interrupted");
            tracing::warn!(event_type, error, "the {subject} will be retried");
        } else {
            let event_type = format!("{subject}.refused");
            tracing::error!(event_type, error, "the {subject}'s message is left to the dead-letter queue");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directive_has_its_disposition() {
        for (retry, disposition) in [
            (Retry::Later, Disposition::RetryLater),
            (Retry::Contended, Disposition::RetryLater),
            (Retry::AfterRepair, Disposition::RetryNow),
            (Retry::Never, Disposition::RetryNow),
            (Retry::OutOfTime, Disposition::LeaveToQueue),
        ] {
            assert_eq!(Disposition::of(retry), disposition, "{retry:?}");
        }
    }
}
