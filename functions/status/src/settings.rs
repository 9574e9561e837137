//! Construction of [`Status`], the state of the function, from environment variables.

use std::time::{Duration, Instant};

use ::endpoint::limits::{Limiter, LimiterSettings};
use access::AccessStore;
use attempt::Remembered;
use front::{MqAccess, OrderLimit};
use idempotency::Store;
use objects::Objects;
use runtime::{Environment, EnvironmentError, Sdk};
use usage::UsageTable;

use crate::Status;
use crate::console::Console;
use crate::ingest::Ingest;
use crate::metrics::{Metrics, QueueUrls, Queues};

/// Time limit of a request to SQS, S3 or another function, so that a caller does not wait longer in
/// an outage.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Time for which the response to `GET /health/ready` is cached, because callers without a key can
/// send that request.
const READY_REMEMBERED: Duration = Duration::from_secs(5);
/// Time for which the response to `GET /limits` is cached for its tenant. [`MOST_LIMITS_REPLIES`]
/// is the maximum number of cached responses, which have up to some 100 KB each.
const LIMITS_REMEMBERED: Duration = Duration::from_secs(2);
const MOST_LIMITS_REPLIES: usize = 100;

impl Status {
    /// Reads the environment variables of the function `status`, and creates its clients.
    ///
    /// # Errors
    /// If variables are missing or malformed. The error names all of them.
    pub async fn from_environment() -> Result<Self, EnvironmentError> {
        let mut environment = Environment::of_process();
        let access_table: String = environment.required("ACCESS_TABLE");
        let idempotency_table: String = environment.required("IDEMPOTENCY_TABLE");
        let mq_access: String = environment.required("MQ_ACCESS_FUNCTION");
        let batches = environment.given("BATCHES_FUNCTION");
        let console = environment.optional("CONSOLE", false);
        let uploads: Option<String> = environment.given("CONSOLE_UPLOADS");
        let queues = environment.optional("METRICS_QUEUES", QueueUrls::default());
        let results: Option<String> = environment.given("RESULTS_BUCKET");
        let usage_table: String = environment.required("USAGE_TABLE");
        let limit = OrderLimit::limit(&mut environment);
        let tokens = ::endpoint::token_settings(&mut environment);
        let order_limit = limit.map(|limit| (environment.required::<String>("BUDGET_TABLE"), limit));
        let limiter = LimiterSettings::read(&mut environment);
        environment.check()?;
        let sdk = Sdk::from_environment().await;
        let mut status = Self::new(&sdk, access_table, idempotency_table, usage_table, mq_access);
        status.access = status.access.with_tokens(tokens);
        if console {
            // S3 is where the SDK has it, if it was told a place: on the local stack.
            status.console = Some(Console::new(sdk.standard().endpoint_url().or(uploads.as_deref())));
        }
        status.metrics.queues =
            Queues::new(|| aws_sdk_sqs::Client::new(&sdk.single_attempt(TIMEOUT)), queues);
        status.results = results
            .map(|results| Objects::new(aws_sdk_s3::Client::new(&sdk.single_attempt(TIMEOUT)), results));
        // An order that lists the connections counts like any other order.
        let dynamodb = aws_sdk_dynamodb::Client::new(sdk.standard());
        status.limiter = limiter.build(&dynamodb);
        status.order_limit = order_limit.map(|(table, limit)| OrderLimit::new(dynamodb, table, limit));
        let lambda = aws_sdk_lambda::Client::new(&sdk.single_attempt(TIMEOUT));
        Ok(Self { ingest: batches.map(|batches| Ingest::new(lambda, batches)), ..status })
    }

    pub(crate) fn new(
        sdk: &Sdk,
        access_table: String,
        idempotency_table: String,
        usage_table: String,
        mq_access: String,
    ) -> Self {
        let dynamodb = aws_sdk_dynamodb::Client::new(sdk.standard());
        let lambda = aws_sdk_lambda::Client::new(&sdk.single_attempt(TIMEOUT));
        Self {
            access: AccessStore::new(dynamodb.clone(), access_table),
            usage: UsageTable::new(dynamodb.clone(), usage_table),
            records: Store::new(dynamodb, idempotency_table),
            mq_access: MqAccess::new(lambda, mq_access),
            order_limit: None,
            limiter: Limiter::off(),
            ingest: None,
            console: None,
            metrics: Metrics::default(),
            results: None,
            ready: Remembered::new(READY_REMEMBERED, 1),
            limits_replies: Remembered::new(LIMITS_REMEMBERED, MOST_LIMITS_REPLIES),
            started: Instant::now(),
        }
    }
}
