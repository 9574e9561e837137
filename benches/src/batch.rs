//! Batches as the API shows them.

use jiff::Timestamp;
use serde_json::Value;

use crate::error::Error;

/// Path of the list of batches. A batch is below it, by its id.
pub(crate) const BATCHES: &str = "/v1/inovafarma/batches";

/// Times of a batch that is final.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) received_at: Timestamp,
    pub(crate) finished_at: Timestamp,
}

impl Times {
    pub(crate) fn of(batch: &Value) -> Result<Self, Error> {
        let time =
            |member: &str| batch.get(member).and_then(Value::as_str).unwrap_or_default().parse::<Timestamp>();
        Ok(Self { received_at: time("received_at")?, finished_at: time("finished_at")? })
    }

    pub(crate) fn seconds(self) -> f64 {
        self.finished_at.duration_since(self.received_at).as_secs_f64()
    }
}
