//! Work of the contenders in JSON: the data of all requests, and blocks of requests.

use ::idempotency::Reply;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::Error;

/// Data for all blocks of requests: the table, and the body and the response of every request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Task {
    pub(crate) table: String,
    /// JSON text of a request's body.
    pub(crate) body: String,
    /// JSON text of a body that differs from `body` in one value, for conflicts.
    pub(crate) other_body: String,
    pub(crate) response: Reply,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Job {
    New,
    Replay,
    /// Request with a used idempotency key and another body.
    Conflict,
}

impl Job {
    /// Kinds of requests, with their names in the report.
    pub(crate) const ALL: [(Self, &'static str); 3] =
        [(Self::New, "new"), (Self::Replay, "replayed"), (Self::Conflict, "other body")];
}

/// Block of requests of one kind, handled one after another and measured as a whole.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Block {
    pub(crate) job: Job,
    pub(crate) keys: Vec<String>,
}

/// Size of a request's body in bytes.
const BODY: usize = 1024;
/// Size of a response's body in bytes.
const RESPONSE: usize = 300;

impl Task {
    pub(crate) fn new(table: &str) -> Result<Self, Error> {
        let mut response = json!({
            "batchId": "0192f0c1-7c1e-7a53-9d2b-6b1f0c6a9e11",
            "produced": 4,
            "bytes": 4096,
            "queue": "ORDERS.IN",
            "atomic": false,
            "durationMs": 17,
        });
        pad(&mut response, "detail", RESPONSE);
        Ok(Self {
            table: table.to_owned(),
            body: order(4)?,
            other_body: order(5)?,
            response: Reply::new(201, "application/json", response.to_string()),
        })
    }

    pub(crate) fn request(&self, job: Job, key: &str) -> String {
        let body = if job == Job::Conflict { &self.other_body } else { &self.body };
        format!(r#"{{"idempotencyKey":"{key}","body":{body}}}"#)
    }
}

/// Builds the JSON text of an order: a nested object with texts, numbers and an array.
fn order(quantity: u32) -> Result<String, Error> {
    let item = |number: u32| {
        json!({
            "sku": format!("7891000{number:06}"), "quantity": quantity, "unitPrice": 12.5, "discount": null,
            "description": "Paracetamol 500 mg, 20 comprimidos",
        })
    };
    let mut body = json!({
        "target": {"queueManager": "QM1", "queue": "ORDERS.IN"},
        "order": {"id": "A-2026-000117", "priority": 4, "urgent": false, "items": [item(1), item(2), item(3), item(4)]},
    });
    pad(&mut body, "note", BODY);
    let body = serde_json::to_string(&body)?;
    if body.len() == BODY { Ok(body) } else { Err("the body has another size".into()) }
}

/// Adds a text member to an object, so that its JSON text has this number of bytes.
fn pad(value: &mut Value, name: &str, bytes: usize) {
    let Some(object) = value.as_object_mut() else { return };
    object.insert(name.to_owned(), String::new().into());
    let missing = bytes.saturating_sub(Value::from(object.clone()).to_string().len());
    object.insert(name.to_owned(), "lorem ipsum ".chars().cycle().take(missing).collect::<String>().into());
}
