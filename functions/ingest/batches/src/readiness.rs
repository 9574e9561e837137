//! Readiness of the ingest's stores. The API's `GET /health/ready` invokes this function for it,
//! since the database may be reachable from this one only.

use api::Reply;
use api::readiness::{Dependencies, Dependency};
use aws_sdk_sqs::Client;
use ingestion::Viewer;
use lambda_http::Request;
use serde_json::json;
use uuid::Uuid;

use crate::Batches;

/// The queues between the ingest's functions.
#[derive(Debug)]
pub(crate) struct Queues {
    pub(crate) client: Client,
    pub(crate) batches: String,
    pub(crate) chunks: String,
}

/// Path by which another function asks for readiness. No route of the API leads here.
const PATH: &str = "/health/ready";

pub(crate) fn is_asked(request: &Request) -> bool {
    request.uri().path() == PATH
}

impl Batches {
    pub(crate) async fn readiness(&self) -> Reply {
        let nobody = Viewer::whole(Uuid::nil());
        let item = async { self.accepted.get(&nobody, Uuid::nil()).await.map(drop) };
        let (database, bucket, table, batches, chunks) = tokio::join!(
            Dependency::check("database", self.database.ping()),
            Dependency::check("payloadBucket", self.objects.probe()),
            Dependency::check("batchesTable", item),
            Dependency::check("batchesQueue", transport::probe(&self.queues.client, &self.queues.batches)),
            Dependency::check("chunksQueue", transport::probe(&self.queues.client, &self.queues.chunks)),
        );
        let stores = Dependencies { dependencies: vec![database, bucket, table, batches, chunks] };
        Reply::json(200, &json!(stores))
    }
}
