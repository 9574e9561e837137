//! Usage of the ingest, from the function `batches`, which reaches its database.

use std::error::Error;

use aws_sdk_lambda::Client;
use aws_sdk_lambda::primitives::Blob;
use jiff::civil::Date;
use usage::ingest::{IngestUsage, USAGE, content, request};

/// Client of the function `batches`, which reports the ingest's usage.
#[derive(Debug)]
pub struct Ingest {
    lambda: Client,
    function: String,
}

impl Ingest {
    /// Creates the client of the function named `function`.
    #[must_use]
    pub const fn new(lambda: Client, function: String) -> Self {
        Self { lambda, function }
    }

    /// Returns the ingest's usage on a day, for all tenants or for the tenants after `tenant`. If
    /// the response is incomplete, the next call begins after its last tenant.
    ///
    /// # Errors
    /// If the function `batches` does not respond, or its database does not.
    pub(crate) async fn usage_after(
        &self,
        day: Date,
        tenant: Option<&str>,
    ) -> Result<IngestUsage, Box<dyn Error + Send + Sync>> {
        let after = tenant.map(|tenant| format!("&after={tenant}")).unwrap_or_default();
        let event = Blob::new(request(USAGE, &format!("from={day}&to={day}{after}")).to_string());
        let invoked = self.lambda.invoke().function_name(&self.function).payload(event);
        let invoked = invoked.send().await?;
        if let Some(error) = invoked.function_error() {
            return Err(error.into());
        }
        content(invoked.payload().map(Blob::as_ref).unwrap_or_default())
    }
}
