//! Readiness and metrics of the ingest's stores, from a function that reaches them: the database
//! may be in a network of its own.

use std::error::Error;

use api::readiness::{Dependencies, Dependency};
use aws_sdk_lambda::Client;
use aws_sdk_lambda::primitives::Blob;
use runtime::metrics::Scrape;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Path for readiness of the function `batches`. No route of the API leads there.
const READINESS: &str = "/health/ready";
/// Path for the metrics of its database. No route of the API leads there, either.
const METRICS: &str = "/metrics";

/// Client that invokes the function `batches`.
#[derive(Debug)]
pub(crate) struct Ingest {
    lambda: Client,
    function: String,
}

/// Response of an HTTP function to API Gateway.
#[derive(Deserialize)]
struct Answer {
    body: String,
}

impl Ingest {
    pub(crate) const fn new(lambda: Client, function: String) -> Self {
        Self { lambda, function }
    }

    /// Returns the readiness of each store, or one failure for all of them if the function does not
    /// respond.
    pub(crate) async fn dependencies(&self) -> Vec<Dependency> {
        let mut found = Vec::new();
        let asked =
            async { self.ask(READINESS).await.map(|stores: Dependencies| found = stores.dependencies) };
        let ingest = Dependency::check_with_others("ingest", asked).await;
        if ingest.ok { found } else { vec![ingest] }
    }

    /// Returns the metrics of the database.
    ///
    /// # Errors
    /// If the function does not respond, or its database does not.
    pub(crate) async fn metrics(&self) -> Result<Scrape, Box<dyn Error + Send + Sync>> {
        self.ask(METRICS).await
    }

    async fn ask<T: DeserializeOwned>(&self, path: &str) -> Result<T, Box<dyn Error + Send + Sync>> {
        let event = Blob::new(event(path).to_string());
        let invoked = self.lambda.invoke().function_name(&self.function).payload(event);
        let invoked = invoked.send().await?;
        if let Some(error) = invoked.function_error() {
            return Err(error.into());
        }
        let answer = invoked.payload().map(Blob::as_ref).unwrap_or_default();
        let Answer { body } = failure::malformed::from_slice(answer)?;
        Ok(failure::malformed::from_slice(body.as_bytes())?)
    }
}

/// Makes a request as API Gateway hands it over, in payload format 2.0.
fn event(path: &str) -> Value {
    json!({
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"host": "status"},
        "requestContext": {
            "accountId": "", "apiId": "", "domainName": "status", "domainPrefix": "",
            "http": {
                "method": "GET", "path": path, "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1",
                "userAgent": "status",
            },
            "requestId": "", "routeKey": "$default", "stage": "$default",
            "time": "", "timeEpoch": 0,
        },
        "isBase64Encoded": false,
    })
}
