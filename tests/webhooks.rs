//! Test of a webhook behind the event bus, which is made from the example in `docs/webhooks.md`.

use std::time::Duration;

use aws_sdk_eventbridge::Client;
use aws_sdk_eventbridge::types::{
    ApiDestinationHttpMethod, ConnectionAuthorizationType, CreateConnectionApiKeyAuthRequestParameters,
    CreateConnectionAuthRequestParameters, Target,
};
use bytes::Bytes;
use end_to_end::{Ingest, Load, variable};
use http::Request;
use ingestion::generate::{Catalogue, Layout};
use serde_json::{Value, json};
use test_support::http_server::{Server, response};
use tokio::sync::mpsc;
use uuid::Uuid;

const PAGE: &str = include_str!("../docs/webhooks.md");
/// API key that the webhook sends to its receiver. In the page's example it comes from Secrets
/// Manager.
const API_KEY: &str = "a key that only the receiver knows";
/// Maximum time until an event reaches the receiver, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the resources of the page's example, with the plain name in place of each `!Ref` and
/// `!GetAtt`.
fn example() -> Value {
    let section = PAGE.split("\n## A webhook\n").nth(1).unwrap();
    let yaml = section.split("```yaml\n").nth(1).unwrap().split("\n```").next().unwrap();
    let tags = ["!GetAtt ", "!Ref "];
    let plain = tags.iter().fold(yaml.to_owned(), |yaml, tag| yaml.replace(tag, ""));
    serde_norway::from_str(&plain).unwrap()
}

fn text<'a>(resources: &'a Value, pointer: &str) -> &'a str {
    resources.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("{pointer}"))
}

/// Creates the example's resources, with `endpoint` as the receiver of the events about one
/// request.
async fn create(client: &Client, resources: &Value, endpoint: String, key: Uuid) {
    let name = format!("webhook-{}", key.simple());
    let header =
        text(resources, "/WebhookConnection/Properties/AuthParameters/ApiKeyAuthParameters/ApiKeyName");
    let api_key = CreateConnectionApiKeyAuthRequestParameters::builder()
        .api_key_name(header)
        .api_key_value(API_KEY)
        .build()
        .unwrap();
    let connection = client
        .create_connection()
        .name(&name)
        .authorization_type(ConnectionAuthorizationType::from(text(
            resources,
            "/WebhookConnection/Properties/AuthorizationType",
        )))
        .auth_parameters(
            CreateConnectionAuthRequestParameters::builder().api_key_auth_parameters(api_key).build(),
        );
    let connection = connection.send().await.unwrap().connection_arn.unwrap();
    let destination = client
        .create_api_destination()
        .name(&name)
        .connection_arn(connection)
        .http_method(ApiDestinationHttpMethod::from(text(resources, "/Webhook/Properties/HttpMethod")))
        .invocation_endpoint(endpoint);
    let destination = destination.send().await.unwrap().api_destination_arn.unwrap();

    let rule = &resources["FinalBatches"]["Properties"];
    let mut pattern = rule["EventPattern"].clone();
    pattern["detail"] = json!({"data": {"source_idempotency_key": [key.to_string()]}});
    let bus = variable("EVENT_BUS_ARN");
    let bus = bus.rsplit('/').next().unwrap();
    let put = client.put_rule().name(&name).event_bus_name(bus).event_pattern(pattern.to_string());
    put.send().await.unwrap();
    let target = Target::builder()
        .id(text(rule, "/Targets/0/Id"))
        .arn(destination)
        .role_arn("arn:aws:iam::000000000000:role/webhook")
        .input_path(text(rule, "/Targets/0/InputPath"));
    let targets = client.put_targets().rule(&name).event_bus_name(bus).targets(target.build().unwrap());
    assert_eq!(targets.send().await.unwrap().failed_entry_count, 0);
}

#[tokio::test]
async fn the_webhook_of_the_docs_gets_the_envelope_of_a_final_batch_and_its_key() {
    let (posts, mut posted) = mpsc::unbounded_channel::<Request<Bytes>>();
    let receiver = Server::start(move |request| {
        posts.send(request).unwrap();
        async { Some(response(204, "")) }
    })
    .await;
    let (resources, key) = (example(), Uuid::new_v4());
    let endpoint = url::Url::parse(text(&resources, "/Webhook/Properties/InvocationEndpoint")).unwrap();
    let client = Client::new(&runtime::Sdk::from_environment().await.single_attempt(PATIENCE));
    create(&client, &resources, format!("{}{}", receiver.url(), endpoint.path()), key).await;

    let ingest = Ingest::new();
    let payload = Catalogue { seed: 17, items: 20, ..Catalogue::default() }.payload(Layout::Array);
    let answer = ingest.send(key, Load::delta(&payload)).await.expect(202).json();
    let batch = ingest.finished(answer["batch_id"].as_str().unwrap()).await;

    let request = tokio::time::timeout(PATIENCE, posted.recv()).await.unwrap().unwrap();
    assert_eq!((request.method().as_str(), request.uri().path()), ("POST", endpoint.path()));
    assert_eq!(request.headers()["x-webhook-key"], API_KEY);
    assert!(request.headers()["content-type"].to_str().unwrap().starts_with("application/json"));
    let event: Value = serde_json::from_slice(request.body()).unwrap();
    assert_eq!(event["specversion"], "1.0");
    assert_eq!(event["type"], "integrahub.batch.final");
    assert_eq!(event["data"]["batch_id"], answer["batch_id"]);
    assert_eq!(event["data"]["status"], batch["status"]);
}
