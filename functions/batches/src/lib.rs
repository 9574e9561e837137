//! GET batches and their errors.

use api::access::AccessStore;
use api::{Problem, Reason, TraceId, auth};
use aws::{Environment, EnvironmentError, Sdk};
use lambda_http::{Body, Request, Response};

/// The function, with everything that it needs injected.
#[derive(Debug)]
pub struct Batches {
    access: AccessStore,
}

impl Batches {
    /// Reads the function's variables and builds its clients.
    ///
    /// # Errors
    /// When variables are missing or wrong; the error names all of them.
    pub async fn from_environment() -> Result<Self, EnvironmentError> {
        let mut environment = Environment::of_process();
        let access_table: String = environment.required("ACCESS_TABLE");
        environment.check()?;
        let sdk = Sdk::from_environment().await;
        let dynamodb = aws_sdk_dynamodb::Client::new(sdk.standard());
        Ok(Self { access: AccessStore::new(dynamodb, access_table) })
    }

    /// Answers a request.
    pub async fn handle(&self, request: Request) -> Response<Body> {
        let trace_id = TraceId::of(request.headers());
        let problem = match auth::authenticate(&self.access, request.headers()).await {
            Ok(_) => Problem::new(Reason::Busy, "this function takes nothing in yet"),
            Err(problem) => problem,
        };
        problem.to_reply(&trace_id).into_response(&trace_id)
    }
}
