//! Stand-in for a DynamoDB table, which can leave keys of a `BatchGetItem` call unprocessed.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};

use crate::http_server::{Server, response};

/// Fake DynamoDB table with the key `pk`, behind an HTTP endpoint.
#[derive(Debug)]
pub struct FakeTable {
    server: Server,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Items by key, in DynamoDB's JSON with typed attributes.
    items: BTreeMap<String, Value>,
    /// Names of the operations that clients called, in order.
    calls: Vec<String>,
}

impl FakeTable {
    /// Starts an empty table. `BatchGetItem` reads at most `most` keys of a call and leaves the
    /// others unprocessed.
    pub async fn start(most: usize) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let server = Server::start(move |request: Request<Bytes>| {
            let answer = shared.lock().unwrap_or_else(PoisonError::into_inner).answer(&request, most);
            ready(Some(response(200, answer.to_string())))
        })
        .await;
        Self { server, state }
    }

    /// Returns the endpoint URL to configure in a DynamoDB client.
    pub fn endpoint(&self) -> String {
        self.server.url()
    }

    /// Stores an item, given in DynamoDB's JSON with typed attributes.
    pub fn put(&self, item: Value) {
        self.with(|state| state.put(item));
    }

    /// Returns the item with this key.
    pub fn item(&self, pk: &str) -> Option<Value> {
        self.with(|state| state.items.get(pk).cloned())
    }

    /// Returns the names of the operations that clients called since this method was last used.
    pub fn calls(&self) -> Vec<String> {
        self.with(|state| std::mem::take(&mut state.calls))
    }

    fn with<T>(&self, read: impl FnOnce(&mut State) -> T) -> T {
        read(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn put(&mut self, item: Value) {
        self.items.insert(item["pk"]["S"].as_str().unwrap().to_owned(), item);
    }

    fn answer(&mut self, request: &Request<Bytes>, most: usize) -> Value {
        let target = request.headers()["x-amz-target"].to_str().unwrap();
        let call = target.split('.').next_back().unwrap();
        self.calls.push(call.to_owned());
        let body: Value = serde_json::from_slice(request.body()).unwrap();
        match call {
            "BatchGetItem" => self.batch(&body["RequestItems"], most),
            "PutItem" => {
                self.put(body["Item"].clone());
                json!({})
            }
            "DeleteItem" => {
                self.items.remove(body["Key"]["pk"]["S"].as_str().unwrap());
                json!({})
            }
            other => panic!("the stand-in does not know {other}"),
        }
    }

    fn batch(&self, requests: &Value, most: usize) -> Value {
        let (table, request) = requests.as_object().unwrap().iter().next().unwrap();
        let keys = request["Keys"].as_array().unwrap();
        let (read, left) = keys.split_at(keys.len().min(most));
        let items: Vec<&Value> =
            read.iter().filter_map(|key| self.items.get(key["pk"]["S"].as_str().unwrap())).collect();
        let left = if left.is_empty() { json!({}) } else { json!({ table: {"Keys": left} }) };
        json!({"Responses": { table: items }, "UnprocessedKeys": left})
    }
}
