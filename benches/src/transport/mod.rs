//! Catalogues from request to row with their chunks announced over SQS and over Kafka: the same
//! load to a stack of each kind, in turn.

pub(crate) mod measure;

use clap::Args;

use crate::child::Program;
use crate::contender::{Answering, once, turns};
use crate::error::Error;
use crate::report::{Column, Report};
use crate::transport::measure::Load;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Catalogues that are sent at once
    #[arg(long, env = "CATALOGUES", default_value_t = 8)]
    catalogues: u32,
    /// Items of each
    #[arg(long, env = "ITEMS", default_value_t = 20_000)]
    items: u32,
    /// Stacks of each kind
    #[arg(long, env = "ROUNDS", default_value_t = 3)]
    rounds: u32,
    /// Measure the stack that answers there, and start none
    #[arg(long, env = "API")]
    base_url: Option<String>,
}

/// The variable that chooses a local stack's transport.
const KAFKA: &str = "KAFKA";
/// Transports by the values of that.
const TRANSPORTS: [(&str, &str); 2] = [("SQS", "0"), ("Kafka", "1")];

const RATE: &str = "rows/s";
const WHOLE: &str = "s to the end of all";
const EACH: &str = "s of a catalogue";
const ALONE: &str = "one of 2000 items alone, s";
const COLUMNS: [Column; 6] = [
    Column::median(RATE, 0),
    Column::spread(RATE),
    Column::median(WHOLE, 1),
    Column::median(EACH, 1),
    Column::late("95 % within, s", EACH, 1),
    Column::median(ALONE, 2),
];

pub(crate) async fn run(options: &Options) -> Result<(), Error> {
    let Options { catalogues, items, rounds, base_url } = options;
    let about = format!(
        "{catalogues} catalogues of {items} items at once, to new stacks in turn; medians of the rounds, and of all \
         catalogues."
    );
    let mut report = Report::new(about, &COLUMNS);
    let mut add = |transport: &str, load: &Load| {
        let rows = f64::from(*catalogues) * f64::from(*items);
        report.add("", transport, &[(RATE, rows / load.whole), (WHOLE, load.whole), (ALONE, load.alone)]);
        for seconds in &load.each {
            report.add("", transport, &[(EACH, *seconds)]);
        }
    };
    if let Some(base_url) = base_url {
        let is_kafka = std::env::var(KAFKA).is_ok_and(|value| value == "1");
        let load = measure::load(base_url, *catalogues, *items).await?;
        add(if is_kafka { "Kafka" } else { "SQS" }, &load);
    } else {
        for round in 0..*rounds {
            // The one that comes second finds the machine's caches warmer.
            for (transport, kafka) in turns(&TRANSPORTS, round) {
                // A stack of that kind, and this program in it.
                let this = Program::own(transport, "loads")?;
                let mut stack = Program::beside("local")?.arg("test").arg("--").arg(this.path);
                stack.arguments.extend(this.arguments);
                let stack = Program { name: (*transport).to_owned(), ..stack.env(KAFKA, *kafka) };
                let work = format!("{catalogues} {items}");
                add(transport, &once::<Answering<Load>>(&stack, &work).await?);
            }
        }
    }
    report.print();
    Ok(())
}
