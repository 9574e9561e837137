//! DynamoDB stream of the table of idempotency records.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_dynamodbstreams::types::{
    AttributeValue as Streamed, Record, Shard as Listed, ShardIteratorType, StreamRecord,
};
use aws_sdk_dynamodbstreams::{Client, Error};
use jiff::Timestamp;
use usage::Change;

/// Shard of the DynamoDB stream. Changes within a shard are in order. DynamoDB closes a shard after
/// some hours, and continues in a child shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    pub(crate) id: String,
    pub(crate) parent: Option<String>,
    /// True if the shard receives no further changes.
    pub(crate) is_closed: bool,
}

impl Shard {
    /// Converts a shard as DynamoDB lists it; `None` if it has no id.
    fn of(listed: Listed) -> Option<Self> {
        let Listed { shard_id, parent_shard_id: parent, sequence_number_range, .. } = listed;
        let is_closed = sequence_number_range.is_some_and(|range| range.ending_sequence_number.is_some());
        Some(Self { id: shard_id?, parent, is_closed })
    }
}

/// Position at which reading a shard starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start<'a> {
    /// Position before the oldest change that the stream still has.
    Oldest,
    /// Position after the change with this sequence number.
    After(&'a str),
}

/// Changes of one shard that one call to the stream returned.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) changes: Vec<Change>,
    /// Iterator for the next call; `None` at the end of a closed shard.
    pub(crate) next: Option<String>,
}

/// Reason why the stream cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    #[error("the stream no longer has the changes at this place")]
    Trimmed,
    #[error("the stream cannot be read")]
    Call(#[source] Box<Error>),
}

/// Stream of the changes of a `DynamoDB` table. Tests implement it in memory.
pub(crate) trait Stream: Sync {
    /// Lists the shards that the stream still has, in any order.
    fn shards(&self) -> impl Future<Output = Result<Vec<Shard>, StreamError>> + Send;

    /// Returns an iterator with which the first call of [`Self::page`] reads the shard from `start`
    /// on.
    fn iterator(
        &self,
        shard: &str,
        start: Start<'_>,
    ) -> impl Future<Output = Result<String, StreamError>> + Send;

    /// Reads the next changes at an iterator: up to 1,000, or up to a megabyte.
    fn page(&self, iterator: String) -> impl Future<Output = Result<Page, StreamError>> + Send;
}

/// Client of the DynamoDB stream that has the changes of a table.
#[derive(Clone, Debug)]
pub struct TableStream {
    client: Client,
    arn: String,
}

impl TableStream {
    #[must_use]
    pub const fn new(client: Client, arn: String) -> Self {
        Self { client, arn }
    }
}

impl Stream for TableStream {
    async fn shards(&self) -> Result<Vec<Shard>, StreamError> {
        let mut shards = Vec::new();
        let mut after = None;
        loop {
            let call = self.client.describe_stream().stream_arn(&self.arn);
            let answer = call.set_exclusive_start_shard_id(after).send().await.map_err(Error::from)?;
            let Some(described) = answer.stream_description else { return Ok(shards) };
            shards.extend(described.shards.unwrap_or_default().into_iter().filter_map(Shard::of));
            after = described.last_evaluated_shard_id;
            if after.is_none() {
                return Ok(shards);
            }
        }
    }

    async fn iterator(&self, shard: &str, start: Start<'_>) -> Result<String, StreamError> {
        let call = self.client.get_shard_iterator().stream_arn(&self.arn).shard_id(shard);
        let call = match start {
            Start::Oldest => call.shard_iterator_type(ShardIteratorType::TrimHorizon),
            Start::After(sequence) => {
                call.shard_iterator_type(ShardIteratorType::AfterSequenceNumber).sequence_number(sequence)
            }
        };
        let answer = call.send().await.map_err(Error::from)?;
        // DynamoDB gives no iterator for a shard that it has trimmed.
        answer.shard_iterator.ok_or(StreamError::Trimmed)
    }

    async fn page(&self, iterator: String) -> Result<Page, StreamError> {
        let answer = self.client.get_records().shard_iterator(iterator).send().await.map_err(Error::from)?;
        let records = answer.records.unwrap_or_default();
        Ok(Page {
            changes: records.into_iter().filter_map(change).collect(),
            next: answer.next_shard_iterator,
        })
    }
}

impl From<Error> for StreamError {
    fn from(error: Error) -> Self {
        match error {
            Error::TrimmedDataAccessException(_) => Self::Trimmed,
            other => Self::Call(Box::new(other)),
        }
    }
}

fn change(record: Record) -> Option<Change> {
    let StreamRecord { approximate_creation_date_time, new_image, old_image, sequence_number, .. } =
        record.dynamodb?;
    let at = approximate_creation_date_time.and_then(|at| Timestamp::from_second(at.secs()).ok());
    Some(Change {
        sequence: sequence_number?,
        at: at.unwrap_or_else(Timestamp::now),
        old: old_image.map(image),
        new: new_image.map(image),
    })
}

/// Returns those attributes of a changed item that are strings, numbers or booleans. Usage is
/// counted from no others.
fn image(streamed: HashMap<String, Streamed>) -> HashMap<String, AttributeValue> {
    let plain = |(name, value)| {
        let value = match value {
            Streamed::S(text) => AttributeValue::S(text),
            Streamed::N(number) => AttributeValue::N(number),
            Streamed::Bool(flag) => AttributeValue::Bool(flag),
            _ => return None,
        };
        Some((name, value))
    };
    streamed.into_iter().filter_map(plain).collect()
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodbstreams::primitives::{Blob, DateTime};

    use super::*;

    #[test]
    fn a_change_keeps_its_number_its_time_and_the_plain_values() {
        let streamed = [
            ("status", Streamed::S("COMPLETED".to_owned())),
            ("bytes", Streamed::N("40".to_owned())),
            ("body", Streamed::B(Blob::new("{}"))),
        ];
        let streamed = StreamRecord::builder()
            .sequence_number("100")
            .approximate_creation_date_time(DateTime::from_secs(1_764_208_800))
            .set_new_image(Some(streamed.map(|(name, value)| (name.to_owned(), value)).into()))
            .build();
        let found = change(Record::builder().dynamodb(streamed).build()).unwrap();
        assert_eq!((found.sequence.as_str(), found.at.to_string().as_str()), ("100", "2025-11-27T02:00:00Z"));
        let new = found.new.unwrap();
        assert_eq!(new["status"], AttributeValue::S("COMPLETED".to_owned()));
        assert_eq!((new.len(), &new["bytes"], found.old), (2, &AttributeValue::N("40".to_owned()), None));
        assert!(change(Record::builder().build()).is_none());
    }

    #[test]
    fn a_trimmed_place_is_told_from_a_stream_that_cannot_be_read() {
        let trimmed = aws_sdk_dynamodbstreams::types::error::TrimmedDataAccessException::builder().build();
        assert!(matches!(
            StreamError::from(Error::TrimmedDataAccessException(trimmed)),
            StreamError::Trimmed
        ));
        let away = aws_sdk_dynamodbstreams::types::error::InternalServerError::builder().build();
        assert!(matches!(StreamError::from(Error::InternalServerError(away)), StreamError::Call(_)));
    }
}
