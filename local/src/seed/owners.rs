//! Establishments that belong to a tenant from the start. Any other belongs to the first tenant
//! that loads it.

use aws_sdk_lambda::Client;
use aws_sdk_lambda::primitives::Blob;
use serde_json::{Value, json};

use super::access::{OF_PHARMACY, TENANT_PHARMACY};
use crate::failure::{Explain as _, Failure};

/// Name of the administrator that is stored with the assignment of the establishments.
const BY: &str = "local stack";

/// Assigns the pharmacy's establishments to its tenant, as an administrator does.
///
/// # Errors
/// If the function cannot be invoked, or its response lacks assignments.
pub(super) async fn seed(lambda: Client, function: &str) -> Result<(), Failure> {
    let event = json!({"action": "assign", "tenant": TENANT_PHARMACY, "cnpjs": OF_PHARMACY, "by": BY});
    let invoke = lambda.invoke().function_name(function).payload(Blob::new(event.to_string()));
    let explain = || "assign the local establishments".to_owned();
    let answer = invoke.send().await.or_explain(explain)?;
    let payload = answer.payload.map(Blob::into_inner).unwrap_or_default();
    let answer: Value = serde_json::from_slice(&payload).or_explain(explain)?;
    match answer.get("changed").and_then(Value::as_array) {
        Some(changed) if changed.len() == OF_PHARMACY.len() => Ok(()),
        _ => Err(Failure::new(format!("Could not assign the local establishments: {answer}"))),
    }
}
