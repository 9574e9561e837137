//! Building [`DropIntake`] from the function's environment.

use std::time::Duration;

use access::AccessStore;
use batch_items::BatchItems;
use events::Publisher;
use ingestion::product::PartialPolicy;
use objects::Objects;
use runtime::{Environment, EnvironmentError, Sdk};
use worker::Visibility;

use crate::DropIntake;

/// Time limit of S3's copy of a dropped object: less than the lease of a claim on an idempotency
/// key, and less than an invocation may take.
const COPY: Duration = Duration::from_secs(20);

impl DropIntake {
    /// Builds the function `drop-intake` from its environment variables, with all of its clients.
    ///
    /// # Errors
    /// If variables are missing or invalid; the error names all of them.
    pub async fn from_environment(service: &'static str) -> Result<Self, EnvironmentError> {
        let mut environment = Environment::of_process();
        let access_table = environment.required("ACCESS_TABLE");
        let idempotency_table = environment.required("IDEMPOTENCY_TABLE");
        let batches_table = environment.required("BATCHES_TABLE");
        let bucket: String = environment.required("PAYLOAD_BUCKET");
        let drop_bucket: String = environment.optional("DROP_BUCKET", String::new());
        let queue_url = environment.required("DROPS_QUEUE_URL");
        let max_bytes = environment.required("MAX_PAYLOAD_BYTES");
        let partial = environment.optional("PARTIAL_ITEMS", PartialPolicy::default());
        let base = Duration::from_secs(environment.optional("RETRY_BASE_SECONDS", 10));
        let events = events::Settings::read(&mut environment);
        environment.check()?;

        let sdk = Sdk::from_environment().await;
        let dynamodb = aws_sdk_dynamodb::Client::new(sdk.standard());
        let s3 = |sdk| aws_sdk_s3::Client::new(&sdk);
        Ok(Self {
            service,
            access: AccessStore::new(dynamodb.clone(), access_table),
            records: idempotency::records(&sdk, dynamodb.clone(), idempotency_table, String::new(), service),
            accepted: BatchItems::new(dynamodb, batches_table),
            objects: Objects::new(s3(sdk.objects()), bucket.clone()),
            drop_bucket: Some(drop_bucket).filter(|name| !name.is_empty()),
            copier: Objects::new(s3(sdk.single_attempt(COPY)), bucket),
            publisher: Publisher::of(&sdk, events),
            visibility: Visibility::new(aws_sdk_sqs::Client::new(sdk.standard()), queue_url, base),
            max_bytes,
            partial,
        })
    }
}
