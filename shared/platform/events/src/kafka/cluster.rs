//! Kafka cluster: its settings, and the login of clients.

use std::time::Duration;

use attempt::Deadline;
use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};
use aws_sdk_secretsmanager::Client;
use krafka::auth::{AuthConfig, AwsMskIamCredentials, TlsConfig};
use krafka::{Kafka, KrafkaError};
use runtime::Sdk;

use crate::kafka::secret::{self, Identity, Login};
use crate::kafka::settings::{Authentication, Settings};
use crate::kafka::{ConnectError, SecretFault};

/// Client id under which this system connects to Kafka brokers.
const CLIENT_ID: &str = "integrahub";

/// Time limit of connecting to a Kafka broker.
const CONNECT: Duration = Duration::from_secs(2);
/// Time limit of one request to Kafka, including a new connection if it needs one.
pub(crate) const REQUEST: Duration = Duration::from_secs(3);
/// Time limit of connecting to the cluster: reading the secret, logging in and fetching the list of
/// brokers.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum idle time of a connection that is used again. Load balancers close idle connections
/// after 350 seconds and brokers after ten minutes, which a frozen Lambda function does not notice.
const MAX_IDLE: Duration = Duration::from_secs(60);

/// Kafka cluster with the settings to connect to it.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub(crate) settings: Settings,
    pub(crate) timeout: Duration,
    pub(crate) max_idle: Duration,
    secrets: Client,
    credentials: Option<SharedCredentialsProvider>,
    region: Option<String>,
}

impl Cluster {
    /// Creates the cluster's client. It does not connect yet.
    #[must_use]
    pub fn new(settings: Settings, sdk: &Sdk) -> Self {
        let config = sdk.standard();
        Self {
            settings,
            timeout: TIMEOUT,
            max_idle: MAX_IDLE,
            secrets: Client::new(config),
            credentials: config.credentials_provider(),
            region: config.region().map(ToString::to_string),
        }
    }

    /// Sets the time limit of connecting, and of sending a batch of records, in place of ten
    /// seconds. At least four seconds are used.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.max(REQUEST + Duration::from_secs(1));
        self
    }

    /// Sets the maximum idle time of a connection that is used again, in place of one minute.
    #[must_use]
    pub const fn with_max_idle(mut self, max_idle: Duration) -> Self {
        self.max_idle = max_idle;
        self
    }

    /// Reads the secret with the login, and connects to the cluster.
    pub(crate) async fn connect(&self) -> Result<Kafka, ConnectError> {
        let servers = self.settings.servers.as_str();
        let connecting = async {
            let mut builder = Kafka::builder(servers)
                .client_id(CLIENT_ID)
                .connect_timeout(CONNECT)
                .request_timeout(REQUEST)
                .allow_auto_create_topics(false);
            if let Some(security) = self.security().await? {
                builder = builder.security(security);
            }
            let refused = |source| ConnectError::Refused { servers: servers.to_owned(), source };
            builder.connect().await.map_err(refused)
        };
        let silent = || ConnectError::Silent { servers: servers.to_owned(), seconds: self.timeout.as_secs() };
        // Boxed: the futures of the client are large.
        Deadline::after(self.timeout).run(Box::pin(connecting)).await.map_err(|_| silent())?
    }

    async fn security(&self) -> Result<Option<AuthConfig>, ConnectError> {
        let security = match &self.settings.authentication {
            Authentication::None => return Ok(None),
            Authentication::Iam => self.iam()?,
            Authentication::Scram { secret_arn } => {
                let login: Login = secret::read(&self.secrets, secret_arn).await?;
                AuthConfig::sasl_scram_sha512(login.username, login.password.expose()).with_tls(tls(login.ca))
            }
            Authentication::Mtls { secret_arn } => {
                let identity: Identity = secret::read(&self.secrets, secret_arn).await?;
                if identity.private_key_password.is_some() {
                    return Err(ConnectError::SecretMalformed(SecretFault::EncryptedKey));
                }
                let key = identity.private_key.expose().to_owned().into_bytes();
                AuthConfig::ssl(tls(identity.ca).with_client_cert_pem(identity.certificate, key))
            }
        };
        Ok(Some(security))
    }

    /// Returns the IAM login with the function's role. Each connection is signed with the
    /// credentials that are valid when it opens.
    fn iam(&self) -> Result<AuthConfig, ConnectError> {
        let credentials = self.credentials.clone().ok_or(ConnectError::NoCredentials)?;
        let region = self.region.clone().ok_or(ConnectError::NoCredentials)?;
        let provider = move || {
            let (credentials, region) = (credentials.clone(), region.clone());
            async move {
                let given = credentials.provide_credentials().await;
                let given =
                    given.map_err(|error| KrafkaError::auth_with_source("no AWS credentials", error))?;
                let signer =
                    AwsMskIamCredentials::new(given.access_key_id(), given.secret_access_key(), region);
                Ok(match given.session_token() {
                    Some(token) => signer.with_session_token(token),
                    None => signer,
                })
            }
        };
        Ok(AuthConfig::aws_msk_iam_provider(provider).with_tls(tls(None)))
    }
}

/// Returns TLS settings that verify the brokers' certificates against `ca`, or against the system's
/// authorities if it is `None`.
fn tls(ca: Option<String>) -> TlsConfig {
    match ca {
        Some(pem) => TlsConfig::new().with_ca_cert_pem(pem),
        None => TlsConfig::new().with_native_roots(),
    }
}
