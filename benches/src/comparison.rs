//! All contenders, round by round, each in a process of its own.

use tokio::process::Command;

use crate::Arguments;
use crate::broker::Queues;
use crate::contest;
use crate::error::Error;
use crate::report::{Results, table};
use crate::run::{Job, Run};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    Crate,
    Lapin,
    Pika,
    AioPika,
}

impl Client {
    pub(crate) const ALL: [Self; 4] = [Self::Crate, Self::Lapin, Self::Pika, Self::AioPika];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Crate => "IntegraHub",
            Self::Lapin => "bare lapin",
            Self::Pika => "pika",
            Self::AioPika => "aio-pika",
        }
    }

    fn command(self, python: &str) -> Result<Command, Error> {
        Ok(match self {
            Self::Crate => contest::own("crate")?,
            Self::Lapin => contest::own("lapin")?,
            Self::Pika => contest::of_python(python, "with_pika.py"),
            Self::AioPika => contest::of_python(python, "with_aio_pika.py"),
        })
    }
}

pub(crate) async fn compare(arguments: &Arguments) -> Result<(), Error> {
    let queues = Queues::open(&arguments.url).await?;
    let mut results = Results::default();
    for round in 0..arguments.rounds {
        for job in Job::ALL {
            for client in contest::turns(&Client::ALL, round) {
                let name = queue(job, client);
                // One queue at a time: a broker that holds several hundred thousand messages is
                // another one for each contender.
                match job {
                    Job::Produce => queues.create(&name).await?,
                    Job::Consume => queues.fill(&name, arguments.messages).await?,
                }
                let run = contend(arguments, client, job, &name).await?;
                queues.expect(&name, if job == Job::Produce { arguments.messages } else { 0 }).await?;
                queues.delete(&name).await?;
                progress(round, job, client, run);
                results.add(job, client, run);
            }
        }
    }
    #[expect(clippy::print_stdout, reason = "the report")]
    {
        println!("\n{}", table(&results, arguments.messages, arguments.rounds));
    }
    Ok(())
}

fn queue(job: Job, client: Client) -> String {
    format!("bench.{}.{}", job.name(), client.name().replace(' ', "-"))
}

async fn contend(arguments: &Arguments, client: Client, job: Job, queue: &str) -> Result<Run, Error> {
    let mut command = client.command(&arguments.python)?;
    command
        .args([job.name(), queue])
        .env("AMQP_URL", &arguments.url)
        .env("MESSAGES", arguments.messages.to_string());
    contest::run(command, client.name(), job.name()).await
}

#[expect(clippy::print_stderr, reason = "it takes minutes")]
fn progress(round: u32, job: Job, client: Client, run: Run) {
    eprintln!(
        "round {}  {}  {:<10}  {:>7.0} messages/s  {:>5.2} s of CPU",
        round + 1,
        job.name(),
        client.name(),
        run.rate(),
        run.cpu_seconds
    );
}
