//! Transitions as DynamoDB's conditional writes, and items as records.

use std::collections::HashMap;
use std::fmt::Display;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use jiff::Timestamp;

use crate::claim::ClaimRequest;
use crate::error::StoreError;
use crate::protocol::{
    Body, LeftBehind, Progress, Record, Status, StoredResponse, Token, Transition, Whereabouts,
};

mod item;

pub(crate) use item::record;

type Item = HashMap<String, AttributeValue>;

/// What stands in a record beside what the protocol looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Detail<'a> {
    Request(&'a ClaimRequest<'a>),
    Took(Duration),
    Failed { took: Duration, error: &'a str, in_doubt: u64 },
    None,
}

/// Sends a transition. Where its condition fails, the record that stood in its way comes back.
pub(crate) async fn write(
    dynamodb: &Client,
    table: &str,
    pk: &str,
    transition: &Transition,
    detail: Detail<'_>,
) -> Result<Result<(), Record>, StoreError> {
    if let (Transition::Claim { .. }, Some(record)) = (transition, transition.apply(None)) {
        return put(dynamodb, table, pk, &record, detail).await;
    }
    let expression = expression(transition, detail);
    let update = dynamodb
        .update_item()
        .table_name(table)
        .key("pk", text(pk))
        .update_expression(expression.update())
        .condition_expression(expression.condition)
        .set_expression_attribute_names(Some(expression.names))
        .set_expression_attribute_values(Some(expression.values))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    match update.send().await {
        Ok(_) => Ok(Ok(())),
        Err(SdkError::ServiceError(error)) if error.err().is_conditional_check_failed_exception() => {
            match error.into_err() {
                UpdateItemError::ConditionalCheckFailedException(failed) => in_the_way(failed.item).map(Err),
                other => Err(StoreError::unavailable(other)),
            }
        }
        Err(error) => Err(StoreError::unavailable(error)),
    }
}

/// Reads a record as the last write left it; `None` if there is none.
pub(crate) async fn read(dynamodb: &Client, table: &str, pk: &str) -> Result<Option<Record>, StoreError> {
    let get = dynamodb.get_item().table_name(table).key("pk", text(pk)).consistent_read(true);
    let item = get.send().await.map_err(StoreError::unavailable)?.item;
    item.map(record).transpose()
}

/// Notes beside a prepared record that its effect is in doubt. The protocol does not look at it.
/// Returns whether the record was still the token's.
pub(crate) async fn note_doubt(
    dynamodb: &Client,
    table: &str,
    pk: &str,
    token: &Token,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let mut to = Expression::default();
    to.set("doubtNotedAt", iso(now));
    to.on(OWN_PREPARED, mine(token, &[Status::Prepared]));
    let update = dynamodb
        .update_item()
        .table_name(table)
        .key("pk", text(pk))
        .update_expression(to.update())
        .condition_expression(to.condition)
        .set_expression_attribute_names(Some(to.names))
        .set_expression_attribute_values(Some(to.values));
    match update.send().await {
        Ok(_) => Ok(true),
        Err(SdkError::ServiceError(error)) if error.err().is_conditional_check_failed_exception() => {
            Ok(false)
        }
        Err(error) => Err(StoreError::unavailable(error)),
    }
}

async fn put(
    dynamodb: &Client,
    table: &str,
    pk: &str,
    record: &Record,
    detail: Detail<'_>,
) -> Result<Result<(), Record>, StoreError> {
    let mut item = Item::from([
        ("pk".to_owned(), text(pk)),
        ("requestHash".to_owned(), text(&record.request_hash)),
        ("status".to_owned(), text(record.status.as_str())),
        ("owner".to_owned(), text(&record.owner)),
        ("attempt".to_owned(), number(record.attempt)),
        ("leaseExpiresAt".to_owned(), number(record.lease_expires_at)),
        // By it, a filter of the table's stream knows a claim over an expired record.
        ("checkpoint".to_owned(), number(record.progress.done)),
        ("possibleDuplicates".to_owned(), number(record.progress.repeated)),
        ("createdAt".to_owned(), iso(record.created_at)),
        ("updatedAt".to_owned(), iso(record.updated_at)),
        ("expiresAt".to_owned(), iso(record.expires_at)),
        ("ttl".to_owned(), ttl(record.expires_at)),
    ]);
    if let Detail::Request(request) = detail {
        item.extend([
            ("operationType".to_owned(), text(request.operation.as_str())),
            ("idempotencyKey".to_owned(), text(request.key.as_str())),
            ("tenantId".to_owned(), text(request.tenant)),
            ("traceId".to_owned(), text(request.trace_id)),
        ]);
        // An index has no empty keys.
        if !request.target.is_empty() {
            item.insert("target".to_owned(), text(request.target));
        }
        let rights = request.rights.map(|rights| ("requestRights".to_owned(), text(rights.as_str())));
        item.extend(rights);
    }
    let put = dynamodb
        .put_item()
        .table_name(table)
        .set_item(Some(item))
        .condition_expression("attribute_not_exists(pk) OR (expiresAt <= :now AND leaseExpiresAt <= :nowMs)")
        .expression_attribute_values(":now", iso(record.created_at))
        .expression_attribute_values(":nowMs", number(record.created_at.as_millisecond()))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    match put.send().await {
        Ok(_) => Ok(Ok(())),
        Err(SdkError::ServiceError(error)) if error.err().is_conditional_check_failed_exception() => {
            match error.into_err() {
                PutItemError::ConditionalCheckFailedException(failed) => in_the_way(failed.item).map(Err),
                other => Err(StoreError::unavailable(other)),
            }
        }
        Err(error) => Err(StoreError::unavailable(error)),
    }
}

/// An update with its condition.
#[derive(Debug, Default)]
struct Expression {
    set: Vec<String>,
    remove: Vec<&'static str>,
    condition: &'static str,
    names: HashMap<String, String>,
    values: HashMap<String, AttributeValue>,
}

impl Expression {
    /// Sets an attribute; its name and value get placeholders, since some names are words of
    /// DynamoDB's own.
    fn set(&mut self, name: &'static str, value: AttributeValue) {
        self.set.push(format!("#{name} = :{name}"));
        self.place(name, value);
    }

    /// Sets an attribute that is not there yet.
    fn set_first(&mut self, name: &'static str, value: AttributeValue) {
        self.set.push(format!("#{name} = if_not_exists(#{name}, :{name})"));
        self.place(name, value);
    }

    fn place(&mut self, name: &'static str, value: AttributeValue) {
        self.names.insert(format!("#{name}"), name.to_owned());
        self.values.insert(format!(":{name}"), value);
    }

    fn remove(&mut self, name: &'static str) {
        self.remove.push(name);
    }

    /// Demands what the values say.
    fn on(
        &mut self,
        condition: &'static str,
        values: impl IntoIterator<Item = (&'static str, AttributeValue)>,
    ) {
        self.condition = condition;
        for name in ["owner", "status", "attempt"] {
            self.names.insert(format!("#{name}"), name.to_owned());
        }
        self.values.extend(values.into_iter().map(|(name, value)| (name.to_owned(), value)));
    }

    fn update(&self) -> String {
        let mut update = format!("SET {}", self.set.join(", "));
        if !self.remove.is_empty() {
            update.push_str(" REMOVE ");
            update.push_str(&self.remove.join(", "));
        }
        update
    }
}

const OWN_IN_PROGRESS: &str = "#owner = :mine AND #attempt = :myAttempt AND #status = :inProgress";
const OWN_PREPARED: &str = "#owner = :mine AND #attempt = :myAttempt AND #status = :prepared";
const OWN_OPEN: &str = "#owner = :mine AND #attempt = :myAttempt AND #status IN (:inProgress, :prepared)";
const OWN_FURTHER: &str = "#owner = :mine AND #attempt = :myAttempt AND #status = :inProgress AND \
                           (attribute_not_exists(checkpoint) OR checkpoint < :checkpoint OR \
                            possibleDuplicates < :possibleDuplicates OR \
                            attribute_not_exists(placeId) OR placeId <> :placeId OR placeName <> :placeName)";
/// For work that has no place.
const OWN_FURTHER_OR_PLACED: &str = "#owner = :mine AND #attempt = :myAttempt AND #status = :inProgress AND \
                                     (attribute_not_exists(checkpoint) OR checkpoint < :checkpoint OR \
                                      possibleDuplicates < :possibleDuplicates OR \
                                      attribute_exists(placeId))";
/// Records of earlier versions lack what was 0.
const AS_SEEN: &str = "#owner = :oldOwner AND #attempt = :oldAttempt AND #status = :oldStatus AND \
                       (attribute_not_exists(checkpoint) OR checkpoint = :checkpoint) AND \
                       (attribute_not_exists(possibleDuplicates) OR possibleDuplicates = :possibleDuplicates)";

fn expression(transition: &Transition, detail: Detail<'_>) -> Expression {
    let mut to = Expression::default();
    match transition {
        Transition::Claim { .. } => {}
        Transition::TakeOver { seen, seen_status, owner, now, progress, whereabouts, .. } => {
            let status = if *seen_status == Status::Prepared { Status::Prepared } else { Status::InProgress };
            to.set("status", text(status.as_str()));
            to.set("owner", text(owner));
            to.set("attempt", number(seen.attempt.saturating_add(1)));
            to.set("leaseExpiresAt", number(crate::protocol::lease_end(*now)));
            set_progress(&mut to, *progress);
            set_whereabouts(&mut to, whereabouts);
            if let Detail::Request(request) = detail {
                to.set("traceId", text(request.trace_id));
            }
            if *seen_status == Status::Prepared {
                // The attempt that ended leaves the doubt, and this one does nothing that could add
                // another.
                to.set_first("doubtNotedAt", iso(*now));
            }
            to.remove("errorMessage");
            to.remove("attemptInDoubt");
            let seen_values = [
                (":oldOwner", text(&seen.owner)),
                (":oldAttempt", number(seen.attempt)),
                (":oldStatus", text(seen_status.as_str())),
            ];
            to.on(AS_SEEN, seen_values);
        }
        Transition::Checkpoint { token, progress, whereabouts, .. } => {
            set_progress(&mut to, *progress);
            set_whereabouts(&mut to, whereabouts);
            let condition = if whereabouts.place.is_some() { OWN_FURTHER } else { OWN_FURTHER_OR_PLACED };
            to.on(condition, mine(token, &[Status::InProgress]));
        }
        Transition::Prepare { token, response, .. } => {
            to.set("status", text(Status::Prepared.as_str()));
            set_response(&mut to, response);
            to.on(OWN_IN_PROGRESS, mine(token, &[Status::InProgress]));
        }
        Transition::Complete { token, response, .. } => {
            to.set("status", text(Status::Completed.as_str()));
            to.remove("errorMessage");
            match response {
                Some(response) => {
                    set_response(&mut to, response);
                    to.on(OWN_OPEN, mine(token, &[Status::InProgress, Status::Prepared]));
                }
                None => to.on(OWN_PREPARED, mine(token, &[Status::Prepared])),
            }
        }
        Transition::Fail { token, progress, whereabouts, .. } => {
            to.set("status", text(Status::Failed.as_str()));
            set_progress(&mut to, *progress);
            set_whereabouts(&mut to, &whereabouts.after(*progress));
            for name in
                ["httpStatus", "responseHeaders", "responseDigest", "responsePayload", "responseLocation"]
            {
                to.remove(name);
            }
            to.on(OWN_OPEN, mine(token, &[Status::InProgress, Status::Prepared]));
        }
    }
    set_times(&mut to, transition);
    match detail {
        Detail::Took(took) => to.set("durationMs", number(took.as_millis())),
        Detail::Failed { took, error, in_doubt } => {
            to.set("durationMs", number(took.as_millis()));
            to.set("attemptInDoubt", number(in_doubt));
            to.set("errorMessage", text(error));
        }
        Detail::Request(_) | Detail::None => {}
    }
    to
}

fn set_times(to: &mut Expression, transition: &Transition) {
    let (now, expires_at) = transition.times();
    to.set("updatedAt", iso(now));
    if let Some(expires_at) = expires_at {
        to.set("expiresAt", iso(expires_at));
        to.set("ttl", ttl(expires_at));
    }
    if matches!(transition, Transition::Complete { .. } | Transition::Fail { .. }) {
        to.set("leaseExpiresAt", number(0));
    }
}

fn set_progress(to: &mut Expression, progress: Progress) {
    to.set("checkpoint", number(progress.done));
    to.set("inDoubt", number(progress.in_doubt));
    to.set("possibleDuplicates", number(progress.repeated));
}

fn set_whereabouts(to: &mut Expression, Whereabouts { place, left_behind }: &Whereabouts) {
    match place {
        Some(place) => {
            to.set("placeId", text(&place.id));
            to.set("placeName", text(&place.name));
        }
        None => {
            to.remove("placeId");
            to.remove("placeName");
        }
    }
    if left_behind.is_empty() {
        return to.remove("leftBehind");
    }
    let entry = |LeftBehind { name, done, in_doubt }: &LeftBehind| {
        let name = name.as_ref().map(|name| ("name".to_owned(), text(name)));
        let counts = [("done".to_owned(), number(done)), ("inDoubt".to_owned(), number(in_doubt))];
        AttributeValue::M(counts.into_iter().chain(name).collect())
    };
    to.set("leftBehind", AttributeValue::L(left_behind.iter().map(entry).collect()));
}

fn set_response(to: &mut Expression, response: &StoredResponse) {
    let headers = response.headers.iter().map(|(name, value)| (name.clone(), text(value))).collect();
    to.set("httpStatus", number(response.status));
    to.set("responseHeaders", AttributeValue::M(headers));
    to.set("responseDigest", text(&response.digest));
    let (here, elsewhere, value) = match &response.body {
        Body::Text(body) => ("responsePayload", "responseLocation", text(body)),
        Body::Gzip(body) => {
            ("responsePayload", "responseLocation", AttributeValue::B(Blob::new(body.clone())))
        }
        Body::Object(key) => ("responseLocation", "responsePayload", text(key)),
    };
    to.set(here, value);
    to.remove(elsewhere);
}

fn mine(token: &Token, statuses: &[Status]) -> Vec<(&'static str, AttributeValue)> {
    let mut values = vec![(":mine", text(&token.owner)), (":myAttempt", number(token.attempt))];
    values.extend(statuses.iter().filter_map(|status| {
        let placeholder = match status {
            Status::InProgress => ":inProgress",
            Status::Prepared => ":prepared",
            Status::Completed | Status::Failed => return None,
        };
        Some((placeholder, text(status.as_str())))
    }));
    values
}

fn in_the_way(item: Option<Item>) -> Result<Record, StoreError> {
    record(item.ok_or_else(|| StoreError::unreadable("a failed condition came without its record"))?)
}

pub(crate) fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

pub(crate) fn number(value: impl Display) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// ISO 8601 with milliseconds always, so that times compare as text.
fn iso(time: Timestamp) -> AttributeValue {
    AttributeValue::S(format!("{time:.3}"))
}

/// DynamoDB's TTL, in whole seconds, never before the expiry.
pub(crate) fn ttl(expires_at: Timestamp) -> AttributeValue {
    number(expires_at.as_second() + 1)
}

#[cfg(test)]
mod tests;
