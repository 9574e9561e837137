//! Builds a [`Front`] or a [`Gateway`] from a function's environment variables.

use access::{AccessStore, TokenSettings};
use aws_sdk_dynamodb::Client;
use endpoint::limits::LimiterSettings;
use idempotency::{ExpiryBounds, ReuseLimits, expiry_bounds, records, reuse_limits};
use mq::InlineTargets;
use objects::Objects;
use runtime::{Environment, EnvironmentError, Sdk};

use crate::checks::Front;
use crate::front::Gateway;
use crate::idempotent::Idempotency;
use crate::mq_access::MqAccess;
use crate::order_limit::OrderLimit;

/// Maximum number of bytes of all messages that one produce may put together.
const MAX_PRODUCE_BYTES: u64 = 64 * 1024 * 1024;

/// Rule whether a function keeps idempotency records of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Records {
    /// The operation changes something, so its requests have idempotency records.
    Kept,
    /// The operation is a read, so its requests have no idempotency records.
    None,
}

/// Environment variables from which a [`Front`] is built.
#[derive(Debug)]
pub struct FrontSettings {
    access_table: String,
    tokens: Option<TokenSettings>,
    inline_targets: InlineTargets,
    records: Option<RecordSettings>,
    limiter: LimiterSettings,
}

/// Environment variables for the idempotency records of a function.
#[derive(Debug)]
struct RecordSettings {
    table: String,
    /// S3 bucket for responses that are too large for a record; empty if the deployment has none.
    results_bucket: String,
    reuse: ReuseLimits,
    expiry: ExpiryBounds,
}

impl FrontSettings {
    /// Reads the variables of a function's [`Front`] from the environment.
    pub fn read<F: Fn(&str) -> Option<String>>(environment: &mut Environment<F>, kept: Records) -> Self {
        Self {
            access_table: environment.required("ACCESS_TABLE"),
            tokens: endpoint::token_settings(environment),
            inline_targets: environment.optional("INLINE_TARGETS", InlineTargets::default()),
            records: (kept == Records::Kept).then(|| RecordSettings {
                table: environment.required("IDEMPOTENCY_TABLE"),
                results_bucket: environment.optional("RESULTS_BUCKET", String::new()),
                reuse: reuse_limits(environment),
                expiry: expiry_bounds(environment),
            }),
            limiter: LimiterSettings::read(environment),
        }
    }

    /// Builds the [`Front`] of the function that has the name `service` in metrics.
    #[must_use]
    pub fn front(self, service: &'static str, sdk: &Sdk, dynamodb: &Client) -> Front {
        let Self { access_table, tokens, inline_targets, records: kept, limiter } = self;
        Front {
            service,
            access: AccessStore::new(dynamodb.clone(), access_table).with_tokens(tokens),
            inline_targets,
            idempotency: kept.map(|RecordSettings { table, results_bucket, reuse, expiry }| {
                let store = records(sdk, dynamodb.clone(), table, results_bucket, service);
                Idempotency { store: store.with_reuse_limits(reuse), expiry }
            }),
            limiter: limiter.build(dynamodb),
        }
    }

    /// Returns the bucket for large responses; `None` if the function keeps no records or has no
    /// bucket.
    fn bucket(&self) -> Option<&str> {
        let bucket = self.records.as_ref().map(|records| records.results_bucket.as_str());
        bucket.filter(|bucket| !bucket.is_empty())
    }
}

impl Gateway {
    /// Reads the function's environment variables and builds its clients.
    ///
    /// # Errors
    /// If variables are missing or wrong. The error names all of them.
    pub async fn from_environment(service: &'static str, kept: Records) -> Result<Self, EnvironmentError> {
        let mut environment = Environment::of_process();
        let front = FrontSettings::read(&mut environment, kept);
        let mq_access: String = environment.required("MQ_ACCESS_FUNCTION");
        let has_load_tests = environment.optional("LOAD_TESTS", false);
        let limit = OrderLimit::limit(&mut environment);
        let order_limit = limit.map(|limit| (environment.required("BUDGET_TABLE"), limit));
        environment.check()?;

        let sdk = Sdk::from_environment().await;
        let dynamodb = Client::new(sdk.standard());
        // Uploaded bodies are in the bucket of results.
        let objects = |bucket: &str| Objects::new(aws_sdk_s3::Client::new(&sdk.objects()), bucket.to_owned());
        let uploads = front.bucket().map(objects);
        let lambda = aws_sdk_lambda::Client::new(&sdk.single_attempt(MqAccess::RESPONSE_TIMEOUT));
        Ok(Self {
            front: front.front(service, &sdk, &dynamodb),
            mq_access: MqAccess::new(lambda, mq_access),
            order_limit: order_limit.map(|(table, limit)| OrderLimit::new(dynamodb, table, limit)),
            max_produce_bytes: MAX_PRODUCE_BYTES,
            has_load_tests,
            uploads,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_missing_variable_of_the_front_is_reported() {
        let mut environment =
            Environment::of(|name| (name == "INLINE_TARGETS").then(|| "nonsense".to_owned()));
        let settings = FrontSettings::read(&mut environment, Records::Kept);
        assert_eq!(settings.bucket(), None);
        let faults = environment.check().unwrap_err().to_string();
        for name in
            ["ACCESS_TABLE", "INLINE_TARGETS", "IDEMPOTENCY_TABLE", "IDEMPOTENCY_EXPIRY_DEFAULT_SECONDS"]
        {
            assert!(faults.contains(name), "{name}: {faults}");
        }
        let mut environment = Environment::of(|name| (name == "ACCESS_TABLE").then(|| "access".to_owned()));
        FrontSettings::read(&mut environment, Records::None);
        assert!(environment.check().is_ok());
    }
}
