//! `GET /metrics`: figures of the whole deployment for Prometheus.
//!
//! They come from what is durable: PostgreSQL, through the function that reaches it, and the
//! attributes of queues. What an environment of a function counts by itself would be the figures of
//! one environment of many.

mod queues;
mod snapshot;

pub(crate) use self::queues::{QueueUrls, Queues};
pub(crate) use self::snapshot::Snapshots;

use std::error::Error;
use std::time::Duration;

use access::Scope;
use api::{Problem, Query, Reply};
use lambda_http::Request;
use runtime::metrics::{BUILD_INFO, CONTENT_TYPE, SNAPSHOT_AGE, Scrape, UP};

use crate::Status;

/// Time that a part of the snapshot may take. The response is due within 2 s.
const PATIENCE: Duration = Duration::from_millis(1500);
const _: () = assert!(PATIENCE.as_millis() < 2000);

/// Sources of the snapshot, and the last one.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) queues: Option<Queues>,
    pub(crate) snapshots: Snapshots,
}

impl Status {
    /// Responds with the last snapshot, or a new one.
    pub(crate) async fn metrics(&self, request: &Request) -> Result<Reply, Problem> {
        let principal = access::authenticate(&self.access, request.headers()).await?;
        principal.require_any(&[Scope::OpsRead])?;
        Query::parse(request.uri().query().unwrap_or_default(), &[])?;
        let (mut scrape, age) = self.metrics.snapshots.current(self.snapshot()).await;
        scrape.put(SNAPSHOT_AGE, &[], age.as_secs_f64());
        Ok(Reply::new(200, CONTENT_TYPE, scrape.text()))
    }

    /// Reads all parts that the deployment has. A part that cannot be read is left out.
    async fn snapshot(&self) -> Scrape {
        let database = async {
            match &self.ingest {
                Some(ingest) => Some(part(PATIENCE, "database", ingest.metrics()).await),
                None => None,
            }
        };
        let queues = async {
            match &self.metrics.queues {
                Some(queues) => Some(part(PATIENCE, "queues", queues.metrics()).await),
                None => None,
            }
        };
        let (database, queues) = tokio::join!(database, queues);
        let mut scrape = Scrape::default();
        for part in [database, queues].into_iter().flatten() {
            scrape.extend(part);
        }
        scrape.put(BUILD_INFO, &[env!("COMMIT"), env!("CARGO_PKG_VERSION")], 1);
        scrape
    }
}

/// Reads a part within its time, and notes whether it could be read.
async fn part<E: Into<Box<dyn Error + Send + Sync>>>(
    patience: Duration,
    name: &'static str,
    read: impl Future<Output = Result<Scrape, E>>,
) -> Scrape {
    let found: Result<Scrape, Box<dyn Error + Send + Sync>> = match tokio::time::timeout(patience, read).await
    {
        Ok(found) => found.map_err(Into::into),
        Err(_) => Err("it did not answer in time".into()),
    };
    let is_up = u8::from(found.is_ok());
    let mut scrape = found.unwrap_or_else(|error| {
        let error: &(dyn Error + 'static) = &*error;
        tracing::warn!(
            event_type = "metrics.part_failed",
            part = name,
            error,
            "the part {name} of the metrics is left out: {error}"
        );
        Scrape::default()
    });
    scrape.put(UP, &[name], is_up);
    scrape
}

#[cfg(test)]
mod tests {
    use runtime::metrics::CHUNKS_PENDING;

    use super::*;

    #[tokio::test]
    async fn a_part_that_fails_is_left_out_and_said_to_be_down() {
        let mut read = Scrape::default();
        read.put(CHUNKS_PENDING, &[], 3);
        let up = part(PATIENCE, "database", async { Ok::<_, String>(read) }).await.text();
        assert!(up.contains("\nintegrahub_chunks_pending 3\n"), "{up}");
        assert!(up.ends_with("\nintegrahub_up{part=\"database\"} 1\n"), "{up}");
        let down = part(PATIENCE, "queues", async { Err("no such queue".to_owned()) }).await.text();
        assert!(down.ends_with("\nintegrahub_up{part=\"queues\"} 0\n"), "{down}");
        assert_eq!(down.lines().count(), 3, "{down}");
    }

    #[tokio::test]
    async fn a_part_that_does_not_answer_in_time_is_down() {
        let never = std::future::pending::<Result<Scrape, String>>();
        let down = part(Duration::from_millis(10), "database", never).await.text();
        assert!(down.ends_with("\nintegrahub_up{part=\"database\"} 0\n"), "{down}");
    }
}
