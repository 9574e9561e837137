//! `integrahub`, the command line of `IntegraHub`. It administers tenants, API keys and targets,
//! and sends files and messages to the API. `docs/cli.md` is its manual.

mod access;
mod api;
mod args;
mod audit;
mod aws;
mod aws_query;
mod batches;
mod context;
mod directory;
mod doctor;
mod exit;
mod explain;
mod input;
mod load_tests;
mod member;
mod messages;
mod output;
mod record;
mod send;
mod status;
mod storage;
mod tool;
mod usage;
mod whoami;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Cli, Command};
use crate::exit::{Exit, Failure};
use crate::output::Output;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = Output::of_process(&cli.global);
    let exit = run(&cli, &mut out).await.unwrap_or_else(|failure| {
        out.flush();
        out.fail(&failure);
        failure.exit
    });
    let written = out.finish().map_err(|failure| {
        out.fail(&failure);
        failure.exit
    });
    written.map_or_else(|unwritten| unwritten, |()| exit).into()
}

/// Runs the command. All but `completions`, `man` and `context` need a context: the address and the
/// credentials of a deployment.
async fn run(cli: &Cli, out: &mut Output) -> Result<Exit, Failure> {
    match &cli.command {
        Command::Completions(args) => return tool::completions(*args, out),
        Command::Man(args) => return tool::man(args, out),
        Command::Context(args) => return context::command::run(args, &cli.global, out).await,
        _ => {}
    }
    let context = &context::load(&cli.global, cli.command.needs()).await?;
    match &cli.command {
        Command::Completions(_) | Command::Man(_) | Command::Context(_) => Ok(Exit::Done),
        Command::Send(args) => send::run(args, context, out).await,
        Command::Produce(args) => messages::produce::run(args, context, out).await,
        Command::Consume(args) => messages::consume::run(args, context, out).await,
        Command::Browse(args) => messages::browse::run(args, context, out).await,
        Command::Move(args) => messages::move_messages::run(args, context, out).await,
        Command::Depth(args) => messages::depth::run(args, context, out).await,
        Command::Batches(args) => batches::run(args, context, out).await,
        Command::Tests(args) => load_tests::run(args, context, out).await,
        Command::Status(args) => status::run(args, context, out).await,
        Command::Usage(args) => usage::run(args, context, out).await,
        Command::Api(args) => api::call(args, context, out).await,
        Command::Tenant(args) => access::tenant::run(args, context, out).await,
        Command::Key(args) => access::key::run(args, context, out).await,
        Command::Profile(args) => access::profile::run(args, context, out).await,
        Command::Target(args) => access::target::run(args, context, out).await,
        Command::Limit(args) => access::limit::run(args, context, out).await,
        Command::Budget(args) => access::budget::run(args, context, out).await,
        Command::Rates(args) => access::rates::run(args, context, out).await,
        Command::Grant(args) => access::grant::run(args, context, out).await,
        Command::Cnpj(args) => access::cnpj::run(args, context, out).await,
        Command::Apply(args) => access::apply::run(args, context, out).await,
        Command::Export(args) => access::export::run(args, context, out).await,
        Command::Doctor(args) => doctor::run(args, context, out).await,
        Command::Explain(args) => explain::run(args, context, out).await,
        Command::Record(args) => record::run(args, context, out).await,
        Command::Audit(args) => audit::run(args, context, out).await,
        Command::Requests(args) => audit::requests::run(args, context, out).await,
        Command::Whoami(args) => whoami::run(*args, context, out).await,
    }
}
