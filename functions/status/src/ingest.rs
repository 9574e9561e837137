//! Client of the function `batches`, which reaches the ingest's stores and reports their readiness,
//! metrics and usage.

use std::error::Error;

use api::readiness::{Dependencies, Dependency};
use aws_sdk_lambda::Client;
use aws_sdk_lambda::primitives::Blob;
use jiff::civil::Date;
use runtime::metrics::Scrape;
use serde::de::DeserializeOwned;
use usage::ingest::{IngestUsage, USAGE, content, request};

/// Path of an internal request to the function `batches` for the readiness of the ingest's stores.
/// The API has no route to it.
const READINESS: &str = "/health/ready";
/// Path of an internal request to the function `batches` for the metrics of the ingest's database.
/// The API has no route to it.
const METRICS: &str = "/metrics";

/// Client of the function `batches`, which reports on the ingest.
#[derive(Debug)]
pub(crate) struct Ingest {
    lambda: Client,
    function: String,
}

impl Ingest {
    /// Creates the client. `function` is the name of the Lambda function `batches` in this
    /// deployment.
    pub(crate) const fn new(lambda: Client, function: String) -> Self {
        Self { lambda, function }
    }

    /// Returns the readiness of each of the ingest's stores. If the function `batches` does not
    /// respond, returns a single entry, `ingest`, as failed.
    pub(crate) async fn dependencies(&self) -> Vec<Dependency> {
        let mut found = Vec::new();
        let asked =
            async { self.ask(READINESS, "").await.map(|stores: Dependencies| found = stores.dependencies) };
        let ingest = Dependency::check_with_others("ingest", asked).await;
        if ingest.ok { found } else { vec![ingest] }
    }

    /// Returns the ingest's metrics, which are read from the database.
    ///
    /// # Errors
    /// If the function `batches` does not respond, or its database does not.
    pub(crate) async fn metrics(&self) -> Result<Scrape, Box<dyn Error + Send + Sync>> {
        self.ask(METRICS, "").await
    }

    /// Returns the ingest's usage from the day `from` to the day `to`, both included, for one
    /// tenant or for all (`None`). A tenant whose id is not a UUID has no batches.
    ///
    /// # Errors
    /// If the function `batches` does not respond, or its database does not.
    pub(crate) async fn usage(
        &self,
        (from, to): (Date, Date),
        tenant: Option<&str>,
    ) -> Result<IngestUsage, Box<dyn Error + Send + Sync>> {
        let query = match tenant {
            None => format!("from={from}&to={to}"),
            Some(tenant) if is_uuid(tenant) => format!("from={from}&to={to}&tenant={tenant}"),
            Some(_) => return Ok(IngestUsage { days: Vec::new(), is_whole: true }),
        };
        self.ask(USAGE, &query).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &str,
    ) -> Result<T, Box<dyn Error + Send + Sync>> {
        let event = Blob::new(request(path, query).to_string());
        let invoked = self.lambda.invoke().function_name(&self.function).payload(event);
        let invoked = invoked.send().await?;
        if let Some(error) = invoked.function_error() {
            return Err(error.into());
        }
        content(invoked.payload().map(Blob::as_ref).unwrap_or_default())
    }
}

/// Returns whether a text is a UUID of 36 characters, which needs no percent-encoding in a query.
fn is_uuid(text: &str) -> bool {
    let is_digit = |(index, byte): (usize, u8)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.bytes().enumerate().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_told_from_other_ids_of_tenants() {
        assert!(is_uuid("019a0b5e-7f3c-7c11-9d55-0c8f6a1b2c3d"));
        for other in
            ["acme", "", "019a0b5e-7f3c-7c11-9d55-0c8f6a1b2c3", "019a0b5e&7f3c-7c11-9d55-0c8f6a1b2c3d"]
        {
            assert!(!is_uuid(other), "{other}");
        }
    }
}
