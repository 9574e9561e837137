//! `integrahub whoami`: shows the settings that commands use, and information about the API key
//! from the API and from the access table.

use std::time::Duration;

use ::access::{ApiKey, KeyHash, KeyItem, TenantItem};
use jiff::Timestamp;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use crate::access::{Table, limit};
use crate::api::{Api, Call};
use crate::args::Whoami;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::Output;

const SCHEMA: &str = "integrahub.whoami.v1";
/// Path of a route whose status tells whether the API knows a key: 401 for an unknown key, 403 for
/// a key that lacks the scope.
const ROUTE: &str = "/status";

/// Runs `integrahub whoami`.
///
/// # Errors
/// If the API refuses the key.
pub(crate) async fn run(args: Whoami, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    let mut rows: Vec<(&str, String)> = context.described();
    let (mut refused, mut limits) = (None, Vec::new());
    if let (Some(key), false) = (&context.api_key, args.offline) {
        let hash = ApiKey::from(key.expose_secret()).hash();
        rows.push(("key id", hash.id()));
        match ask(context).await {
            Ok(answer) => {
                rows.push(("api", answer));
                // An earlier version of the API has no such route.
                let api = Api::of(context)?.trying_for(Duration::ZERO);
                limits = limit::in_force(&api).await.unwrap_or_default();
            }
            Err(failure) => {
                rows.push(("api", failure.what.clone()));
                refused = Some(failure);
            }
        }
        if context.local.is_some() || context.stack.is_some() || context.names.access_table.is_some() {
            match look_up(context, hash).await {
                Ok(found) => rows.extend(found),
                Err(failure) => out.note(&format!("warning: {}", failure.what)),
            }
        }
    }
    if !limits.is_empty() {
        rows.push(("limits", limits.iter().map(described_limit).collect::<Vec<_>>().join(", ")));
    }
    let mut members = context.document(&rows);
    members.insert("limits".to_owned(), json!(limits));
    for name in ["keyId", "api", "tenant", "key", "scopes", "establishments"] {
        members.entry(name).or_insert(Value::Null);
    }
    out.thing(SCHEMA, &Value::Object(members), &rows);
    refused.map_or(Ok(Exit::Done), Err)
}

/// Asks the API whether it knows the API key, and returns the answer as a phrase for people. An
/// unknown key is a failure.
async fn ask(context: &Context) -> Result<String, Failure> {
    let answer = Api::of(context)?.exchange(&Call::get(ROUTE)).await?;
    match answer.status {
        200 => Ok("knows the key".to_owned()),
        403 => Ok("knows the key, which has no scope ops:read".to_owned()),
        401 => Err(Failure::new(Exit::Denied, "the API does not know the key")
            .why(format!("the key is from {}", context.source_of_key))
            .next("a new key works after a minute; see those that there are: integrahub key list")),
        status => Ok(format!("answers {status}")),
    }
}

/// Returns a rate limit of the API's response as a phrase for people.
fn described_limit(limit: &Value) -> String {
    let [name, unit, rate, burst, left] = limit::cells(limit);
    let left = if left.is_empty() { left } else { format!(" ({left} left)") };
    format!("{name} {unit} {rate}/{burst}{left}")
}

/// Finds the API key in the access table by its hash, which needs AWS credentials. Returns pairs of
/// name and text: the key's tenant, state, scopes and establishments, or that it is missing.
async fn look_up(context: &Context, hash: KeyHash) -> Result<Vec<(&'static str, String)>, Failure> {
    let known = Table::of(context).await?.read().await?;
    let found = known.keys().find(|(_, other, _)| *other == hash);
    Ok(found.map_or_else(
        || vec![("key", "the access table does not have it".to_owned())],
        |(.., key)| described(key, &known.tenant_item(&key.tenant_id), Timestamp::now()),
    ))
}

fn described(key: &KeyItem, tenant: &TenantItem, now: Timestamp) -> Vec<(&'static str, String)> {
    let state = key.refusal(tenant, now).map_or_else(|| "works".to_owned(), |refusal| refusal.to_string());
    let name = if tenant.name.is_empty() { String::new() } else { format!(" ({})", tenant.name) };
    vec![
        ("tenant", format!("{}{name}", key.tenant_id)),
        ("key", format!("`{}`: {state}", key.name)),
        ("scopes", Vec::from_iter(key.scopes.iter().map(String::as_str)).join(", ")),
        ("establishments", key.establishments.to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use test_support::http_server::{self, Server};

    use super::*;
    use crate::output::Format;
    use crate::output::memory::output;

    async fn whoami(limits: Option<Value>) -> String {
        let server = Server::start(move |request| {
            let answer = match (request.uri().path(), &limits) {
                ("/limits", Some(limits)) => {
                    http_server::response(200, json!({"limits": limits}).to_string())
                }
                ("/limits", None) => {
                    http_server::response(404, json!({"reason": "ROUTE_NOT_FOUND"}).to_string())
                }
                _ => http_server::response(403, json!({"reason": "SCOPE_REQUIRED"}).to_string()),
            };
            async move { Some(answer) }
        })
        .await;
        let url = Some(server.url().parse().unwrap());
        let context = Context { url, api_key: Some("k".to_owned().into()), ..Context::default() };
        let (mut out, data, _) = output(Format::Text, None);
        run(Whoami { offline: false }, &context, &mut out).await.unwrap();
        data.text()
    }

    #[tokio::test]
    async fn the_limits_are_shown_if_the_api_has_them() {
        let limit =
            json!({"name": "tenant", "unit": "requests", "perSecond": 100.0, "burst": 200, "remaining": 150});
        let text = whoami(Some(json!([limit]))).await;
        assert!(text.contains("tenant requests 100/200 (150 left)"), "{text}");
        let text = whoami(None).await;
        assert!(text.contains("no scope ops:read") && !text.contains("limits"), "{text}");
    }
}
