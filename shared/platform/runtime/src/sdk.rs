//! The one place that builds AWS SDK configuration: one HTTP client, region and endpoint from the
//! environment, short time-outs, and retries in one layer only.
//!
//! ```no_run
//! # async fn start() {
//! let sdk = runtime::Sdk::from_environment().await;
//! let dynamodb = aws_sdk_dynamodb::Client::new(sdk.standard());
//! # }
//! ```

use std::time::Duration;

use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::{BehaviorVersion, ConfigLoader, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;

/// Timeout of connecting to DynamoDB or another store. `ATTEMPT` is the timeout of each attempt of
/// a call, and `OPERATION` that of the call with all attempts. A store that does not respond is
/// reported in less than 3 s.
const CONNECT: Duration = Duration::from_millis(700);
const ATTEMPT: Duration = Duration::from_millis(900);
const OPERATION: Duration = Duration::from_millis(2_600);

/// AWS SDK configuration that all clients of a process share.
#[derive(Clone, Debug)]
pub struct Sdk {
    standard: SdkConfig,
}

impl Sdk {
    /// Loads the region, the credentials and `AWS_ENDPOINT_URL` from the environment.
    pub async fn from_environment() -> Self {
        Self::load(aws_config::defaults(BehaviorVersion::latest())).await
    }

    /// Creates the configuration for a local stack, with this endpoint, region and credentials in
    /// place of those of the environment.
    pub async fn at(endpoint: &str, region: &str, access_key_id: &str, secret_access_key: &str) -> Self {
        let credentials = Credentials::new(access_key_id, secret_access_key, None, None, "given");
        let loader = aws_config::defaults(BehaviorVersion::latest())
            .endpoint_url(endpoint)
            .region(Region::new(region.to_owned()))
            .credentials_provider(credentials);
        Self::load(loader).await
    }

    async fn load(loader: ConfigLoader) -> Self {
        let http = Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https();
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECT)
            .operation_attempt_timeout(ATTEMPT)
            .operation_timeout(OPERATION)
            .build();
        let retries = RetryConfig::standard()
            .with_max_attempts(3)
            .with_initial_backoff(Duration::from_millis(50))
            .with_max_backoff(Duration::from_millis(400));
        // Responses of a few kilobytes come whole or not at all, and the time-outs bound them.
        let standard = loader
            .http_client(http)
            .timeout_config(timeouts)
            .retry_config(retries)
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .load()
            .await;
        Self { standard }
    }

    /// Returns the configuration for DynamoDB and other stores with small responses: up to three
    /// short attempts.
    #[must_use]
    pub fn standard(&self) -> &SdkConfig {
        &self.standard
    }

    /// Returns the configuration for S3 objects of some megabytes. An attempt may take the whole
    /// time of a call. The timeout ends when the headers of the response arrive; the body must then
    /// not stall.
    #[must_use]
    pub fn objects(&self) -> SdkConfig {
        let timeouts = TimeoutConfig::builder().connect_timeout(CONNECT).operation_timeout(OPERATION).build();
        let watched = StalledStreamProtectionConfig::enabled().grace_period(OPERATION).build();
        self.standard.to_builder().timeout_config(timeouts).stalled_stream_protection(watched).build()
    }

    /// Returns the configuration for calls that must not be repeated, such as Lambda's `Invoke`:
    /// one attempt, which fails after `timeout`.
    #[must_use]
    pub fn single_attempt(&self, timeout: Duration) -> SdkConfig {
        let timeouts = TimeoutConfig::builder().connect_timeout(CONNECT).operation_timeout(timeout).build();
        self.standard.to_builder().timeout_config(timeouts).retry_config(RetryConfig::disabled()).build()
    }
}
