//! Proxy of the crash tests in front of DynamoDB, S3 and SQS.

use bytes::Bytes;
use http::{Method, Request, Response};
use serde_json::Value;
use test_support::http_server::{Server, response};

use super::faults::{Faults, Op};

/// HTTP headers that the proxy does not forward, since they belong to one connection or are
/// computed anew.
const OF_THE_CONNECTION: [&str; 4] = ["host", "connection", "content-length", "transfer-encoding"];

/// HTTP proxy that forwards requests for DynamoDB, S3 and SQS to the AWS stand-in, unless a rule of
/// [`Faults`] strikes them.
#[derive(Debug)]
pub(crate) struct StoreProxy(Server);

impl StoreProxy {
    pub(crate) async fn start(faults: Faults) -> Self {
        let upstream = end_to_end::variable("AWS_ENDPOINT_URL");
        let records = end_to_end::variable("IDEMPOTENCY_TABLE");
        let client = reqwest::Client::new();
        let server = Server::start(move |request| {
            let (faults, client, upstream) = (faults.clone(), client.clone(), upstream.clone());
            let op = classify(&request, &records);
            async move { faults.pass(op, forward(client, upstream, request)).await }
        });
        Self(server.await)
    }

    pub(crate) fn url(&self) -> String {
        self.0.url()
    }

    /// Makes the proxy refuse new connections from now on.
    pub(crate) fn stop(&self) {
        self.0.stop();
    }
}

async fn forward(client: reqwest::Client, upstream: String, request: Request<Bytes>) -> Response<Bytes> {
    let path = request.uri().path_and_query().map_or("/", |it| it.as_str());
    let url = format!("{}{path}", upstream.trim_end_matches('/'));
    let (parts, body) = request.into_parts();
    let is_head = parts.method == Method::HEAD;
    let mut headers = parts.headers;
    OF_THE_CONNECTION.iter().for_each(|name| drop(headers.remove(*name)));
    let answer = client.request(parts.method, url).headers(headers).body(body).send().await.unwrap();
    let (status, mut headers) = (answer.status().as_u16(), answer.headers().clone());
    let length = headers.get("content-length").filter(|_| is_head).cloned();
    OF_THE_CONNECTION.iter().for_each(|name| drop(headers.remove(*name)));
    // Of an answer without a body it is what was asked for.
    headers.extend(length.map(|length| (http::header::CONTENT_LENGTH, length)));
    let mut forwarded = response(status, answer.bytes().await.unwrap());
    *forwarded.headers_mut() = headers;
    forwarded
}

/// Returns the kind of a request. `records` is the name of the idempotency table, whose writes are
/// told apart by their content.
fn classify(request: &Request<Bytes>, records: &str) -> Op {
    let Some(target) = request.headers().get("x-amz-target") else {
        return match *request.method() {
            Method::PUT => Op::PutObject,
            Method::GET => Op::GetObject,
            Method::HEAD => Op::HeadObject,
            _ => Op::Other,
        };
    };
    let target = target.to_str().unwrap_or_default();
    let operation = target.rsplit('.').next().unwrap_or_default();
    if target.starts_with("AmazonSQS.") {
        return if operation.starts_with("SendMessage") { Op::Send } else { Op::Other };
    }
    let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
    if body["TableName"] != records {
        return if operation == "PutItem" { Op::PutBatch } else { Op::Access };
    }
    let value = |name: &str| body["ExpressionAttributeValues"][name]["S"].as_str();
    match (operation, value(":status")) {
        ("PutItem", _) => Op::Claim,
        ("UpdateItem", _) if value(":oldOwner").is_some() => Op::TakeOver,
        ("UpdateItem", Some("PREPARED")) => Op::Prepare,
        ("UpdateItem", Some("COMPLETED")) => Op::Complete,
        ("UpdateItem", Some("FAILED")) => Op::Fail,
        ("UpdateItem", _)
            if body["UpdateExpression"].as_str().is_some_and(|text| text.contains("checkpoint")) =>
        {
            Op::Checkpoint
        }
        _ => Op::Other,
    }
}
