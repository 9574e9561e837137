//! Building [`Batches`] from the function's environment.

use std::time::Duration;

use access::AccessStore;
use batch_items::BatchItems;
use catalog::Database;
use endpoint::limits::LimiterSettings;
use events::kafka::{Cluster, TopicWatch};
use lambda_http::Error;
use objects::Objects;
use runtime::{Environment, Sdk};
use transport::{ChunkTransport, NotificationQueue};

use crate::Batches;
use crate::readiness::Queues;
use crate::secrets::{self, Secrets};

/// Time limit of each database call. A client that reads a batch should soon learn that the
/// database is down.
const TIMEOUT: Duration = Duration::from_secs(5);

impl Batches {
    /// Builds the function `batches` from its environment variables, with all of its clients.
    ///
    /// # Errors
    /// If variables are missing or invalid, or the settings of the database are. The error names
    /// all missing or invalid variables.
    pub async fn from_environment(service: &'static str) -> Result<Self, Error> {
        let mut environment = Environment::of_process();
        let access_table = environment.required("ACCESS_TABLE");
        let batches_table = environment.required("BATCHES_TABLE");
        let idempotency_table = environment.required("IDEMPOTENCY_TABLE");
        let bucket: String = environment.required("PAYLOAD_BUCKET");
        let queue_url: String = environment.required("BATCHES_QUEUE_URL");
        let chunks_queue: String = environment.required("CHUNKS_QUEUE_URL");
        let publishes_events = environment.optional("PUBLISHES_EVENTS", false);
        let secrets = secrets::VARIABLES.map(|name| environment.optional(name, String::new()));
        let kafka = ChunkTransport::read_kafka(&mut environment)
            .map(|settings| (settings, environment.required::<String>("KAFKA_GROUP")));
        let reuse = idempotency::reuse_limits(&mut environment);
        let tokens = endpoint::token_settings(&mut environment);
        let expiry = idempotency::expiry_bounds(&mut environment);
        let limiter = LimiterSettings::read(&mut environment);
        environment.check()?;

        let sdk = Sdk::from_environment().await;
        let dynamodb = aws_sdk_dynamodb::Client::new(sdk.standard());
        let sqs = aws_sdk_sqs::Client::new(sdk.standard());
        let records = idempotency::records(&sdk, dynamodb.clone(), idempotency_table, String::new(), service);
        Ok(Self {
            service,
            access: AccessStore::new(dynamodb.clone(), access_table).with_tokens(tokens),
            limiter: limiter.build(&dynamodb),
            accepted: BatchItems::new(dynamodb, batches_table),
            database: Database::from_environment(&sdk).await?.with_budget(TIMEOUT),
            records: records.with_reuse_limits(reuse),
            expiry,
            objects: Objects::new(aws_sdk_s3::Client::new(&sdk.objects()), bucket),
            payloads: NotificationQueue::new(sqs.clone(), queue_url.clone()),
            queues: Queues { client: sqs, batches: queue_url, chunks: chunks_queue },
            secrets: Secrets::new(aws_sdk_secretsmanager::Client::new(sdk.standard()), secrets),
            kafka: kafka.map(|(settings, group)| TopicWatch::new(Cluster::new(settings, &sdk), group)),
            publishes_events,
        })
    }
}
