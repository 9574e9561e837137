//! `integrahub status`: shows whether the API, its stores and its functions work.

use serde_json::{Value, json};

use crate::api::{Api, Call};
use crate::args::Status;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::member::{shown, text};
use crate::output::Output;

const STATUS: &str = "integrahub.status.v1";

/// Runs `integrahub status`: shows the health, for which no API key is needed, and the version and
/// the connections, for which one is.
pub(crate) async fn run(args: &Status, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    let api = Api::of(context)?;
    // An answer that says what does not work is worth no second attempt.
    let answer = api.exchange(&Call::get("/health/ready").once()).await?;
    let health = answer.json()?;
    let dependencies = health.get("dependencies").and_then(Value::as_array).cloned().unwrap_or_default();
    if dependencies.is_empty() {
        let what = format!("{} answers {}, and not as this API does", api.base(), answer.status);
        return Err(Failure::new(Exit::Temporary, what).next("check the address: integrahub whoami shows it"));
    }
    let details = if args.health { None } else { details(&api, context, out).await? };

    let mut rows = vec![("address", api.base().to_owned())];
    if let Some(details) = &details {
        rows.push(("version", shown(details, "version")));
        rows.push(("commit", shown(details, "commit")));
    }
    for dependency in &dependencies {
        let name = text(dependency, "name");
        let works = dependency.get("ok").and_then(Value::as_bool).unwrap_or_default();
        let latency = shown(dependency, "latencyMs");
        rows.push((name, if works { format!("works ({latency} ms)") } else { "does not answer".to_owned() }));
    }
    let pools = details.as_ref().and_then(|details| details.get("pools")).and_then(Value::as_array);
    for pool in pools.into_iter().flatten() {
        let [open, used, most] = ["open", "inUse", "maxSize"].map(|name| shown(pool, name));
        rows.push((
            "connections",
            format!("{}: {open} open, {used} in use, at most {most}", shown(pool, "target")),
        ));
    }
    let document = json!({"address": api.base(), "health": health, "status": details});
    out.thing(STATUS, &document, &rows);
    let away: Vec<String> = dependencies
        .iter()
        .filter(|one| one.get("ok") != Some(&json!(true)))
        .map(|one| shown(one, "name"))
        .collect();
    if away.is_empty() {
        return Ok(Exit::Done);
    }
    Err(Failure::new(Exit::Temporary, format!("{} does not answer", away.join(", ")))
        .next("look at the alarms of the deployment: docs/runbook.md"))
}

/// Requests the version and the open connections. If there is no API key, or it lacks the scope
/// `ops:read`, prints a note and returns `None`.
async fn details(api: &Api, context: &Context, out: &mut Output) -> Result<Option<Value>, Failure> {
    if context.api_key.is_none() {
        out.note("there is no API key, so only the health is shown");
        return Ok(None);
    }
    match api.send(&Call::get("/status")).await {
        Ok(answer) => Ok(Some(answer.json()?)),
        Err(refusal) if refusal.is("SCOPE_REQUIRED") => {
            out.note("the API key lacks the scope ops:read, so only the health is shown");
            Ok(None)
        }
        Err(refusal) => Err(refusal.into()),
    }
}

#[cfg(test)]
mod tests {
    use test_support::http_server::{self, Server};

    use super::*;
    use crate::output::Format;
    use crate::output::memory::output;

    async fn status(is_ready: bool, key: Option<&str>) -> (Result<Exit, Failure>, String, String) {
        let server = Server::start(move |request| async move {
            let store = json!({"name": "accessStore", "ok": is_ready, "latencyMs": 3.1});
            let health = json!({"status": "x", "dependencies": [store]}).to_string();
            Some(match (request.uri().path(), request.headers().get("x-api-key")) {
                ("/health/ready", _) => http_server::response(if is_ready { 200 } else { 503 }, health),
                (_, Some(key)) if key == "all" => {
                    let pool = json!({"target": "rabbitmq://b/", "open": 2, "inUse": 0, "maxSize": 5});
                    http_server::response(
                        200,
                        json!({"version": "1", "commit": "c", "pools": [pool]}).to_string(),
                    )
                }
                _ => http_server::response(403, json!({"reason": "SCOPE_REQUIRED"}).to_string()),
            })
        })
        .await;
        let url = Some(server.url().parse().unwrap());
        let api_key = key.map(|key| key.to_owned().into());
        let context = Context { url, api_key, ..Context::default() };
        let (mut out, data, words) = output(Format::Text, None);
        let exit = run(&Status { health: false }, &context, &mut out).await;
        (exit, data.text(), words.text())
    }

    #[tokio::test]
    async fn a_deployment_that_works_shows_what_the_key_may_see() {
        let (exit, data, _) = status(true, Some("all")).await;
        assert_eq!(exit, Ok(Exit::Done));
        assert!(data.contains("works (3.1 ms)") && data.contains("rabbitmq://b/: 2 open"), "{data}");
        let (exit, data, words) = status(true, Some("reads")).await;
        assert_eq!(exit, Ok(Exit::Done));
        assert!(words.contains("ops:read") && !data.contains("version"), "{words}");
        assert_eq!(status(true, None).await.0, Ok(Exit::Done));
    }

    #[tokio::test]
    async fn a_store_that_does_not_answer_is_named() {
        let (exit, data, _) = status(false, Some("all")).await;
        let failure = exit.unwrap_err();
        assert_eq!(failure.exit, Exit::Temporary);
        assert!(failure.what.contains("accessStore") && data.contains("does not answer"));
    }
}
