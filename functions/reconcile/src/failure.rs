use std::fmt;

use accepted::AcceptedError;
use catalog::DatabaseError;
use objects::ObjectError;
use retention::RetentionError;
use transport::AnnounceError;

use crate::trigger::UnknownEvent;

/// What a run looks for, each by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Payloads that never became batches.
    Objects,
    /// Batches that stopped.
    Stopped,
    /// Batches whose end did not happen.
    Unfinished,
    /// Batches at their end whose objects do not expire.
    Kept,
    /// Uploads whose time is over.
    Uploads,
    /// Batches that are older than the history of loads.
    History,
}

impl Look {
    /// In the order in which they are taken.
    pub(crate) const ALL: [Self; 6] =
        [Self::Objects, Self::Stopped, Self::Unfinished, Self::Kept, Self::Uploads, Self::History];

    /// As logs name it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Objects => "objects",
            Self::Stopped => "stopped",
            Self::Unfinished => "unfinished",
            Self::Kept => "kept",
            Self::Uploads => "uploads",
            Self::History => "history",
        }
    }
}

impl fmt::Display for Look {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Why a run did not do all of its work. What it did is done; the rest is the next run's.
#[derive(Debug, thiserror::Error)]
pub enum NotReconciled {
    #[error("the event is not known")]
    Event(#[from] UnknownEvent),
    /// Each is in the log with its reason.
    #[error("these looks failed: {}", names(.0))]
    Looks(Vec<Look>),
}

fn names(looks: &[Look]) -> String {
    looks.iter().map(|look| look.as_str()).collect::<Vec<_>>().join(", ")
}

/// Why a look failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("storage did not answer")]
    Objects(#[from] ObjectError),
    #[error("the table of batch items did not do its work")]
    Accepted(#[from] AcceptedError),
    #[error("the database did not do its work")]
    Database(#[from] DatabaseError),
    #[error("objects of a final batch are kept")]
    Retention(#[from] RetentionError),
    #[error("the queue did not take the news")]
    Queue(#[from] AnnounceError),
    #[error("there was not enough time for all of it")]
    OutOfTime,
}

/// The first thing that went wrong with one of many, after which the others had their turn.
#[derive(Debug, Default)]
pub(crate) struct First(Option<Trouble>);

impl First {
    /// Logs a failure and keeps it if it is the first.
    pub(crate) fn note(&mut self, trouble: Trouble) {
        let error: &dyn std::error::Error = &trouble;
        tracing::warn!(event_type = "find.left", error, "left for the next run");
        self.0.get_or_insert(trouble);
    }

    pub(crate) const fn is_none(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn end(self) -> Result<(), Trouble> {
        self.0.map_or(Ok(()), Err)
    }
}
