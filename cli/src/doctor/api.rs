//! Checks of the API from outside: its version, and whether the stores and functions behind it
//! answer.

use serde_json::Value;

use super::kinds::{READY, VERSION};
use super::report::Check;
use crate::api::{Api, Call};
use crate::context::Context;
use crate::member::{shown, text};

/// Version of this program, which is compared with the API's version.
const OURS: &str = env!("CARGO_PKG_VERSION");

/// Response of the API to a request that `doctor` sends without an API key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum HttpAnswer {
    /// The body is JSON. The value is the body.
    Document(Value),
    /// The body is not JSON. The value is the HTTP status.
    Strange(u16),
    /// No response arrived. The value is the reason.
    None(String),
}

impl HttpAnswer {
    /// Returns whether the response is an OpenAPI document, as IntegraHub returns one.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(self, Self::Document(document) if document.pointer("/info/version").is_some())
    }
}

/// Sends a `GET` request for `path` to the API of the context, without a retry, and returns the
/// response.
pub(crate) async fn ask(context: &Context, path: &str) -> HttpAnswer {
    let api = match Api::of(context) {
        Ok(api) => api,
        Err(failure) => return HttpAnswer::None(failure.what),
    };
    match api.exchange(&Call::get(path).once()).await {
        Ok(answer) => answer.json().map_or(HttpAnswer::Strange(answer.status), HttpAnswer::Document),
        Err(refusal) => HttpAnswer::None(refusal.failure.what),
    }
}

/// Checks the response of `/health/ready`: one check for each store and function that the API
/// depends on, or a single failed check if the response lists none.
pub(crate) fn ready(answer: &HttpAnswer) -> Vec<Check> {
    let document = match answer {
        HttpAnswer::None(why) => {
            let fix = "compare the address with the stack's output ApiUrl; with a domain of yours, check its DNS \
                       and certificate";
            return vec![READY.fail(why.clone(), fix)];
        }
        HttpAnswer::Strange(status) => {
            return vec![READY.fail(
                format!("the API answers {status} without a document"),
                "the log group of the function status says why",
            )];
        }
        HttpAnswer::Document(document) => document,
    };
    let dependencies =
        document.get("dependencies").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if dependencies.is_empty() {
        return vec![READY.fail("the address answers, and not as this API does", "check the address")];
    }
    dependencies.iter().map(dependency).collect()
}

fn dependency(dependency: &Value) -> Check {
    let name = text(dependency, "name");
    if dependency.get("ok").and_then(Value::as_bool).unwrap_or_default() {
        return READY.ok(format!("answers in {} ms", shown(dependency, "latencyMs"))).about(name);
    }
    let function = match name {
        "accessStore" | "idempotencyStore" | "resultsBucket" => "status",
        "mqAccess" => "mq-access",
        _ => "batches",
    };
    READY.fail("does not answer", format!("the log group of the function {function} says why")).about(name)
}

/// Checks that the API has the version of this program. `contract` is the response with the API's
/// OpenAPI document, which contains the version.
pub(crate) fn version(contract: &HttpAnswer) -> Check {
    let theirs = match contract {
        HttpAnswer::Document(document) => document.pointer("/info/version").and_then(Value::as_str),
        HttpAnswer::Strange(_) | HttpAnswer::None(_) => None,
    };
    match theirs {
        Some(OURS) => VERSION.ok(format!("{OURS}, as this program")),
        Some(theirs) => VERSION.warn(
            format!("the API has {theirs}, and this program {OURS}"),
            "use the integrahub of the API's release",
        ),
        None => VERSION.warn("the API does not tell its contract", "check the address"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::report::Status;
    use super::*;

    #[test]
    fn each_dependency_is_a_check_of_its_own() {
        let answer = json!({"status": "unavailable", "dependencies": [
            {"name": "accessStore", "ok": true, "latencyMs": 3.1},
            {"name": "database", "ok": false, "latencyMs": 2000.0},
        ]});
        let checks = ready(&HttpAnswer::Document(answer));
        assert_eq!((checks[0].status, checks[1].status), (Status::Ok, Status::Fail));
        assert_eq!(checks[1].about.as_deref(), Some("database"));
        assert!(checks[1].fix.as_ref().unwrap().contains("batches"));
    }

    #[test]
    fn an_api_that_is_not_there_fails() {
        for answer in [
            HttpAnswer::None("nothing answers".into()),
            HttpAnswer::Strange(403),
            HttpAnswer::Document(json!({})),
        ] {
            assert_eq!(ready(&answer)[0].status, Status::Fail, "{answer:?}");
        }
    }

    #[test]
    fn another_version_is_a_warning() {
        let contract = |version: &str| HttpAnswer::Document(json!({"info": {"version": version}}));
        assert_eq!(version(&contract(OURS)).status, Status::Ok);
        assert_eq!(version(&contract("99.0.0")).status, Status::Warn);
        assert_eq!(version(&HttpAnswer::Strange(500)).status, Status::Warn);
        assert!(contract(OURS).is_ours());
        let of_the_gateway = HttpAnswer::Document(json!({"message": "Forbidden"}));
        assert!(!of_the_gateway.is_ours() && !HttpAnswer::Strange(403).is_ours());
    }
}
