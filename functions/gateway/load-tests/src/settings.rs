//! Creation of [`LoadTests`] from the function's environment variables.

use front::{FrontSettings, Records};
use load_test::Limits;
use load_test::store::{Engine, TestStore};
use runtime::{Environment, EnvironmentError, Sdk};

use crate::LoadTests;

/// Maximum bytes of all message bodies together on a load test's queues at one time: 1 GiB.
const RETAINED_BYTES: u64 = 1_073_741_824;

impl LoadTests {
    /// Creates the function's state, with its clients, from the environment variables of the
    /// process.
    ///
    /// # Errors
    /// If variables are missing or invalid. The error names all of them.
    pub async fn from_environment(service: &'static str) -> Result<Self, EnvironmentError> {
        let mut environment = Environment::of_process();
        let front = FrontSettings::read(&mut environment, Records::Kept);
        let table: String = environment.required("TESTS_TABLE");
        let bucket: String = environment.required("RESULTS_BUCKET");
        let machine: String = environment.required("LOAD_TEST_MACHINE");
        let limits = Limits {
            workers: environment.required("LOAD_TEST_WORKERS"),
            hours: environment.required("LOAD_TEST_HOURS"),
            messages: environment.required("LOAD_TEST_MESSAGES"),
            retained: environment.required("LOAD_TEST_RETAINED"),
            retained_bytes: RETAINED_BYTES,
        };
        let memory_mb: u32 = environment.required("LOAD_STEP_MEMORY_MB");
        environment.check()?;

        let sdk = Sdk::from_environment().await;
        let dynamodb = aws_sdk_dynamodb::Client::new(sdk.standard());
        let s3 = aws_sdk_s3::Client::new(&sdk.objects());
        Ok(Self {
            front: front.front(service, &sdk, &dynamodb),
            store: TestStore::new(dynamodb, table, s3, bucket),
            engine: Engine::new(aws_sdk_sfn::Client::new(sdk.standard()), machine),
            limits,
            memory_mb,
        })
    }
}
