//! Building [`ProductIngest`] from the function's environment.

use std::time::Duration;

use access::AccessStore;
use batch_items::BatchItems;
use endpoint::limits::LimiterSettings;
use ingestion::product::PartialPolicy;
use objects::Objects;
use runtime::{Environment, EnvironmentError, Sdk};

use crate::ProductIngest;
use crate::payloads::Payloads;

impl ProductIngest {
    /// Builds the function `product-ingest` from its environment variables, with all of its
    /// clients.
    ///
    /// # Errors
    /// If variables are missing or invalid; the error names all of them.
    pub async fn from_environment(service: &'static str) -> Result<Self, EnvironmentError> {
        let mut environment = Environment::of_process();
        let access_table = environment.required("ACCESS_TABLE");
        let idempotency_table = environment.required("IDEMPOTENCY_TABLE");
        let batches_table = environment.required("BATCHES_TABLE");
        let bucket = environment.required("PAYLOAD_BUCKET");
        let max_payload = environment.required("MAX_PAYLOAD_BYTES");
        let partial = environment.optional("PARTIAL_ITEMS", PartialPolicy::default());
        let upload_expiry = Duration::from_secs(environment.optional("UPLOAD_EXPIRY_SECONDS", 900));
        let reuse = idempotency::reuse_limits(&mut environment);
        let tokens = endpoint::token_settings(&mut environment);
        let limiter = LimiterSettings::read(&mut environment);
        environment.check()?;

        let sdk = Sdk::from_environment().await;
        let dynamodb = aws_sdk_dynamodb::Client::new(sdk.standard());
        let s3 = aws_sdk_s3::Client::new(&sdk.objects());
        let records = idempotency::records(&sdk, dynamodb.clone(), idempotency_table, String::new(), service);
        Ok(Self {
            service,
            access: AccessStore::new(dynamodb.clone(), access_table).with_tokens(tokens),
            limiter: limiter.build(&dynamodb),
            records: records.with_reuse_limits(reuse),
            accepted: BatchItems::new(dynamodb, batches_table),
            payloads: Payloads::new(Objects::new(s3, bucket)),
            max_payload,
            partial,
            upload_expiry,
        })
    }
}
