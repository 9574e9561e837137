//! How much CPU time a warm request takes in `produce` and in `mq-access`, beyond the calls to
//! DynamoDB, to Lambda and to the broker that it makes.
//!
//! The same calls are made by a program that does nothing else, request by request in turn with the
//! functions, so that all find the processor's caches in the same state.

pub(crate) mod baseline;
mod calls;
mod pair;
mod report;
pub(crate) mod runtime_alone;

use std::time::Instant;

use clap::Args;

use crate::error::Error;
use crate::keys::Keys;
use crate::recorder::{self, Recorder};
use crate::warm::baseline::{Baseline, Task};
use crate::warm::pair::{Pair, Sent};
use crate::warm::report::{Request, table};
use crate::warm::runtime_alone::RuntimeAlone;

/// The stack whose tables and broker are used, as `local test` names them.
#[derive(Clone, Debug, Args)]
pub(crate) struct Stack {
    #[arg(long, env = "AWS_ENDPOINT_URL")]
    endpoint: String,
    #[arg(long, env = "AWS_REGION")]
    region: String,
    #[arg(long, env = "AWS_ACCESS_KEY_ID")]
    access_key_id: String,
    #[arg(long, env = "AWS_SECRET_ACCESS_KEY", hide_env_values = true)]
    secret_access_key: String,
    #[arg(long, env = "ACCESS_TABLE")]
    access_table: String,
    #[arg(long, env = "IDEMPOTENCY_TABLE")]
    idempotency_table: String,
    #[arg(long = "amqp-url", env = "AMQP_URL", hide_env_values = true)]
    amqp_url: String,
}

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    stack: Stack,
    /// Requests of each contender
    #[arg(long, env = "REQUESTS", default_value_t = 1000)]
    requests: u32,
}

/// Requests that only warm caches and connections up.
const WARM_UP: u32 = 50;

pub(crate) async fn run(options: &Options) -> Result<(), Error> {
    let stack = &options.stack;
    let mut keys = Keys::new();
    let recorded = record(stack, &mut keys).await?;

    let mut pair = Pair::start(stack, &stack.endpoint, &stack.endpoint).await?;
    let lambda = pair.lambda_url();
    let mut of_produce = Baseline::start(stack, &lambda, &recorded.produce()).await?;
    let mut of_mq_access = Baseline::start(stack, &lambda, &recorded.mq_access()).await?;
    let mut http = RuntimeAlone::start("http", &recorded.answer).await?;
    let mut order = RuntimeAlone::start("order", &recorded.reply).await?;

    let mut requests = Vec::new();
    for number in 0..options.requests.saturating_add(WARM_UP) {
        let (key, other) = (keys.next(), keys.next());
        let begin = Instant::now();
        let [produce, mq_access] = pair.cpu_of(&key).await?;
        let request = Request {
            wall: begin.elapsed(),
            produce,
            mq_access,
            calls_of_produce: of_produce.cpu_of(&other).await?,
            calls_of_mq_access: of_mq_access.cpu_of(&other).await?,
            runtime_of_produce: http.cpu_of(&recorded.event).await?,
            runtime_of_mq_access: order.cpu_of(&recorded.order).await?,
        };
        if number >= WARM_UP {
            requests.push(request);
        }
    }
    pair.stop().await?;
    #[expect(clippy::print_stdout, reason = "the report")]
    {
        println!("\n{}", table(&requests));
    }
    Ok(())
}

/// Parts of one warm request.
#[derive(Debug)]
struct Recorded {
    event: Vec<u8>,
    answer: Vec<u8>,
    order: Vec<u8>,
    reply: Vec<u8>,
    calls_of_produce: Vec<recorder::Call>,
    calls_of_mq_access: Vec<recorder::Call>,
    key: String,
}

impl Recorded {
    fn produce(&self) -> Task {
        let order = String::from_utf8_lossy(&self.order).into_owned();
        Task {
            key: self.key.clone(),
            calls: self.calls_of_produce.clone(),
            order: Some(order),
            publish: false,
        }
    }

    fn mq_access(&self) -> Task {
        Task { key: self.key.clone(), calls: self.calls_of_mq_access.clone(), order: None, publish: true }
    }
}

/// Lets functions of their own send their calls to DynamoDB through recorders. Of three requests
/// the last is taken: what is read once and remembered is not part of a warm one.
async fn record(stack: &Stack, keys: &mut Keys) -> Result<Recorded, Error> {
    let of_produce = Recorder::start(&stack.endpoint).await;
    let of_mq_access = Recorder::start(&stack.endpoint).await;
    let mut pair = Pair::start(stack, &of_produce.url(), &of_mq_access.url()).await?;
    for _ in 0..2 {
        pair.send(&keys.next()).await?;
    }
    of_produce.forget();
    of_mq_access.forget();
    let key = keys.next();
    let Sent { event, answer } = pair.send(&key).await?;
    let (order, reply) = pair.last_order();
    pair.stop().await?;
    Ok(Recorded {
        event,
        answer,
        order,
        reply,
        calls_of_produce: of_produce.calls()?,
        calls_of_mq_access: of_mq_access.calls()?,
        key,
    })
}
