//! Client of the function `batches`, which reads the ingest's usage from the ingest's database.

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
    /// Creates the client. `function` is the name of the Lambda function `batches` in this
    /// deployment.
    #[must_use]
    pub const fn new(lambda: Client, function: String) -> Self {
        Self { lambda, function }
    }

    /// Returns the ingest's usage on a day: of all tenants, or of those whose ids come after
    /// `tenant`. If the response is incomplete, the caller asks again with the response's last
    /// tenant.
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
