//! Initial data of the local stack: tenants' keys, target profiles, owners of establishments,
//! secrets and queues.

mod access;
mod broker;
mod owners;
mod secrets;

use std::time::Duration;

use runtime::Sdk;

pub(crate) use access::KEYS;
pub(crate) use broker::QUEUES;

use crate::components::postgres::Postgres;
use crate::components::rabbitmq::RabbitMq;
use crate::deploy::Deployment;
use crate::failure::Failure;
use crate::targets::Given;

/// Time limit of a request. It is long, because the AWS stand-in is slow while the components
/// start.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Stores the database's address and credentials as a secret, and returns its ARN. Call this first,
/// since the deployment needs the ARN.
pub(crate) async fn database_secret(sdk: &Sdk, postgres: &Postgres) -> Result<String, Failure> {
    secrets::database(aws_sdk_secretsmanager::Client::new(&sdk.single_attempt(TIMEOUT)), postgres).await
}

/// Writes the stack's initial secrets, items, queues and owners of establishments.
pub(crate) async fn seed(
    sdk: &Sdk,
    deployment: &Deployment,
    rabbitmq: &RabbitMq,
    given: &Given,
) -> Result<(), Failure> {
    let configuration = sdk.single_attempt(TIMEOUT);
    let access_table = deployment.name("AccessTable")?;
    tokio::try_join!(
        access::seed(aws_sdk_dynamodb::Client::new(&configuration), access_table, rabbitmq, given),
        secrets::seed(aws_sdk_secretsmanager::Client::new(&configuration), rabbitmq, &given.targets),
        broker::declare_queues(rabbitmq),
        owners::seed(aws_sdk_lambda::Client::new(&configuration), deployment.name("EstablishmentsFunction")?),
    )?;
    Ok(())
}
