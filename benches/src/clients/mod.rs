//! Comparison of produce and consume with other clients of RabbitMQ, in turn on the same broker.

pub(crate) mod bare_lapin;
pub(crate) mod broker;

use clap::Args;
use lapin::uri::{AMQPUri, AMQPUserInfo};
use mq::{Address, BrokerKind, Endpoint, MqProps, Payload, Transaction};
use rabbitmq::RabbitMq;

use crate::child::Program;
use crate::clients::broker::Queues;
use crate::contender::{Answering, once, serve, turns};
use crate::cpu::Took;
use crate::error::Error;
use crate::gateway_crate::{Client, access, bounded};
use crate::report::Goal::{AtLeast, AtMost};
use crate::report::{Column, Report};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// URL of RabbitMQ, with credentials
    #[arg(long, env = "AMQP_URL", hide_env_values = true)]
    url: String,
    /// Number of messages of each run
    #[arg(long, env = "MESSAGES", default_value_t = 100_000)]
    messages: u32,
    /// Number of runs of each contender; with a multiple of four, every contender is first, second,
    /// third and last equally often
    #[arg(long, env = "ROUNDS", default_value_t = 4)]
    rounds: u32,
}

const OURS: &str = "IntegraHub";
const RATE: &str = "messages/s";
const CPU: &str = "CPU s";
const COLUMNS: [Column; 5] = [
    Column::median(RATE, 0),
    Column::spread(RATE),
    Column::median(CPU, 2),
    Column::times("IntegraHub / it", RATE, OURS).goals(&[
        ("produce, bare lapin", AtLeast(0.9)),
        ("produce, pika", AtLeast(1.0)),
        ("produce, aio-pika", AtLeast(2.0)),
        ("consume, bare lapin", AtLeast(0.95)),
        ("consume, pika", AtLeast(1.5)),
        ("consume, aio-pika", AtLeast(4.0)),
    ]),
    // The broker limits how fast a consumer is, so that its own cost counts as well.
    Column::times("CPU, IntegraHub / it", CPU, OURS).goals(&[("consume, pika", AtMost(0.5))]),
];

pub(crate) async fn run(options: &Options) -> Result<(), Error> {
    let Options { url, messages, rounds } = options;
    let contenders = [
        Program::own(OURS, "rabbitmq")?,
        Program::own("bare lapin", "lapin")?,
        Program::python("pika", "bench/python", "with_pika.py"),
        Program::python("aio-pika", "bench/python", "with_aio_pika.py"),
    ]
    .map(|program| program.env("AMQP_URL", url).env("MESSAGES", messages.to_string()));
    let queues = Queues::open(url).await?;
    let mut report = Report::new(
        format!(
            "{messages} messages of 1 KiB, persistent, a durable classic queue; medians of {rounds} rounds."
        ),
        &COLUMNS,
    );
    for round in 0..*rounds {
        for job in ["produce", "consume"] {
            for contender in turns(&contenders, round) {
                let queue = format!("bench.{job}.{}", contender.name.replace(' ', "-"));
                // One queue at a time: a broker that holds several hundred thousand messages is
                // another one for each contender.
                let left = match job {
                    "produce" => queues.create(&queue).await.map(|()| *messages)?,
                    _ => queues.fill(&queue, *messages).await.map(|()| 0)?,
                };
                let took = once::<Answering<Took>>(contender, &format!("{job} {queue}")).await?;
                queues.expect(&queue, left).await?;
                queues.delete(&queue).await?;
                let rate = f64::from(*messages) / took.seconds;
                report.tell(job, &contender.name, &[(RATE, rate), (CPU, took.cpu_seconds)]);
            }
        }
    }
    report.print();
    Ok(())
}

/// Settings of a contender in Rust, from environment variables.
#[derive(Debug, Args)]
pub(crate) struct Contest {
    #[arg(long, env = "AMQP_URL", hide_env_values = true)]
    pub(crate) url: String,
    #[arg(long, env = "MESSAGES")]
    pub(crate) messages: u32,
}

/// Maximum number of messages that one request may get.
const MAX_FETCHED: u32 = 10_000;
/// Maximum number of messages that one request may put.
const MAX_PRODUCED: u32 = 100_000;
const CONNECTIONS: usize = 5;

/// Runs the project's contender for RabbitMQ: the crate `rabbitmq`, which creates an id, a body and
/// headers for each message. Its units of work have the maximum size of a request.
pub(crate) async fn contend_as_crate(contest: &Contest) -> Result<(), Error> {
    let AMQPUri { authority, vhost, .. } = contest.url.parse().map_err(|_| "AMQP_URL is not an AMQP URL")?;
    let address = Address { host: authority.host, port: authority.port };
    let endpoint = Endpoint { broker: BrokerKind::RabbitMq, queue_manager: vhost, ..Endpoint::default() };
    let AMQPUserInfo { username, password } = authority.userinfo;
    let client = Client {
        broker: RabbitMq::new(CONNECTIONS),
        access: access(endpoint, address, username, password),
        payload: Payload::Random { size: bounded(1024)? },
        props: MqProps::default(),
    };
    serve(async |line: &str| {
        let (job, queue) = line.split_once(' ').unwrap_or_default();
        match job {
            "produce" => client.put(queue, contest.messages, MAX_PRODUCED, Transaction::default()).await,
            _ => client.get(queue, contest.messages, MAX_FETCHED).await,
        }
    })
    .await
}
