//! Record of the last day on which each API key was used, in an item beside the key's own.

use std::time::Duration;

use attempt::Remembered;
use aws_sdk_dynamodb::error::{DisplayErrorContext, SdkError};
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::AttributeValue;
use jiff::civil::Date;

use super::{AccessStore, MAX_REMEMBERED};
use crate::api_key::KeyHash;
use crate::pk;

/// Time for which a Lambda environment caches the day on which it last recorded a key's use: 24
/// hours, so that this day is over when the cache entry expires.
const NOTED: Duration = Duration::from_secs(86_400);
/// Time after which an environment tries again to record a key's use, after a failure.
const NOTE_REPAIR: Duration = Duration::from_secs(3_600);
/// Longest time for which a request waits until its key's use is recorded.
const NOTE_LIMIT: Duration = Duration::from_millis(300);

/// Cache of the API keys whose use was recorded recently, or could not be recorded.
#[derive(Debug)]
pub(super) struct KeyUses {
    /// Day on which the use of an API key was last recorded, by the key's hash.
    noted: Remembered<KeyHash, Date>,
    /// API keys whose use could not be recorded. No request tries to record it again before the
    /// entry expires.
    unnoted: Remembered<KeyHash, ()>,
}

impl KeyUses {
    pub(super) fn new() -> Self {
        Self {
            noted: Remembered::new(NOTED, MAX_REMEMBERED),
            unnoted: Remembered::new(NOTE_REPAIR, MAX_REMEMBERED),
        }
    }
}

impl AccessStore {
    /// Records that an API key was used today, in an item of its own. A failure is logged, and does
    /// not fail the request.
    pub(crate) async fn note_use(&self, hash: &KeyHash, today: Date) {
        if self.key_uses.noted.get(hash) == Some(today) || self.key_uses.unnoted.get(hash).is_some() {
            return;
        }
        // Requests at the same time need not note it as well.
        self.key_uses.noted.put(*hash, today);
        let update = self
            .dynamodb
            .update_item()
            .table_name(&self.table)
            .key("pk", AttributeValue::S(pk::used(hash)))
            .update_expression("SET lastUsedOn = :today")
            .condition_expression("attribute_not_exists(lastUsedOn) OR lastUsedOn < :today")
            .expression_attribute_values(":today", AttributeValue::S(today.to_string()));
        // Boxed, as in `read`: a key's use is noted once a day.
        let error = match tokio::time::timeout(NOTE_LIMIT, Box::pin(update.send())).await {
            Ok(Ok(_)) => return,
            Ok(Err(error)) if is_noted_already(&error) => return,
            Ok(Err(error)) => DisplayErrorContext(error).to_string(),
            Err(late) => late.to_string(),
        };
        self.key_uses.noted.forget(hash);
        self.key_uses.unnoted.put(*hash, ());
        let key_id = hash.id();
        tracing::warn!(
            event_type = "access.use_not_noted",
            key_id,
            error,
            "cannot note that key `{key_id}` was used today"
        );
    }
}

fn is_noted_already(error: &SdkError<UpdateItemError>) -> bool {
    error.as_service_error().is_some_and(UpdateItemError::is_conditional_check_failed_exception)
}
