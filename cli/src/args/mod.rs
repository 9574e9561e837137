//! Arguments of the command line: the options that all commands have, and the commands.

mod access;
mod audit;
mod batches;
mod budget;
mod choice;
mod doctor;
mod explain;
mod key;
mod limit;
mod load_tests;
mod messages;
mod send;
mod tool;
mod usage;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use url::Url;

pub(crate) use access::*;
pub(crate) use audit::*;
pub(crate) use batches::*;
pub(crate) use budget::*;
pub(crate) use doctor::*;
pub(crate) use explain::*;
pub(crate) use key::*;
pub(crate) use limit::*;
pub(crate) use load_tests::*;
pub(crate) use messages::*;
pub(crate) use send::*;
pub(crate) use tool::*;
pub(crate) use usage::*;

use crate::context::Needs;
use crate::output::Format;

/// Sends catalogues and messages to IntegraHub, and administers its tenants.
///
/// The commands `tenant`, `key`, `profile`, `target`, `limit`, `budget`, `rates`, `grant`, `cnpj`,
/// `apply`, `export`, `doctor`, `explain`, `record`, `audit` and `requests` need AWS credentials.
/// All others need an API key.
#[derive(Debug, Parser)]
#[command(name = "integrahub", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 done, 1 error, 2 usage, 3 done with items in error, 4 not permitted, \
5 temporary, 6 refused for good, 7 held for a person, 8 time limit of waiting, 9 nothing to do, \
10 a check failed, 11 a check warns, 99 expectation failed. docs/cli.md explains them.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that every command has.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// Context to use; `local` is the stack that `make run` started
    #[arg(long, short = 'c', global = true, env = "INTEGRAHUB_CONTEXT", value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Base URL of the API
    #[arg(long, global = true, env = "INTEGRAHUB_URL", value_parser = address)]
    pub(crate) url: Option<Url>,
    /// File that holds the API key
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "api_key_command")]
    pub(crate) api_key_file: Option<PathBuf>,
    /// Shell command that prints the API key
    #[arg(long, global = true, value_name = "COMMAND")]
    pub(crate) api_key_command: Option<String>,
    /// CloudFormation stack of the deployment
    #[arg(long, global = true, env = "INTEGRAHUB_STACK", value_name = "NAME")]
    pub(crate) stack: Option<String>,
    /// AWS region of the stack
    #[arg(long, global = true, env = "INTEGRAHUB_REGION")]
    pub(crate) region: Option<String>,
    /// AWS profile with the credentials
    #[arg(long, global = true, env = "INTEGRAHUB_AWS_PROFILE", value_name = "PROFILE")]
    pub(crate) aws_profile: Option<String>,
    /// Name of the access table, if the credentials may not read the outputs of the stack
    #[arg(long, global = true, env = "INTEGRAHUB_TABLE", value_name = "NAME")]
    pub(crate) table: Option<String>,
    /// Form of the data on standard output
    #[arg(long, short = 'o', global = true, env = "INTEGRAHUB_OUTPUT", value_enum, default_value_t)]
    pub(crate) output: Format,
    /// Use of colours in the output
    #[arg(long, global = true, value_enum, default_value_t)]
    pub(crate) color: Colour,
    /// Ask for no confirmation, even before something is destroyed
    #[arg(long, short = 'y', global = true)]
    pub(crate) yes: bool,
    /// Show no progress
    #[arg(long, short = 'q', global = true)]
    pub(crate) quiet: bool,
}

impl Global {
    /// Returns the program's name with the options that name the deployment and the caller, as the
    /// beginning of a command that is suggested to the user. `COMMAND` replaces the value of
    /// `--api-key-command`, which may contain the key itself.
    pub(crate) fn program(&self) -> String {
        let path = |path: &PathBuf| path.display().to_string();
        let options = [
            ("-c", self.context.clone()),
            ("--url", self.url.as_ref().map(ToString::to_string)),
            ("--api-key-file", self.api_key_file.as_ref().map(path)),
            ("--api-key-command", self.api_key_command.as_ref().map(|_| "COMMAND".to_owned())),
            ("--stack", self.stack.clone()),
            ("--region", self.region.clone()),
            ("--aws-profile", self.aws_profile.clone()),
        ];
        let given = options.into_iter().filter_map(|(name, value)| Some((name, value?)));
        given.fold("integrahub".to_owned(), |line, (name, value)| format!("{line} {name} {}", quoted(&value)))
    }
}

/// Parses the base URL of the API. A user or a password in it is refused, because suggested
/// commands would repeat them.
pub(crate) fn address(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|error: url::ParseError| error.to_string())?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("an address has no user and no password; --api-key-file names the API key".to_owned());
    }
    if !matches!(url.scheme(), "https" | "http") {
        return Err("an address begins with https:// or http://".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("an address has no `?` and no `#`: the paths of requests follow it".to_owned());
    }
    Ok(url)
}

/// Quotes a value so that a shell reads it as one word.
fn quoted(value: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_./:@%+=,".contains(character);
    if !value.is_empty() && value.chars().all(is_plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', r"'\''"))
}

/// Use of colours in the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// Colours if the output is a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Colours always.
    On,
    /// Colours never.
    Off,
}

/// Commands of the program.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Send catalogue files and follow their batches
    Send(Send),
    /// Put messages into a queue
    Produce(Produce),
    /// Take messages from a queue
    Consume(Consume),
    /// Look at messages of a queue without taking them
    Browse(Browse),
    /// Move messages from one queue to another
    #[command(name = "move")]
    Move(Move),
    /// Count the messages of queues
    Depth(Depth),
    /// List, follow, replay and confirm batches
    #[command(subcommand)]
    Batches(Batches),
    /// Run load tests
    #[command(subcommand, name = "test")]
    Tests(Tests),
    /// Show whether the API and its stores work
    Status(Status),
    /// Show the usage of tenants, and its price
    Usage(Usage),
    /// Create, show, enable, disable and remove tenants
    #[command(subcommand)]
    Tenant(Tenant),
    /// Create, rotate and remove API keys
    #[command(subcommand)]
    Key(Key),
    /// Create, show and remove target profiles
    #[command(subcommand)]
    Profile(Profile),
    /// Allow targets that requests may name without a profile
    #[command(subcommand)]
    Target(Target),
    /// Limit the requests, messages and bytes of tenants per second
    #[command(subcommand)]
    Limit(Limit),
    /// Set the monthly budgets of tenants
    #[command(subcommand)]
    Budget(Budget),
    /// Set the prices of usage
    #[command(subcommand)]
    Rates(Rates),
    /// Permit tenants to drop files into S3
    #[command(subcommand)]
    Grant(Grant),
    /// Show and set the tenants that own establishments
    #[command(subcommand)]
    Cnpj(Cnpj),
    /// Change the access table to the state that a file describes
    Apply(Apply),
    /// Write the access table as a file for `apply`
    Export(Export),
    /// Look for faults of a deployment, or (--before) for reasons why the next one would fail
    Doctor(Doctor),
    /// Explain rule by rule why an API key may or may not use an operation of the API
    Explain(Explain),
    /// Show one idempotency record, decoded
    Record(Record),
    /// Show who did what: the audit events of requests
    Audit(Audit),
    /// List the requests to a target, from the idempotency records that still exist
    Requests(Requests),
    /// Create, choose and remove contexts: named deployments with address, stack and API key
    #[command(subcommand)]
    Context(ContextCommand),
    /// Show the settings of this program with their sources, and the tenant, scopes and limits of
    /// the API key
    Whoami(Whoami),
    /// Send a request to the API and print the response
    Api(ApiRequest),
    /// Print the completions of a shell
    Completions(Completions),
    /// Write the manual pages into a directory
    Man(Man),
}

impl Command {
    /// Returns the services that the command calls. They decide which credentials are read.
    pub(crate) const fn needs(&self) -> Needs {
        match self {
            Self::Send(_)
            | Self::Produce(_)
            | Self::Consume(_)
            | Self::Browse(_)
            | Self::Move(_)
            | Self::Depth(_)
            | Self::Batches(_)
            | Self::Tests(_)
            | Self::Status(_)
            | Self::Usage(_)
            | Self::Api(_) => Needs::Api,
            Self::Whoami(Whoami { offline: false }) | Self::Limit(Limit::Show { mine: true, .. }) => {
                Needs::Api
            }
            Self::Explain(Explain { key: None, .. }) => Needs::AwsAndKey,
            Self::Whoami(_) => Needs::Either,
            _ => Needs::Aws,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_options_of_a_deployment_are_repeated() {
        assert_eq!(Global::default().program(), "integrahub");
        let global = Global {
            context: Some("till".to_owned()),
            url: Some("https://a.test/?a=1&b=2".parse().unwrap()),
            api_key_command: Some("echo ihub_secret".to_owned()),
            aws_profile: Some("it's".to_owned()),
            ..Global::default()
        };
        let options =
            r"-c till --url 'https://a.test/?a=1&b=2' --api-key-command COMMAND --aws-profile 'it'\''s'";
        assert_eq!(global.program(), format!("integrahub {options}"));
    }

    #[test]
    fn an_address_has_no_secret() {
        assert_eq!(address("https://a.test/x").map(String::from).as_deref(), Ok("https://a.test/x"));
        for wrong in ["https://till@a.test", "https://till:secret@a.test", "https://:secret@a.test", "a.test"]
        {
            assert!(address(wrong).is_err_and(|why| !why.contains("secret")), "{wrong}");
        }
    }

    #[test]
    fn an_address_is_one_that_paths_of_requests_can_follow() {
        for right in ["https://a.test", "http://localhost:8080/", "https://a.test/prod/"] {
            assert!(address(right).is_ok(), "{right}");
        }
        for (wrong, why) in [
            ("localhost:8080", "begins with https://"),
            ("ftp://a.test", "begins with https://"),
            ("https://a.test?stage=prod", "no `?`"),
            ("https://a.test/#", "no `#`"),
        ] {
            assert!(address(wrong).is_err_and(|error| error.contains(why)), "{wrong}");
        }
    }

    #[test]
    fn an_empty_filter_is_refused() {
        for options in [
            "requests --target",
            "audit --tenant",
            "audit --key",
            "audit --target",
            "audit --queue",
            "audit --tag",
            "batches list --status",
            "batches list --source",
            "usage --tenant",
        ] {
            let given = |value| ["integrahub"].into_iter().chain(options.split(' ')).chain([value]);
            assert!(Cli::try_parse_from(given("x")).is_ok(), "{options}");
            let refused = Cli::try_parse_from(given("")).unwrap_err();
            assert_eq!(refused.kind(), clap::error::ErrorKind::InvalidValue, "{options}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_that_is_not_obvious_has_an_example() {
        fn visit(path: &str, command: &clap::Command, without: &mut Vec<String>) {
            let path = format!("{path} {}", command.get_name());
            let required = command.get_positionals().any(clap::Arg::is_required_set);
            let many = command.get_arguments().filter(|argument| !argument.is_global_set()).count() > 4;
            if !command.has_subcommands() && required && many && command.get_after_help().is_none() {
                without.push(path.clone());
            }
            command.get_subcommands().for_each(|command| visit(&path, command, without));
        }
        let mut without = Vec::new();
        visit("", &Cli::command(), &mut without);
        assert_eq!(without, Vec::<String>::new());
    }
}
