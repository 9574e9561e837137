//! Errors of connecting to a Kafka cluster, and whether a retry helps.

use attempt::{Malformed, Retry, Retryable};
use krafka::KrafkaError;
use krafka::error::ErrorCode;

/// Reason why connecting to the Kafka cluster failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum ConnectError {
    #[error("cannot read the secret with Kafka's login")]
    SecretUnavailable(#[source] Box<aws_sdk_secretsmanager::Error>),
    #[error("the secret with Kafka's login is malformed")]
    SecretMalformed(#[source] SecretFault),
    #[error("there are no AWS credentials or no region to log in to Kafka with")]
    NoCredentials,
    #[error("cannot connect to Kafka at {servers}")]
    Refused {
        servers: String,
        #[source]
        source: KrafkaError,
    },
    #[error("Kafka at {servers} did not answer within {seconds} s")]
    Silent { servers: String, seconds: u64 },
}

/// Reason why the secret with Kafka's login cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what is wrong")]
pub enum SecretFault {
    #[error("it has no text")]
    Binary,
    #[error(transparent)]
    Form(Malformed),
    #[error("the member privateKeyPassword is not supported: store the key without encryption")]
    EncryptedKey,
}

impl Retryable for ConnectError {
    fn retry(&self) -> Retry {
        match self {
            Self::SecretUnavailable(_) | Self::Silent { .. } => Retry::Later,
            Self::SecretMalformed(_) | Self::NoCredentials => Retry::AfterRepair,
            Self::Refused { source, .. } => of_client(source),
        }
    }
}

/// Returns the retry decision for an error of the Kafka client. The client knows which errors are
/// transient; for all others the deployment or the cluster must be repaired.
pub(crate) fn of_client(error: &KrafkaError) -> Retry {
    match error {
        // If several brokers were tried, the last one's failure counts.
        KrafkaError::Network(network) => match network.get_ref() {
            // The broker ended the handshake, for example because of the client's certificate.
            Some(cause) if cause.is::<rustls::Error>() => Retry::AfterRepair,
            Some(cause) => {
                let last = cause.source().and_then(|source| source.downcast_ref());
                last.map_or(Retry::Later, of_client)
            }
            None => Retry::Later,
        },
        // A client that failed is not used again, so a new one does not have this failure.
        KrafkaError::DeliveryTimeout { .. }
        | KrafkaError::Closed { .. }
        | KrafkaError::Fenced { .. }
        | KrafkaError::IllegalState { .. }
        | KrafkaError::OutOfOrderSequence { .. } => Retry::Later,
        // To the client this is transient, because the topic may be created at any time.
        KrafkaError::UnknownTopic { .. }
        | KrafkaError::Broker { code: ErrorCode::UnknownTopicOrPartition, .. } => Retry::AfterRepair,
        other if other.is_retriable() => Retry::Later,
        _ => Retry::AfterRepair,
    }
}
