//! Writes of the idempotency protocol ([`Transition`]) as DynamoDB's conditional updates.

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use jiff::Timestamp;

use super::{Detail, MOST_ATTRIBUTES, iso, number, text, ttl};
use crate::execution::Volume;
use crate::protocol::{
    Body, PlaceHistory, Progress, ProgressLeftBehind, Status, StoredResponse, Token, Transition,
};

/// DynamoDB update of an idempotency record, with its condition.
#[derive(Debug)]
pub(super) struct Expression {
    /// Assignments of the SET clause, separated by commas.
    set: String,
    remove: Vec<&'static str>,
    pub(super) condition: &'static str,
    pub(super) names: HashMap<String, String>,
    pub(super) values: HashMap<String, AttributeValue>,
}

impl Expression {
    fn new() -> Self {
        Self {
            set: String::new(),
            remove: Vec::new(),
            condition: "",
            names: HashMap::new(),
            values: HashMap::with_capacity(MOST_ATTRIBUTES),
        }
    }

    /// Adds an attribute to the SET clause.
    fn set(&mut self, name: &'static str, value: AttributeValue) {
        let mark = self.mark(name);
        self.assign(&[mark, name, " = :", name]);
        self.values.insert([":", name].concat(), value);
    }

    /// Adds an attribute to the SET clause that is set only if the record lacks it.
    fn set_first(&mut self, name: &'static str, value: AttributeValue) {
        let mark = self.mark(name);
        self.assign(&[mark, name, " = if_not_exists(", mark, name, ", :", name, ")"]);
        self.values.insert([":", name].concat(), value);
    }

    fn assign(&mut self, parts: &[&str]) {
        let separator = if self.set.is_empty() { "" } else { ", " };
        self.set.push_str(separator);
        self.set.extend(parts.iter().copied());
    }

    /// Returns the prefix of an attribute's name in expressions: `#`, or nothing for a name in
    /// camel case. A name of one lower-case word may be a reserved word of DynamoDB, so a
    /// placeholder stands for it.
    fn mark(&mut self, name: &'static str) -> &'static str {
        if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return "";
        }
        self.names.insert(["#", name].concat(), name.to_owned());
        "#"
    }

    fn remove(&mut self, name: &'static str) {
        self.remove.push(name);
    }

    /// Sets the condition of the update, and the values that it compares.
    fn on(
        &mut self,
        condition: &'static str,
        values: impl IntoIterator<Item = (&'static str, AttributeValue)>,
    ) {
        self.condition = condition;
        for name in ["owner", "status", "attempt"] {
            self.mark(name);
        }
        self.values.extend(values.into_iter().map(|(name, value)| (name.to_owned(), value)));
    }

    pub(super) fn update(&self) -> String {
        let mut update = ["SET ", self.set.as_str()].concat();
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
/// Condition of a checkpoint of work without a place (such as a queue): the record is in progress
/// under the writer's token. It also has less progress than the checkpoint, or has a place, which
/// the checkpoint removes.
const OWN_FURTHER_OR_PLACED: &str = "#owner = :mine AND #attempt = :myAttempt AND #status = :inProgress AND \
                                     (attribute_not_exists(checkpoint) OR checkpoint < :checkpoint OR \
                                      possibleDuplicates < :possibleDuplicates OR \
                                      attribute_exists(placeId))";
/// Condition of a takeover: the record's owner, attempt, status and progress are still those that
/// were read. Records of earlier versions lack progress attributes whose value was 0.
const AS_SEEN: &str = "#owner = :oldOwner AND #attempt = :oldAttempt AND #status = :oldStatus AND \
                       (attribute_not_exists(checkpoint) OR checkpoint = :checkpoint) AND \
                       (attribute_not_exists(possibleDuplicates) OR possibleDuplicates = :possibleDuplicates)";

pub(super) fn expression(transition: &Transition, detail: Detail<'_>) -> Expression {
    let mut to = Expression::new();
    match transition {
        Transition::Claim { .. } => {}
        Transition::TakeOver {
            seen,
            seen_status,
            owner,
            now,
            progress,
            place_history,
            first_trace_id,
            ..
        } => {
            let status = if *seen_status == Status::Prepared { Status::Prepared } else { Status::InProgress };
            to.set("status", text(status.as_str()));
            to.set("owner", text(owner));
            to.set("attempt", number(seen.attempt.saturating_add(1)));
            to.set("leaseExpiresAt", number(crate::protocol::lease_end(*now)));
            set_progress(&mut to, *progress);
            set_place_history(&mut to, place_history);
            if let Detail::Request(request) = detail {
                to.set("traceId", text(request.trace_id));
                // The attribute before is that of the attempt that is taken over.
                if let Some(first) = first_trace_id {
                    to.set("firstTraceId", text(first));
                }
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
        Transition::Checkpoint { token, progress, place_history, .. } => {
            set_progress(&mut to, *progress);
            set_place_history(&mut to, place_history);
            let condition = if place_history.place.is_some() { OWN_FURTHER } else { OWN_FURTHER_OR_PLACED };
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
        Transition::Fail { token, progress, place_history, .. } => {
            to.set("status", text(Status::Failed.as_str()));
            set_progress(&mut to, *progress);
            set_place_history(&mut to, &place_history.after(*progress));
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
        Detail::Took { took, volume } => {
            to.set("durationMs", number(took.as_millis()));
            set_volume(&mut to, volume);
        }
        Detail::Failed { took, volume, error, in_doubt } => {
            to.set("durationMs", number(took.as_millis()));
            set_volume(&mut to, volume);
            to.set("attemptInDoubt", number(in_doubt));
            to.set("errorMessage", text(error));
        }
        Detail::Request(_) | Detail::None => {}
    }
    to
}

/// Builds the update that sets `doubtNotedAt` to `now` on a prepared record: it is unknown whether
/// the effect of the stored response is final.
pub(super) fn doubt_noted(token: &Token, now: Timestamp) -> Expression {
    let mut to = Expression::new();
    to.set("doubtNotedAt", iso(now));
    to.on(OWN_PREPARED, mine(token, &[Status::Prepared]));
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

/// Sets the number and bytes of the messages that the work handled. `None` keeps those that an
/// earlier attempt stored.
fn set_volume(to: &mut Expression, volume: Option<Volume>) {
    if let Some(Volume { messages, bytes }) = volume {
        to.set("messages", number(messages));
        to.set("bytes", number(bytes));
    }
}

fn set_place_history(to: &mut Expression, PlaceHistory { place, left_behind }: &PlaceHistory) {
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
    let entry = |ProgressLeftBehind { name, done, in_doubt }: &ProgressLeftBehind| {
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
