//! Checks of the database and the brokers, by Lambda functions that run in their networks.

use std::sync::Arc;

use ::api::TraceId;
use aws_sdk_lambda::Client;
use aws_sdk_lambda::primitives::Blob;
use mq::{InlineTargets, Target};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::kinds::{DATABASE, PROFILE};
use super::report::{Check, Known, Unknown};
use crate::access::profile;
use crate::aws::failed;
use crate::member::{shown, text};

/// Number of target profiles that are tested at once. Each test takes an execution of `mq-access`.
const AT_ONCE: usize = 4;
/// Maximum number of target profiles that one `doctor` command tests.
pub(crate) const MOST: usize = 25;

/// Outcome of the invocation of a Lambda function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum InvocationOutcome {
    /// JSON that the Lambda function returned.
    Done(Value),
    /// Message of the error that the Lambda function returned.
    Failed(String),
}

/// Target profile to test, with the tenant that owns it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Profile {
    /// Id of the tenant that owns the target profile.
    pub(crate) tenant: String,
    /// Name of the target profile.
    pub(crate) name: String,
    /// Target profile as JSON, in the form of the access table.
    pub(crate) value: Value,
}

impl Profile {
    /// Returns the profile's name and the beginning of its tenant's id, as in `orders of 11111111`.
    pub(crate) fn title(&self) -> String {
        let tenant = self.tenant.split('-').next().unwrap_or_default();
        format!("{} of {tenant}", self.name)
    }
}

/// Invokes a Lambda function, and waits for its result.
pub(crate) async fn invoke(client: &Client, function: &str, event: &Value) -> Known<InvocationOutcome> {
    let invoke = client.invoke().function_name(function).payload(Blob::new(event.to_string()));
    let answer = invoke.send().await.map_err(|error| {
        let failure = failed(&format!("invoke the function {function}"), &error);
        Unknown::of_failure(&failure, "lambda:InvokeFunction")
    })?;
    let payload = answer.payload().map(Blob::as_ref).unwrap_or_default();
    let value: Value = serde_json::from_slice(payload).unwrap_or_default();
    if answer.function_error().is_none() {
        return Ok(InvocationOutcome::Done(value));
    }
    let message = text(&value, "errorMessage");
    Ok(InvocationOutcome::Failed(if message.is_empty() { "the function failed" } else { message }.to_owned()))
}

/// Checks that the database can be read, by the response of the function `establishments` to a
/// request for one establishment.
pub(crate) fn database(answer: &Known<InvocationOutcome>) -> Check {
    match answer {
        Err(unknown) => DATABASE.skip(unknown),
        Ok(InvocationOutcome::Done(value)) if value.get("establishments").is_some() => {
            DATABASE.ok("a function in its network reads it")
        }
        Ok(InvocationOutcome::Done(value)) => DATABASE.fail(
            format!("the function establishments answers something else: {}", shown(value, "error")),
            "use the integrahub of the deployment's release",
        ),
        Ok(InvocationOutcome::Failed(message)) => DATABASE.fail(
            format!("a function in its network cannot read it: {message}"),
            "the log group of the function establishments says why: the address, the secret, the security group of \
             the database, or its certificate",
        ),
    }
}

/// Returns the event with which `mq-access` tests the connection to a target of the tenant.
fn of_profile(tenant: &str, target: &Target) -> Value {
    json!({
        "traceId": TraceId::new().as_str(),
        "tenant": tenant,
        "work": {"read": {"target": target, "read": "test"}},
    })
}

/// Tests the connections of target profiles with the function `mq-access`. Returns a check for each
/// profile, in the order of the profiles.
pub(crate) async fn profiles(client: &Client, function: &str, all: Vec<Profile>) -> Vec<Check> {
    let (mut tests, free) = (JoinSet::new(), Arc::new(Semaphore::new(AT_ONCE)));
    for (number, profile) in all.into_iter().enumerate() {
        let (client, function, free) = (client.clone(), function.to_owned(), Arc::clone(&free));
        tests.spawn(async move {
            // The semaphore is never closed.
            let _permit = free.acquire_owned().await.ok();
            (number, test(&client, &function, &profile).await)
        });
    }
    let mut checks: Vec<(usize, Check)> = Vec::new();
    while let Some(ended) = tests.join_next().await {
        checks.extend(ended.ok());
    }
    checks.sort_by_key(|&(number, _)| number);
    checks.into_iter().map(|(_, check)| check).collect()
}

async fn test(client: &Client, function: &str, profile: &Profile) -> Check {
    let check = match target(&profile.value) {
        Ok(target) => broker(&invoke(client, function, &of_profile(&profile.tenant, &target)).await),
        Err(why) => PROFILE.fail(why, "correct the profile: integrahub profile create NAME --replace"),
    };
    check.about(profile.title())
}

/// Builds the target of a request that names only the target profile `value`, and replaces none of
/// its members. The error is a sentence with the fault of the profile.
fn target(value: &Value) -> Result<Target, String> {
    let parsed = profile::parse(value).map_err(|failure| failure.why.unwrap_or(failure.what))?;
    let allowed = InlineTargets::default();
    Target::resolve(Some(&parsed), None, allowed.of("")).map_err(|error| error.to_string())
}

/// Checks a target profile's broker by the response of `mq-access` to a connection test.
fn broker(answer: &Known<InvocationOutcome>) -> Check {
    let value = match answer {
        Err(unknown) => return PROFILE.skip(unknown),
        Ok(InvocationOutcome::Failed(message)) => {
            return PROFILE.fail(
                format!("mq-access failed: {message}"),
                "its log group says why; an execution that ends after 24 s waited for the network",
            );
        }
        Ok(InvocationOutcome::Done(value)) => value,
    };
    let body: Value = serde_json::from_str(text(value, "body")).unwrap_or_default();
    if body.get("ok").is_none() {
        let said = [text(&body, "reason"), text(&body, "detail")].join(" ");
        return PROFILE
            .fail(format!("mq-access refuses the test: {said}"), "docs/errors.md explains the reason");
    }
    if body.get("ok").and_then(Value::as_bool).unwrap_or_default() {
        return worked(&body);
    }
    let steps = body.get("steps").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let failed = steps.iter().find(|step| step.get("ok").and_then(Value::as_bool) == Some(false));
    let Some(step) = failed else {
        return PROFILE.fail("the broker does not accept the connection", "the log of mq-access says why");
    };
    let (name, code, detail) = (text(step, "name"), text(step, "code"), text(step, "detail"));
    PROFILE.fail(format!("{name}: {code}: {detail}"), fix(name, code))
}

fn worked(body: &Value) -> Check {
    let broker = body.get("broker").cloned().unwrap_or_default();
    let shown_as = format!(
        "{} {} answers in {} ms",
        text(&broker, "product"),
        text(&broker, "version"),
        shown(body, "latencyMs")
    );
    match text(body, "blocked") {
        "" => PROFILE.ok(shown_as),
        reason => PROFILE.warn(
            format!("{shown_as}, and accepts no messages for now: {reason}"),
            "free memory or disk on the broker",
        ),
    }
}

/// Returns the advice for a failed step of a connection test, by the step and its error code.
fn fix(step: &str, code: &str) -> &'static str {
    match (step, code) {
        (_, "SECRET_UNREADABLE") => {
            "store the secret under that name, below SecretNamePrefix, as JSON with username and password, or correct \
             passwordRef of the profile"
        }
        (_, "OBJECT_UNREADABLE") => "let KeyRepositoryObjects cover the object, and make sure that it exists",
        (_, "USER_REQUIRED") => "name the user in the secret, or in auth.user of the profile",
        ("resolve", _) => "correct connName, or let the VPC of mq-access resolve the name",
        ("connect", _) => {
            "check the port, the broker's firewall, and the route tables and security groups of mq-access"
        }
        ("tls", _) => "check ssl of the profile, the broker's certificate, and the trust store",
        ("authenticate", _) => {
            "correct the user or the password in the secret, or permit the user on the broker"
        }
        ("openQueue", _) => "create the queue, or permit the user to use it",
        _ => "docs/errors.md explains the code",
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Status;
    use super::*;

    fn answered(status: u16, body: &Value) -> Check {
        broker(&Ok(InvocationOutcome::Done(
            json!({"status": status, "headers": {}, "body": body.to_string()}),
        )))
    }

    #[test]
    fn the_event_has_the_form_of_the_gateway_s_own() {
        let sample = include_str!("../../../events/gateway/mq-access/connection-test.json");
        let sample: Value = serde_json::from_str(sample).unwrap();
        let profile = json!({"target": {"broker": "rabbitmq", "connName": "127.0.0.1:5672", "queue": "DEV.QUEUE.1",
            "auth": {"user": "app", "passwordRef": "secret://local/rabbit"}}});
        let target = target(&profile).unwrap();
        let event = of_profile(sample["tenant"].as_str().unwrap(), &target);
        let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&event), names(&sample));
        assert_eq!(event["work"]["read"]["read"], sample["work"]["read"]["read"]);
        let sample: Target = serde_json::from_value(sample["work"]["read"]["target"].clone()).unwrap();
        assert_eq!(target.endpoint, sample.endpoint);
    }

    #[test]
    fn a_test_says_at_which_step_it_ends_and_what_to_do() {
        let steps = json!([{"name": "resolve", "ok": true}, {"name": "tls", "skipped": true},
            {"name": "connect", "ok": false, "code": "CONNECT_TIMEOUT", "detail": "5 s"}]);
        let check = answered(200, &json!({"ok": false, "steps": steps}));
        assert_eq!(check.detail, "connect: CONNECT_TIMEOUT: 5 s");
        assert!(check.fix.unwrap().contains("security groups"));
    }

    #[test]
    fn a_broker_that_answers_is_named() {
        let mut body = json!({"ok": true, "broker": {"product": "RabbitMQ", "version": "3.10.8"},
            "latencyMs": 1.5, "blocked": null, "steps": []});
        let check = answered(200, &body);
        assert_eq!((check.status, check.detail.as_str()), (Status::Ok, "RabbitMQ 3.10.8 answers in 1.5 ms"));
        body["blocked"] = json!("low on disk");
        assert_eq!(answered(200, &body).status, Status::Warn);
        let refused = answered(503, &json!({"reason": "BUSY", "detail": "too late"}));
        assert!(refused.status == Status::Fail && refused.detail.ends_with("BUSY too late"));
        assert_eq!(broker(&Ok(InvocationOutcome::Failed("timed out".into()))).status, Status::Fail);
    }

    #[test]
    fn a_profile_that_the_gateway_refuses_fails_before_it_is_tested() {
        assert!(target(&json!({"target": {"conName": "a:1"}})).unwrap_err().contains("conName"));
    }

    #[test]
    fn the_database_answers_with_a_page() {
        let page = json!({"establishments": [], "cursor": null});
        assert_eq!(database(&Ok(InvocationOutcome::Done(page))).status, Status::Ok);
        assert_eq!(database(&Ok(InvocationOutcome::Done(json!({"error": "no"})))).status, Status::Fail);
        let failed = database(&Ok(InvocationOutcome::Failed("database error".into())));
        assert!(failed.status == Status::Fail && failed.detail.ends_with("database error"));
    }
}
