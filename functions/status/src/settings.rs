//! Building [`Status`] from the function's environment.

use std::time::{Duration, Instant};

use api::access::AccessStore;
use aws::{Environment, EnvironmentError, Sdk};
use gateway::MqAccess;
use idempotency::Store;

use crate::Status;

/// Whoever looks at the status of a system in trouble should not have to wait for it.
const PATIENCE: Duration = Duration::from_secs(5);

impl Status {
    /// Reads the function's variables and builds its clients.
    ///
    /// # Errors
    /// When variables are missing; the error names all of them.
    pub async fn from_environment() -> Result<Self, EnvironmentError> {
        let mut environment = Environment::of_process();
        let access_table: String = environment.required("ACCESS_TABLE");
        let idempotency_table: String = environment.required("IDEMPOTENCY_TABLE");
        let mq_access: String = environment.required("MQ_ACCESS_FUNCTION");
        environment.check()?;
        Ok(Self::new(&Sdk::from_environment().await, access_table, idempotency_table, mq_access))
    }

    pub(crate) fn new(sdk: &Sdk, access_table: String, idempotency_table: String, mq_access: String) -> Self {
        let dynamodb = aws_sdk_dynamodb::Client::new(sdk.standard());
        let lambda = aws_sdk_lambda::Client::new(&sdk.single_attempt(PATIENCE));
        Self {
            access: AccessStore::new(dynamodb.clone(), access_table),
            records: Store::new(dynamodb, idempotency_table),
            mq_access: MqAccess::new(lambda, mq_access),
            started: Instant::now(),
        }
    }
}
