//! A program that makes the calls of a request and does nothing else. It reads its task from the
//! first line of its standard input and a key from every further one, and answers each with the
//! nanoseconds of CPU that the calls took.

use std::process::Stdio;
use std::time::Duration;

use aws_sdk_lambda::primitives::Blob;
use front::MqAccess;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Connection, ConnectionProperties};
use nix::time::ClockId;
use runtime::Sdk;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;

use super::Stack;
use super::calls::Replay;
use super::pair::ECHO;
use crate::broker::{BODY, PERSISTENT};
use crate::error::Error;
use crate::function::cpu;
use crate::recorder::Call;

/// The queue of the local target profile.
const QUEUE: &str = "DEV.QUEUE.1";

/// CPU time of all threads of this process.
const OWN_CLOCK: ClockId = ClockId::CLOCK_PROCESS_CPUTIME_ID;

/// Calls, order and message to repeat for every key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    /// Key that the calls were recorded with.
    pub(crate) key: String,
    pub(crate) calls: Vec<Call>,
    /// Payload with which a function is invoked, if one is.
    pub(crate) order: Option<String>,
    /// Whether to put a message on a channel of its own.
    pub(crate) publish: bool,
}

/// The program, from the side of who started it.
#[derive(Debug)]
pub(crate) struct Baseline {
    _child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Baseline {
    pub(crate) async fn start(stack: &Stack, lambda: &str, task: &Task) -> Result<Self, Error> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("calls-alone")
            .env("AWS_ENDPOINT_URL", &stack.endpoint)
            .env("AWS_ENDPOINT_URL_LAMBDA", lambda)
            .env("AWS_REGION", &stack.region)
            .env("AWS_ACCESS_KEY_ID", &stack.access_key_id)
            .env("AWS_SECRET_ACCESS_KEY", &stack.secret_access_key)
            .env("AMQP_URL", &stack.amqp_url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let pipe = || Error::Unexpected("a pipe is missing".to_owned());
        let input = child.stdin.take().ok_or_else(pipe)?;
        let output = BufReader::new(child.stdout.take().ok_or_else(pipe)?).lines();
        let mut baseline = Self { _child: child, input, output };
        baseline.exchange(&serde_json::to_string(task)?).await?;
        Ok(baseline)
    }

    /// Returns the CPU time that one request took.
    pub(crate) async fn cpu_of(&mut self, key: &str) -> Result<Duration, Error> {
        self.exchange(key).await
    }

    async fn exchange(&mut self, line: &str) -> Result<Duration, Error> {
        self.input.write_all(format!("{line}\n").as_bytes()).await?;
        let answer = self.output.next_line().await?;
        let nanoseconds = answer.as_deref().and_then(|answer| answer.parse().ok());
        let failed = || Error::Unexpected("the calls alone failed".to_owned());
        nanoseconds.map(Duration::from_nanos).ok_or_else(failed)
    }
}

/// The program itself.
pub(crate) async fn serve(amqp_url: &str) -> Result<(), Error> {
    let mut lines = lines();
    let Some(line) = lines.recv().await else { return Ok(()) };
    let task: Task = serde_json::from_str(&line)?;
    let calls = task.calls.iter().map(Replay::of).collect::<Result<Vec<_>, _>>()?;
    let sdk = Sdk::from_environment().await;
    let dynamodb = aws_sdk_dynamodb::Client::new(sdk.standard());
    let lambda = aws_sdk_lambda::Client::new(&sdk.single_attempt(MqAccess::PATIENCE));
    let connection = match task.publish {
        true => Some(Connection::connect(amqp_url, ConnectionProperties::default()).await?),
        false => None,
    };
    done(Duration::ZERO);
    while let Some(key) = lines.recv().await {
        let before = cpu(OWN_CLOCK)?;
        if let Some(connection) = &connection {
            publish(connection, &key).await?;
        }
        for call in &calls {
            call.send(&dynamodb, &task.key, &key).await?;
        }
        if let Some(order) = &task.order {
            invoke(&lambda, order).await?;
        }
        done(cpu(OWN_CLOCK)?.saturating_sub(before));
    }
    Ok(())
}

/// Reads standard input apart from everything else, which goes on between the lines.
fn lines() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

#[expect(clippy::print_stdout, reason = "what the measuring side waits for")]
fn done(took: Duration) {
    println!("{}", took.as_nanos());
}

async fn invoke(lambda: &aws_sdk_lambda::Client, order: &str) -> Result<(), Error> {
    let payload = Blob::new(order.as_bytes());
    let invoked = lambda.invoke().function_name(ECHO).payload(payload).send().await;
    let failed = |error| Error::Unexpected(aws_sdk_lambda::error::DisplayErrorContext(error).to_string());
    invoked.map(|_| ()).map_err(failed)
}

/// Publishes one message as the gateway shapes it, confirmed, on a channel of its own.
async fn publish(connection: &Connection, key: &str) -> Result<(), Error> {
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let mut headers = FieldTable::default();
    headers.insert("idempotencyKey".into(), AMQPValue::LongString(key.into()));
    headers.insert("sequence".into(), AMQPValue::LongLongInt(0));
    let properties = BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_message_id(format!("{key}{:012}", 0).into())
        .with_content_type("application/octet-stream".into())
        .with_timestamp(1_790_000_000)
        .with_headers(headers);
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let confirm = channel.basic_publish(ShortString::default(), QUEUE.into(), options, &BODY, properties);
    let confirmation = confirm.await?.await?;
    if !confirmation.is_ack() || confirmation.take_message().is_some() {
        return Err(Error::Unexpected("a message was refused or returned".to_owned()));
    }
    channel.close(200, "done".into()).await?;
    Ok(())
}
