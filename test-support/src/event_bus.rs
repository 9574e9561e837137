//! Stand-in for EventBridge and SNS that records accepted events, can reject single events, and can
//! be unavailable.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};

use crate::http_server::{Answer, Server, response};

/// Fake EventBridge bus and SNS topic behind one HTTP endpoint.
#[derive(Debug)]
pub struct FakeEventBus {
    server: Server,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    is_away: bool,
    is_bus_away: bool,
    refused: Vec<String>,
    /// Entries of each `PutEvents` call that was answered.
    calls: Vec<Vec<Value>>,
    /// Events that the bus accepted.
    on_the_bus: Vec<Value>,
    on_the_topic: Vec<Value>,
    /// Parameters of the messages that the topic accepted.
    attributes: Vec<BTreeMap<String, String>>,
}

impl FakeEventBus {
    pub async fn start() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let server = Server::start(move |request: Request<Bytes>| {
            ready(shared.lock().unwrap_or_else(PoisonError::into_inner).answer(&request))
        })
        .await;
        Self { server, state }
    }

    /// Returns the endpoint URL to configure in a client of EventBridge or SNS.
    pub fn endpoint(&self) -> String {
        self.server.url()
    }

    /// Makes the bus and the topic unavailable, or available again. While unavailable, every call
    /// fails with status 503.
    pub fn go_away(&self, is_away: bool) {
        self.with(|state| state.is_away = is_away);
    }

    /// Makes the bus alone unavailable, or available again. While unavailable, `PutEvents` fails
    /// with status 503.
    pub fn bus_goes_away(&self, is_away: bool) {
        self.with(|state| state.is_bus_away = is_away);
    }

    /// Makes the bus and the topic reject events of these types. Other events of the same call are
    /// accepted.
    pub fn refuse(&self, types: &[&str]) {
        self.with(|state| state.refused = types.iter().map(|name| (*name).to_owned()).collect());
    }

    /// Returns the events that the bus accepted.
    pub fn on_the_bus(&self) -> Vec<Value> {
        self.with(|state| state.on_the_bus.clone())
    }

    /// Returns the events that the topic accepted.
    pub fn on_the_topic(&self) -> Vec<Value> {
        self.with(|state| state.on_the_topic.clone())
    }

    /// Returns the parameters of each message that the topic accepted. Their names lack the prefix
    /// `PublishBatchRequestEntries.member.N.`.
    pub fn attributes(&self) -> Vec<BTreeMap<String, String>> {
        self.with(|state| state.attributes.clone())
    }

    /// Returns the entries of each `PutEvents` call, but not of calls while the bus was
    /// unavailable.
    pub fn calls(&self) -> Vec<Vec<Value>> {
        self.with(|state| state.calls.clone())
    }

    fn with<T>(&self, read: impl FnOnce(&mut State) -> T) -> T {
        read(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn answer(&mut self, request: &Request<Bytes>) -> Answer {
        if self.is_away {
            return Some(response(503, "{}"));
        }
        if request.headers().get("x-amz-target").is_some_and(|target| target == "AWSEvents.PutEvents") {
            let is_away = self.is_bus_away;
            return Some(if is_away { response(503, "{}") } else { self.put_events(request.body()) });
        }
        Some(self.publish_batch(request.body()))
    }

    fn put_events(&mut self, body: &[u8]) -> http::Response<Bytes> {
        let body: Value = serde_json::from_slice(body).unwrap();
        let entries = body["Entries"].as_array().unwrap().clone();
        let mut results = Vec::new();
        for entry in &entries {
            if self.refused.iter().any(|refused| entry["DetailType"] == refused.as_str()) {
                results.push(json!({"ErrorCode": "InternalFailure", "ErrorMessage": "not this one"}));
            } else {
                self.on_the_bus.push(serde_json::from_str(entry["Detail"].as_str().unwrap()).unwrap());
                results.push(json!({"EventId": "1"}));
            }
        }
        let failed = results.iter().filter(|result| result.get("ErrorCode").is_some()).count();
        self.calls.push(entries);
        response(200, json!({"FailedEntryCount": failed, "Entries": results}).to_string())
    }

    fn publish_batch(&mut self, body: &[u8]) -> http::Response<Bytes> {
        let mut entries: BTreeMap<usize, BTreeMap<String, String>> = BTreeMap::new();
        for (name, value) in url::form_urlencoded::parse(body) {
            if let Some((number, member)) =
                name.strip_prefix("PublishBatchRequestEntries.member.").and_then(|rest| rest.split_once('.'))
            {
                entries
                    .entry(number.parse().unwrap())
                    .or_default()
                    .insert(member.to_owned(), value.into_owned());
            }
        }
        let (mut taken, mut failed) = (String::new(), String::new());
        for entry in entries.into_values() {
            let (id, event) = (&entry["Id"], serde_json::from_str::<Value>(&entry["Message"]).unwrap());
            if self.refused.iter().any(|refused| event["type"] == refused.as_str()) {
                failed += &format!(
                    "<member><Id>{id}</Id><Code>InternalError</Code><SenderFault>false</SenderFault></member>"
                );
            } else {
                taken += &format!("<member><Id>{id}</Id><MessageId>1</MessageId></member>");
                self.on_the_topic.push(event);
                self.attributes.push(entry);
            }
        }
        response(
            200,
            format!(
                "<PublishBatchResponse><PublishBatchResult><Successful>{taken}</Successful>\
                 <Failed>{failed}</Failed></PublishBatchResult></PublishBatchResponse>"
            ),
        )
    }
}
