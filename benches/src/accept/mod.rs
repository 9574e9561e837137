//! Cost of taking a catalogue in: a request to `product-ingest` from its event to its 202, beside
//! the put of its object alone.

pub(crate) mod measure;

use aws_sdk_s3::Client;
use clap::Args;
use runtime::Sdk;
use uuid::Uuid;

use crate::child::Program;
use crate::contender::{Answering, Contender as _};
use crate::cpu::Took;
use crate::error::Error;
use crate::function;
use crate::report::{Column, Report, count};
use measure::{Measured, Pair};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Requests of each kind and size
    #[arg(long, env = "REQUESTS", default_value_t = 300)]
    requests: u32,
}

const FUNCTION: &str = "product-ingest";
/// Items of the catalogues: some products, and as many as most requests bring.
const SIZES: [u32; 2] = [100, 5000];

const ACCEPTS: &str = "202s a second";
const ACCEPTS_AT_ONCE: &str = "eight at once";
const PUTS_AT_ONCE: &str = "puts alone";
const ACCEPT: &str = "ms to a 202";
const PUT: &str = "ms of a put alone";
const ADDED: &str = "added, ms";
const CPU: &str = "CPU ms of a 202";
const BEYOND: &str = "of that beyond the put";
const COLUMNS: [Column; 10] = [
    Column::median(ACCEPTS, 0),
    Column::median(ACCEPTS_AT_ONCE, 0),
    Column::median(PUTS_AT_ONCE, 0),
    Column::median(ACCEPT, 1),
    Column::late("p95", ACCEPT, 1),
    Column::median(PUT, 1),
    Column::late("p95", PUT, 1),
    Column::median(ADDED, 1),
    Column::median(CPU, 2),
    Column::median(BEYOND, 2),
];

pub(crate) async fn run(options: &Options) -> Result<(), Error> {
    // Not the stack's: it would tell the chunker of every payload, and that would work beside what
    // is measured.
    let bucket = format!("bench-{}", Uuid::new_v4().simple());
    let s3 = Client::new(&Sdk::from_environment().await.objects());
    s3.create_bucket().bucket(&bucket).send().await?;
    let measured = measure(options, &bucket).await;
    empty(&s3, &bucket).await?;
    measured?.print();
    Ok(())
}

/// Measures the function's code in a process with the environment that the template gives it.
async fn measure(options: &Options, bucket: &str) -> Result<Report, Error> {
    let requests = options.requests;
    let variables = function::named(FUNCTION)?.variables;
    let program = Program { variables, ..Program::own(FUNCTION, "accepts")? }
        .inheriting(&["ACCESS_TABLE", "IDEMPOTENCY_TABLE", "BATCHES_TABLE"])?
        .env("PAYLOAD_BUCKET", bucket);
    let mut report = Report::new(format!("{requests} requests of each kind and size; medians."), &COLUMNS);
    let mut contender = Answering::<Measured>::start(&program).await?;
    for items in SIZES {
        let measured = contender.send(&format!("{items} {requests}")).await?;
        add(&mut report, items, &measured);
    }
    contender.stop().await?;
    Ok(report)
}

fn add(report: &mut Report, items: u32, measured: &Measured) {
    let size = format!("{items} items, {:.0} KB of gzip", f64::from(measured.bytes) / 1e3);
    let requests = count(measured.pairs.len());
    let seconds: f64 = measured.pairs.iter().map(|pair| pair.accept.seconds).sum();
    let rates = [
        (ACCEPTS, requests / seconds),
        (ACCEPTS_AT_ONCE, requests / measured.accepts_at_once),
        (PUTS_AT_ONCE, requests / measured.puts_at_once),
    ];
    report.add("", &size, &rates);
    for Pair { accept, put } in &measured.pairs {
        let beyond = |of: fn(&Took) -> f64| (of(accept) - of(put)) * 1e3;
        let costs = [
            (ACCEPT, accept.seconds * 1e3),
            (PUT, put.seconds * 1e3),
            (ADDED, beyond(|took| took.seconds)),
            (CPU, accept.cpu_seconds * 1e3),
            (BEYOND, beyond(|took| took.cpu_seconds)),
        ];
        report.add("", &size, &costs);
    }
}

async fn empty(s3: &Client, bucket: &str) -> Result<(), Error> {
    loop {
        let listed = s3.list_objects_v2().bucket(bucket).send().await?;
        let keys: Vec<_> = listed.contents().iter().filter_map(|object| object.key()).collect();
        if keys.is_empty() {
            break;
        }
        for key in keys {
            s3.delete_object().bucket(bucket).key(key).send().await?;
        }
    }
    s3.delete_bucket().bucket(bucket).send().await?;
    Ok(())
}
