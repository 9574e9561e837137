//! Cost that the crate `ibm-mq` adds to the client library, compared with bare calls of the MQI and
//! with IBM's own client in Python. The queue manager is a stand-in.
//!
//! A get of the crate serves one request, so it opens and closes the queue for each unit of work.
//! Bare calls that do the same show the cost of the crate. Bare calls on a queue that stays open
//! show what opening it for each request costs. A put opens the queue once.
//!
//! Stand-ins replace IBM's client library in all contenders' processes, and the queue manager. Most
//! of the wall-clock time is theirs, so the CPU time of each contender and of the queue manager is
//! measured as well.

mod manager;

use std::path::PathBuf;

use broker::ConnectionCap;
use clap::Args;
use ibm_mq::{IbmMq, Settings};
use mq::{Address, Base64Bytes, BrokerKind, Endpoint, MqProps, Payload, Persistence, Transaction};

use crate::child::Program;
use crate::contender::{Answering, once, serve, turns};
use crate::cpu::Took;
use crate::error::Error;
use crate::gateway_crate::{Client, access, bounded};
use crate::report::Goal::{AtLeast, AtMost};
use crate::report::{Column, Report};
use manager::{CHANNEL, Manager, NAME, PASSWORD, USER};

/// Queue that all contenders use, one after another.
const QUEUE: &str = "BENCH.QUEUE";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Number of messages of each run
    #[arg(long, env = "MESSAGES", default_value_t = 20_000)]
    messages: u32,
    /// Number of runs of each contender; with a multiple of six, every contender is first to sixth
    /// equally often
    #[arg(long, env = "ROUNDS", default_value_t = 6)]
    rounds: u32,
}

/// Numbers of messages in a unit of work that are measured.
const UNITS: [u32; 3] = [1, 10, 100];

const OURS: &str = "IntegraHub";
const RATE: &str = "messages/s";
const CPU: &str = "CPU µs";
const MANAGER_CPU: &str = "daemon's CPU µs";
const COLUMNS: [Column; 6] = [
    Column::median(RATE, 0),
    Column::spread(RATE),
    Column::times("IntegraHub / it", RATE, OURS).goals(&[("ibmmq (Python)", AtLeast(3.0))]),
    Column::median(CPU, 1),
    Column::times("CPU, IntegraHub / it", CPU, OURS).goals(&[
        ("put, 100 a unit, the same calls alone", AtMost(1.1)),
        ("get, 1 a unit, the same calls alone", AtMost(2.2)),
        ("get, 100 a unit, the same calls alone", AtMost(1.15)),
    ]),
    Column::median(MANAGER_CPU, 1),
];

pub(crate) async fn run(options: &Options) -> Result<(), Error> {
    let Options { messages, rounds } = options;
    let manager = Manager::start()?;
    let bare = Program::beside("bare-mqi")?;
    let contenders = [
        Program::own(OURS, "ibm-mq")?,
        Program { name: "the same calls alone".to_owned(), ..bare.clone() },
        // As a request has to.
        Program { name: "the calls alone, queue opened for each unit".to_owned(), ..bare }.arg("reopen"),
        Program::python("ibmmq (Python)", "mqm-standin", "with_ibmmq.py"),
        Program::python("ibmmq, queue opened for each unit", "mqm-standin", "with_ibmmq.py").arg("reopen"),
        // This costs it fewer calls than the others make.
        Program::python("ibmmq, without properties", "mqm-standin", "with_ibmmq.py").arg("bare"),
    ]
    .map(|program| manager.given_to(program).env("MESSAGES", messages.to_string()));
    let mut report = Report::new(
        format!(
            "{messages} messages of 1 KiB, nonpersistent, over the stand-in; medians of {rounds} rounds. CPU \
             time is that of a message."
        ),
        &COLUMNS,
    );
    for round in 0..*rounds {
        for unit in UNITS {
            for contender in turns(&contenders, round) {
                // A contender gets the messages that it has put, so that all get what they would
                // have put.
                for (job, left) in [("put", *messages), ("get", 0)] {
                    let before = manager.cpu.so_far()?;
                    let work = format!("{job} {QUEUE} {unit}");
                    let took = once::<Answering<Took>>(contender, &work).await?;
                    let manager_cpu = manager.cpu.so_far()?.saturating_sub(before).as_secs_f64();
                    manager.expect(QUEUE, left, &contender.name)?;
                    let micros = |seconds: f64| seconds * 1e6 / f64::from(*messages);
                    report.tell(
                        &format!("{job}, {unit} a unit"),
                        &contender.name,
                        &[
                            (RATE, f64::from(*messages) / took.seconds),
                            (CPU, micros(took.cpu_seconds)),
                            (MANAGER_CPU, micros(manager_cpu)),
                        ],
                    );
                }
            }
        }
    }
    report.print();
    Ok(())
}

/// Settings of the contender in Rust, from environment variables.
#[derive(Debug, Args)]
pub(crate) struct Contest {
    #[arg(long, env = "MESSAGES")]
    messages: u32,
    #[arg(long, env = "IBM_MQ_LIBRARY")]
    library: PathBuf,
}

/// Runs the project's contender for IBM MQ: the crate `ibm-mq`.
pub(crate) async fn contend(contest: &Contest) -> Result<(), Error> {
    let address = Address { host: "127.0.0.1".to_owned(), port: 1414 };
    let endpoint = Endpoint {
        broker: BrokerKind::IbmMq,
        queue_manager: NAME.to_owned(),
        channel: Some(CHANNEL.to_owned()),
        ..Endpoint::default()
    };
    let settings = Settings { library: contest.library.clone(), ..Settings::default() };
    let client = Client {
        broker: IbmMq::new(settings, ConnectionCap::new(1)),
        access: access(endpoint, address, USER.to_owned(), PASSWORD.to_owned()),
        payload: Payload::Fixed { body: Base64Bytes(vec![0xa5; 1024]) },
        props: MqProps { persistence: Persistence::Nonpersistent, ..MqProps::default() },
    };
    serve(async |line: &str| {
        let [job, queue, unit] = line.split(' ').collect::<Vec<_>>().try_into().unwrap_or_default();
        let unit = unit.parse().unwrap_or_default();
        match job {
            "put" => {
                let transaction = Transaction { enabled: true, tx_size: bounded(unit)?, atomic: true };
                client.put(queue, contest.messages, contest.messages, transaction).await
            }
            _ => client.get(queue, contest.messages, unit).await,
        }
    })
    .await
}
