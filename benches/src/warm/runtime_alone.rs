//! A function that does nothing: the cost of Lambda's runtime itself for events and answers of the
//! same size.

use clap::ValueEnum;
use lambda_http::{Body, Request, Response};
use lambda_runtime::{LambdaEvent, service_fn};
use serde::de::IgnoredAny;

use crate::error::Error;

/// Kind of event that the idle function takes.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Kind {
    /// Request from API Gateway
    Http,
    /// Payload by which one function invokes another
    Order,
}

/// Runs a Lambda function that does nothing but return a response of this number of bytes.
pub(crate) async fn serve(kind: Kind, bytes: usize) -> Result<(), Error> {
    let answer = "x".repeat(bytes);
    let answer = answer.as_str();
    match kind {
        Kind::Http => {
            let function =
                async |_: Request| Ok::<_, lambda_http::Error>(Response::new(Body::Text(answer.to_owned())));
            lambda_http::run(lambda_http::service_fn(function)).await
        }
        Kind::Order => {
            let function =
                async |_: LambdaEvent<IgnoredAny>| Ok::<_, lambda_runtime::Error>(answer.to_owned());
            lambda_runtime::run(service_fn(function)).await
        }
    }
}
