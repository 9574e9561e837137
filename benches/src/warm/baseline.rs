//! Contender that only makes the calls of a recorded request, with each idempotency key it gets.

use aws_sdk_lambda::primitives::Blob;
use front::MqAccess;
use lapin::options::ConfirmSelectOptions;
use lapin::{Connection, ConnectionProperties};
use runtime::Sdk;
use serde::{Deserialize, Serialize};

use super::calls::Replay;
use super::pair::ECHO;
use crate::clients::broker::{self, BODY, confirm, properties};
use crate::contender::serve;
use crate::cpu::Stopwatch;
use crate::error::Error;
use crate::recorder::Call;

/// Queue of the local target profile.
const QUEUE: &str = "DEV.QUEUE.1";

/// Calls of one recorded request, to be made again with other idempotency keys.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    /// Idempotency key of the recorded request.
    pub(crate) key: String,
    pub(crate) calls: Vec<Call>,
    /// Payload with which a Lambda function is invoked; `None` if the request invokes none.
    pub(crate) order: Option<String>,
    /// True if the request puts a message on RabbitMQ, on a channel of its own.
    pub(crate) publish: bool,
}

/// Runs the process that makes only the calls of a request, for each idempotency key on its
/// standard input.
pub(crate) async fn contend(task: &str, amqp_url: &str) -> Result<(), Error> {
    let task: Task = serde_json::from_str(task)?;
    let sdk = Sdk::from_environment().await;
    let dynamodb = aws_sdk_dynamodb::Client::new(sdk.standard());
    let lambda = aws_sdk_lambda::Client::new(&sdk.single_attempt(MqAccess::RESPONSE_TIMEOUT));
    let connection = match task.publish {
        true => Some(Connection::connect(amqp_url, ConnectionProperties::default()).await?),
        false => None,
    };
    serve(async |key: &str| {
        let calls = task.calls.iter().map(|call| Replay::of(call, &task.key, key));
        let calls = calls.collect::<Result<Vec<_>, _>>()?;
        let stopwatch = Stopwatch::start()?;
        if let Some(connection) = &connection {
            publish(connection, key).await?;
        }
        for call in calls {
            call.send(&dynamodb).await?;
        }
        if let Some(order) = &task.order {
            let payload = Blob::new(order.as_bytes());
            lambda.invoke().function_name(ECHO).payload(payload).send().await?;
        }
        stopwatch.stop()
    })
    .await
}

/// Publishes one message with properties like those of the gateway's, on a new channel, and waits
/// for the confirm.
async fn publish(connection: &Connection, key: &str) -> Result<(), Error> {
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    confirm(broker::publish(&channel, &QUEUE.into(), &BODY, properties(key, 0)).await?).await?;
    channel.close(200, "done".into()).await?;
    Ok(())
}
