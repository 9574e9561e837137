//! Readiness check of the secrets of the database and of Kafka. It does not read the secrets'
//! values.

use std::error::Error;
use std::time::Duration;

use attempt::Remembered;
use aws_sdk_secretsmanager::Client;

/// Names of the environment variables with the ARNs of the secrets of the database and of Kafka.
/// All but the first are optional.
pub(crate) const VARIABLES: [&str; 4] =
    ["DATABASE_SECRET_ARN", "DATABASE_CA_SECRET_ARN", "KAFKA_SECRET_ARN", "KAFKA_CA_SECRET_ARN"];

/// Time for which a successful check of the secrets is cached: Secrets Manager charges for every
/// call, and the readiness route that triggers the check needs no key.
const REMEMBERED: Duration = Duration::from_secs(10 * 60);

/// Checker of the secrets of the database and of Kafka, which caches success.
#[derive(Debug)]
pub(crate) struct Secrets {
    client: Client,
    arns: Vec<String>,
    /// Cache of the last successful check of all secrets; empty if none succeeded in the last ten
    /// minutes.
    found: Remembered<(), ()>,
}

impl Secrets {
    /// Creates a checker of the secrets with these ARNs; empty ARNs are skipped.
    pub(crate) fn new(client: Client, arns: impl IntoIterator<Item = String>) -> Self {
        let arns = arns.into_iter().filter(|arn| !arn.is_empty()).collect();
        Self { client, arns, found: Remembered::new(REMEMBERED, 1) }
    }

    /// Checks that every secret exists and is not scheduled for deletion; such a secret cannot be
    /// read.
    pub(crate) async fn probe(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        if self.found.get(&()).is_some() {
            return Ok(());
        }
        for arn in &self.arns {
            let described = self.client.describe_secret().secret_id(arn).send().await;
            let described = described.map_err(aws_sdk_secretsmanager::Error::from)?;
            if described.deleted_date.is_some() {
                return Err(format!("the secret {arn} is to be deleted").into());
            }
        }
        self.found.put((), ());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use runtime::Sdk;
    use test_support::http_server::{Server, response};

    use super::*;

    /// Starts a fake Secrets Manager that responds with `described`. Returns a [`Secrets`] that
    /// calls it, the number of its responses so far, and its server.
    async fn secrets(described: &'static str) -> (Secrets, Arc<AtomicU32>, Server) {
        let answers = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&answers);
        let server = Server::start(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            async move { Some(response(200, described)) }
        })
        .await;
        let sdk = Sdk::at(&server.url(), "us-east-1", "id", "key").await;
        let arns = ["arn:database", "", "arn:kafka", ""].map(str::to_owned);
        (Secrets::new(Client::new(sdk.standard()), arns), answers, server)
    }

    #[tokio::test]
    async fn each_secret_is_asked_about_once_in_a_while() {
        let (secrets, answers, _server) = secrets(r#"{"Name": "database"}"#).await;
        secrets.probe().await.unwrap();
        assert_eq!(answers.load(Ordering::SeqCst), 2);
        secrets.probe().await.unwrap();
        assert_eq!(answers.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_secret_that_waits_for_its_deletion_is_named_and_asked_about_again() {
        let (secrets, answers, _server) = secrets(r#"{"DeletedDate": 1.7642e9}"#).await;
        for asked in [1, 2] {
            let error = secrets.probe().await.unwrap_err().to_string();
            assert!(error.contains("arn:database"), "{error}");
            assert_eq!(answers.load(Ordering::SeqCst), asked);
        }
    }
}
