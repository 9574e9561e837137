//! Building a [`Gateway`] from a function's environment.

use access::AccessStore;
use idempotency::{expiry_bounds, records, reuse_limits};
use mq::InlineTargets;
use objects::Objects;
use runtime::{Environment, EnvironmentError, Sdk};

use crate::budget::Budget;
use crate::front::Gateway;
use crate::idempotent::Idempotency;
use crate::mq_access::MqAccess;

/// Most bytes of messages that one request may make, without a setting.
const MAX_PRODUCE_BYTES: u64 = 64 * 1024 * 1024;

/// Rule for the records of a function's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Records {
    /// The operation changes something, so its requests are recorded.
    Kept,
    /// The operation is a read, so its requests are not recorded.
    None,
}

impl Gateway {
    /// Reads the function's variables and builds its clients.
    ///
    /// # Errors
    /// When variables are missing or wrong; the error names all of them.
    pub async fn from_environment(service: &'static str, kept: Records) -> Result<Self, EnvironmentError> {
        let mut environment = Environment::of_process();
        let access_table = environment.required("ACCESS_TABLE");
        let mq_access: String = environment.required("MQ_ACCESS_FUNCTION");
        let inline_targets: InlineTargets = environment.optional("INLINE_TARGETS", InlineTargets::default());
        let max_produce_bytes = environment.optional("MAX_PRODUCE_BYTES", MAX_PRODUCE_BYTES);
        let limit = Budget::limit(&mut environment);
        let budget = limit.map(|limit| (environment.required("BUDGET_TABLE"), limit));
        let kept = (kept == Records::Kept).then(|| {
            let table: String = environment.required("IDEMPOTENCY_TABLE");
            let results_bucket = environment.optional("RESULTS_BUCKET", String::new());
            let reuse = reuse_limits(&mut environment);
            let expiry = expiry_bounds(&mut environment);
            (table, results_bucket, reuse, expiry)
        });
        environment.check()?;

        let sdk = Sdk::from_environment().await;
        let dynamodb = aws_sdk_dynamodb::Client::new(sdk.standard());
        // Uploaded bodies are in the bucket of results.
        let uploads = kept.as_ref().map(|(_, bucket, ..)| bucket.clone()).filter(|bucket| !bucket.is_empty());
        let uploads = uploads.map(|bucket| Objects::new(aws_sdk_s3::Client::new(&sdk.objects()), bucket));
        let lambda = aws_sdk_lambda::Client::new(&sdk.single_attempt(MqAccess::PATIENCE));
        Ok(Self {
            service,
            access: AccessStore::new(dynamodb.clone(), access_table),
            mq_access: MqAccess::new(lambda, mq_access),
            budget: budget.map(|(table, limit)| Budget::new(dynamodb.clone(), table, limit)),
            inline_targets,
            max_produce_bytes,
            uploads,
            idempotency: kept.map(|(table, results_bucket, reuse, expiry)| {
                let store = records(&sdk, dynamodb, table, results_bucket, service).with_reuse_limits(reuse);
                Idempotency { store, expiry }
            }),
        })
    }
}
