//! Serves `POST /v1/inovafarma/products` and `POST /v1/inovafarma/products/uploads`.

use std::process::ExitCode;

use lambda_http::Error;
use product_ingest::ProductIngest;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    runtime::run(env!("CARGO_PKG_NAME"), serve()).await
}

async fn serve() -> Result<(), Error> {
    let ingest = ProductIngest::from_environment(env!("CARGO_PKG_NAME")).await?;
    let ingest = &ingest;
    endpoint::run(|request| ingest.handle(request)).await
}
