//! Readiness of the ingest's stores. The API's `GET /health/ready` invokes this function for it,
//! since the database may be reachable from this one only.

use std::error::Error;
use std::time::Duration;

use api::Reply;
use api::readiness::{Dependencies, Dependency};
use aws_sdk_sqs::Client;
use ingestion::Viewer;
use serde_json::json;
use uuid::Uuid;

use crate::Batches;

/// URLs of the SQS queues of payloads (`batches`) and of chunks, and the client with which the
/// readiness check calls them.
#[derive(Debug)]
pub(crate) struct Queues {
    pub(crate) client: Client,
    pub(crate) batches: String,
    pub(crate) chunks: String,
}

/// Maximum age of an unpublished event before readiness reports the event destinations as
/// unreachable. The alarm `EventsBehind` has the same limit.
const EVENTS_MAY_WAIT: Duration = Duration::from_secs(15 * 60);

impl Batches {
    pub(crate) async fn readiness(&self) -> Reply {
        let nobody = Viewer::whole(Uuid::nil());
        let item = async { self.accepted.get(&nobody, Uuid::nil()).await.map(drop) };
        let events = async {
            if !self.publishes_events {
                return None;
            }
            Some(Dependency::check("eventTargets", self.events_leave()).await)
        };
        let kafka = async {
            match &self.kafka {
                // Boxed: the futures of the client are large.
                Some(kafka) => Some(Dependency::check("kafka", Box::pin(kafka.probe())).await),
                None => None,
            }
        };
        let (database, bucket, table, batches, chunks, secrets, kafka, events) = tokio::join!(
            Dependency::check("database", self.database.ping()),
            Dependency::check("payloadBucket", self.objects.probe()),
            Dependency::check("batchesTable", item),
            Dependency::check("batchesQueue", transport::probe(&self.queues.client, &self.queues.batches)),
            Dependency::check("chunksQueue", transport::probe(&self.queues.client, &self.queues.chunks)),
            Dependency::check("secrets", self.secrets.probe()),
            kafka,
            events,
        );
        let mut dependencies = vec![database, bucket, table, batches, chunks, secrets];
        dependencies.extend(kafka);
        dependencies.extend(events);
        Reply::json(200, &json!(Dependencies { dependencies }))
    }

    /// Checks that no event has waited in the outbox for too long. No test event is published: the
    /// backlog already shows the failure of a bus, a topic or a Kafka cluster.
    async fn events_leave(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let backlog = self.database.backlog().await?;
        if backlog.oldest < EVENTS_MAY_WAIT {
            return Ok(());
        }
        Err(format!("an event has been waiting for {} s to be published", backlog.oldest.as_secs()).into())
    }
}
