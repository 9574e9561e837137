//! Looks at what anybody may look at.

use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use super::caller::Caller;
use super::honest::{KEY, Wrong};
use crate::http_client::Call;

const PAUSE: Duration = Duration::from_millis(400);

/// Kinds of request, their paths, and a member that each answer has.
const LOOKS: [(&str, &str, &str); 5] = [
    ("live", "/health/live", "/status"),
    ("ready", "/health/ready", "/dependencies"),
    ("contract", "/openapi.json", "/paths"),
    ("status", "/status", "/version"),
    ("batches", "/v1/inovafarma/batches?limit=5", "/batches"),
];

pub(super) async fn look(caller: Caller) {
    let mut turn = 0;
    while caller.goes_on() {
        for (index, (kind, path, member)) in LOOKS.into_iter().enumerate() {
            // The batches are looked at most often.
            if index + 1 == LOOKS.len() || index == turn % LOOKS.len() {
                let looked = look_at(&caller, kind, path, member).await;
                caller.check(looked);
                sleep(PAUSE).await;
            }
        }
        turn += 1;
    }
}

async fn look_at(caller: &Caller, kind: &'static str, path: &str, member: &str) -> Result<(), Wrong> {
    let answer = caller.call(kind, &Call::get(path, KEY), 200).await?;
    match answer.json().pointer(member) {
        Some(value) if *value != Value::Null => Ok(()),
        _ => Err(format!("{path} answers without {member}: {}", answer.describe())),
    }
}
