//! `integrahub doctor`: finds faults of a deployment, or of one that is to come, and says how to
//! correct them.
//!
//! Each module reads facts from AWS or the API, and judges them in functions without I/O. If a fact
//! cannot be read, only the checks that need it are skipped. No fault that a check finds ends the
//! other checks.

mod account;
mod alarms;
mod api;
mod bundle;
mod functions;
mod kinds;
mod network;
mod parameters;
mod report;
mod secrets;
mod stack;

use std::path::Path;

use serde_json::{Value, json};

use self::functions::Profile;
use self::parameters::{Parameters, Settings};
use self::report::{Check, Known, Unknown};
use self::secrets::Named;
use self::stack::Resource;
use crate::access::{Entry, Snapshot, Table, profile};
use crate::args::Doctor;
use crate::aws::Aws;
use crate::aws_query::{AwsQuery, Stack};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::input;
use crate::output::{Format, Output, with_schema};

const SCHEMA: &str = "integrahub.doctor.v1";
/// Name of the SAM CLI file of parameters that is read if the command line names none.
const SETTINGS: &str = "samconfig.toml";
/// Maximum number of bytes of the SAM CLI file of parameters (`--parameters`).
const LARGEST: u64 = 1024 * 1024;

/// Report of the checks so far. As text, each check is printed as soon as it is made.
struct Report<'a> {
    out: &'a mut Output,
    checks: Vec<Check>,
}

/// Deployment that `doctor` checks, with what it has read of the stack.
struct Subject<'a> {
    args: &'a Doctor,
    context: Context,
    aws: Aws,
    client: AwsQuery,
    stack: Known<Option<Stack>>,
    resources: Known<Vec<Resource>>,
    /// Parameters of the stack, or with `--before` those of the next deployment.
    parameters: Known<Parameters>,
}

/// Runs `integrahub doctor`.
///
/// # Errors
/// If the parameters of the next deployment cannot be read, the region is not known, the tenant
/// does not exist, or the support bundle cannot be written.
pub(crate) async fn run(args: &Doctor, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    let (mut context, mut given) = (context.clone(), None);
    if args.before {
        let path = args.parameters.as_deref().unwrap_or(Path::new(SETTINGS));
        let settings = settings(path, &args.config_env).await?;
        context.stack = context.stack.or(settings.stack);
        context.region = context.region.or(settings.region);
        given = Some(settings.parameters);
    }
    let aws = Aws::of(&context).await?;
    let client = aws.query();
    let mut report = Report { out: &mut *out, checks: Vec::new() };
    let (identity, mut subject) = (account::identity(&client).await, None);
    report.add([account::credentials(&identity)]);
    if account::is_shut_out(&identity) {
        let unknown = Unknown::NotAsked("AWS answers no question without credentials that work".to_owned());
        report.add(kinds::ALL.iter().skip(1).map(|kind| kind.skip(&unknown)));
    } else {
        let subject = subject.insert(Subject::look(args, context, aws, client, given).await);
        subject.check(&mut report).await?;
    }
    let document = report::document(args.before, &report.checks);
    let exit = report.end(args);
    if let Some(path) = &args.bundle {
        let mut documents = vec![("report", with_schema(SCHEMA, &document))];
        if let Some(subject) = &subject {
            documents.push(("stack", bundle::stack(&subject.stack)));
            let errors = bundle::errors(&subject.client, &subject.resources).await;
            documents.push(("errors", Value::Array(errors)));
        }
        bundle::write(path, &documents)?;
        out.note(&format!("{} has the report for whoever helps you", path.display()));
    }
    Ok(exit)
}

async fn settings(path: &Path, environment: &str) -> Result<Settings, Failure> {
    let text = input::read(path, LARGEST).await.map_err(|failure| {
        failure.next("name the file with the parameters of the deployment: --parameters FILE")
    })?;
    Settings::parse(&String::from_utf8_lossy(&text), environment)
}

impl Report<'_> {
    fn add(&mut self, checks: impl IntoIterator<Item = Check>) {
        for check in checks {
            if self.out.format() == Format::Text {
                check.lines().iter().for_each(|line| self.out.line(line));
            }
            self.checks.push(check);
        }
        self.out.flush();
    }

    /// Prints the end of the report, or all of it as JSON, and returns the exit code of the
    /// command.
    fn end(self, args: &Doctor) -> Exit {
        let Self { out, checks } = self;
        match out.format() {
            Format::Text => {
                let counts = report::counts(&checks).map(|(name, count)| format!("{count} {name}"));
                out.line(&counts.join(", "));
            }
            Format::Json => out.json(SCHEMA, &report::document(args.before, &checks)),
            Format::Ndjson => checks.iter().for_each(|check| out.json(SCHEMA, &json!(check))),
        }
        report::exit(&checks, args.strict)
    }
}

impl<'a> Subject<'a> {
    /// Reads the stack and its resources, and returns the deployment to check. `given` has the
    /// parameters of the next deployment, which replace those of the stack.
    async fn look(
        args: &'a Doctor,
        context: Context,
        aws: Aws,
        client: AwsQuery,
        given: Option<Parameters>,
    ) -> Self {
        let local = context.local.as_ref().and_then(|local| local.variable("LOCAL_STACK_NAME"));
        let name = context.stack.as_deref().or(local);
        let absent = || Unknown::NotAsked("no stack is named: --stack NAME".to_owned());
        let stack = match name {
            Some(name) => Stack::describe(&client, name).await.map_err(Unknown::from),
            None => Err(absent()),
        };
        let resources = match &stack {
            Ok(Some(stack)) => stack::resources(&client, &stack.name).await,
            Ok(None) => Ok(Vec::new()),
            Err(unknown) => Err(unknown.clone()),
        };
        let parameters = match (given, &stack) {
            (Some(given), _) => Ok(given),
            (None, Ok(Some(stack))) => Ok(Parameters(stack.parameters.clone())),
            (None, Ok(None)) => {
                Err(Unknown::NotAsked("there is no stack that could have parameters".to_owned()))
            }
            (None, Err(unknown)) => Err(unknown.clone()),
        };
        Self { args, context, aws, client, stack, resources, parameters }
    }

    /// Makes all checks of the deployment and adds their results to the report.
    ///
    /// # Errors
    /// If the tenant of the command line does not exist.
    async fn check(&self, report: &mut Report<'_>) -> Result<(), Failure> {
        let before = self.args.before;
        let executions = account::concurrency(&self.aws.lambda(), &self.resources).await;
        let none = Parameters::default();
        let parameters = self.parameters.as_ref();
        report.add([account::executions(&executions, parameters.unwrap_or(&none), before)]);
        report.add([stack::state(&self.stack, before)]);
        if !before {
            report.add([stack::outputs(&self.stack)]);
            self.check_api(report).await;
        }
        match parameters {
            Ok(parameters) => {
                report.add(network::checks(&self.client, parameters, &self.resources, before).await);
                report.add(secrets::of_deployment(&self.client, parameters).await);
            }
            Err(unknown) => report.add([kinds::SUBNETS, kinds::OF_DEPLOYMENT].map(|kind| kind.skip(unknown))),
        }
        if !before {
            self.check_functions(report).await?;
            report.add(alarms::state(&alarms::raised(&self.client, &self.resources).await));
        }
        match parameters {
            Ok(parameters) => {
                let (alarms, events) = (parameters.get("AlarmTopicArn"), parameters.get("EventTopicArn"));
                report.add(alarms::topics(&self.client, alarms, events).await);
            }
            Err(unknown) => {
                report.add([kinds::ALARM_TOPIC, kinds::EVENT_TOPIC].map(|kind| kind.skip(unknown)));
            }
        }
        Ok(())
    }

    async fn check_api(&self, report: &mut Report<'_>) {
        let mut context = self.context.clone();
        context.url = context.url.or_else(|| self.address()?.parse().ok());
        let parameter = |name: &str| self.parameters.as_ref().map_or("", |parameters| parameters.get(name));
        let skip = |why: &str| {
            let unknown = Unknown::NotAsked(why.to_owned());
            [kinds::VERSION, kinds::READY].map(|kind| kind.skip(&unknown))
        };
        if context.url.is_none() {
            return report.add(skip("the address of the API is not known"));
        }
        let contract = api::ask(&context, "/openapi.json").await;
        // A private API answers in its network alone, and is not broken for those outside.
        if !parameter("ApiPrivateEndpoints").is_empty() && !contract.is_ours() {
            return report.add(skip(
                "the API is private (ApiPrivateEndpoints), and cannot be asked from here: run this in its network",
            ));
        }
        report.add([api::version(&contract)]);
        report.add(api::ready(&api::ask(&context, "/health/ready").await));
    }

    /// Checks the database and the brokers by invoking functions in their networks, and checks the
    /// secrets that target profiles name.
    ///
    /// # Errors
    /// If the tenant of the command line does not exist.
    async fn check_functions(&self, report: &mut Report<'_>) -> Result<(), Failure> {
        let profiles = match self.table().await {
            Ok(known) => Ok(profiles(&known, self.args.tenant.as_deref(), self.args.target.as_deref())?),
            Err(unknown) => Err(unknown),
        };
        let prefix = self.parameters.as_ref().ok().map(Parameters::secret_prefix);
        // The local stack has no IAM.
        let prefix = prefix.filter(|_| self.context.local.is_none());
        let named = profiles.as_ref().map(|all| named(all)).map_err(Clone::clone);
        report.add([secrets::of_profiles(&self.client, &named, prefix).await]);
        let lambda = self.aws.lambda();
        let database = match self.function("EstablishmentsFunctionName", "ESTABLISHMENTS_FUNCTION") {
            // It asks the database for one row.
            Some(function) => {
                functions::invoke(&lambda, &function, &json!({"action": "list", "limit": 1})).await
            }
            None if self.context.local.is_some() || matches!(self.stack, Ok(Some(_))) => {
                Err(Unknown::NotAsked("the deployment has no ingest".to_owned()))
            }
            None => Err(Unknown::NotAsked("the name of the function establishments is not known".to_owned())),
        };
        report.add([functions::database(&database)]);
        let function = self.function("MqAccessFunctionName", "MQ_ACCESS_FUNCTION");
        match (profiles, function) {
            (Err(unknown), _) => report.add([kinds::PROFILE.skip(&unknown)]),
            (Ok(_), None) => {
                let unknown = Unknown::NotAsked("the name of the function mq-access is not known".to_owned());
                report.add([kinds::PROFILE.skip(&unknown)]);
            }
            (Ok(mut all), Some(function)) => {
                let rest = all.len().saturating_sub(functions::MOST);
                all.truncate(functions::MOST);
                report.add(functions::profiles(&lambda, &function, all).await);
                let unknown = |why: String| kinds::PROFILE.skip(&Unknown::NotAsked(why));
                if rest > 0 {
                    let why = format!("{rest} more profiles were not tested: name a tenant (--tenant)");
                    report.add([unknown(why)]);
                } else if report.checks.iter().all(|check| check.id != kinds::PROFILE.id) {
                    report.add([unknown("there is no target profile".to_owned())]);
                }
            }
        }
        Ok(())
    }

    /// Reads the access table, whose name may come from the stack's outputs.
    async fn table(&self) -> Known<Snapshot> {
        let unknown = |right: &'static str| move |failure: Failure| Unknown::of_failure(&failure, right);
        let table = Table::of(&self.context).await.map_err(unknown("cloudformation:DescribeStacks"))?;
        table.read().await.map_err(unknown("dynamodb:Scan"))
    }

    /// Returns the name of a Lambda function: the value of `variable` in the local stack, or of the
    /// stack's output `output`. `None` if neither exists.
    fn function(&self, output: &str, variable: &str) -> Option<String> {
        let local = self.context.local.as_ref().and_then(|local| local.variable(variable));
        local.map(str::to_owned).or_else(|| self.output(output).map(str::to_owned))
    }

    /// Returns the address of the API: the API's own domain if the default endpoint is disabled,
    /// otherwise an output of the stack. `None` if it is unknown, or the domain is a wildcard.
    fn address(&self) -> Option<String> {
        let parameters = self.parameters.as_ref().ok();
        let closed = parameters.filter(|found| found.get("DisableExecuteApiEndpoint") == "true");
        match closed.map(|found| found.get("DomainName")) {
            Some(domain) if domain.starts_with('*') => None,
            Some(domain) => Some(format!("https://{domain}")),
            None => self.output("ApiUrl").map(str::to_owned),
        }
    }

    fn output(&self, name: &str) -> Option<&str> {
        let stack = self.stack.as_ref().ok()?.as_ref()?;
        stack.outputs.get(name).map(String::as_str)
    }
}

/// Returns the target profiles to check: those of one tenant or of all, with the name `target` or
/// with any.
///
/// # Errors
/// If the tenant does not exist.
fn profiles(known: &Snapshot, tenant: Option<&str>, target: Option<&str>) -> Result<Vec<Profile>, Failure> {
    let entries = known.entries(tenant).map_err(|failure| Failure { exit: Exit::Usage, ..failure })?;
    let profile = |entry: &Entry| match entry {
        Entry::Profile(tenant, name, value) if target.is_none_or(|target| target == name) => {
            Some(Profile { tenant: tenant.clone(), name: name.clone(), value: value.clone() })
        }
        _ => None,
    };
    Ok(entries.filter_map(profile).collect())
}

/// Returns the secrets that target profiles refer to, each with the titles of the profiles. A
/// profile that cannot be parsed is left out, because another check reports it.
fn named(profiles: &[Profile]) -> Named {
    let mut found = Named::new();
    for stored in profiles {
        if let Ok(parsed) = profile::parse(&stored.value) {
            secrets::add(&mut found, &stored.title(), &parsed);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::memory::output;

    fn ended(format: Format, strict: bool) -> (Exit, String) {
        let (mut out, data, _) = output(format, None);
        let args = Doctor { strict, ..Doctor::default() };
        let mut report = Report { out: &mut out, checks: Vec::new() };
        report.add([kinds::STATE.ok("fine"), kinds::ALARM_TOPIC.warn("silent", "subscribe")]);
        let exit = report.end(&args);
        (exit, data.text())
    }

    #[test]
    fn people_see_lines_and_programs_one_document() {
        let (exit, text) = ended(Format::Text, false);
        assert_eq!(exit, Exit::Done);
        assert_eq!(
            text,
            "ok    stack.state: fine\nwarn  topics.alarms: silent\n      subscribe (docs/operate.md)\n\
             1 ok, 1 warn, 0 fail, 0 skip\n"
        );
        let (exit, text) = ended(Format::Json, true);
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((exit, &document["schema"]), (Exit::Doubtful, &json!(SCHEMA)));
        assert_eq!(document["checks"].as_array().unwrap().len(), 2);
        assert_eq!(ended(Format::Ndjson, false).1.lines().count(), 2);
    }

    #[test]
    fn a_tenant_that_is_not_there_is_a_fault_of_the_command_line() {
        let none = Snapshot::default();
        assert_eq!(profiles(&none, None, None), Ok(Vec::new()));
        assert_eq!(profiles(&none, Some("acme"), None).unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn a_profile_that_cannot_be_read_names_no_secret() {
        let stored = |value| Profile { tenant: "acme-1".into(), name: "orders".into(), value };
        let secret = json!({"target": {"auth": {"passwordRef": "secret://mq/a"}}});
        let found = named(&[stored(secret), stored(json!({"targets": {}}))]);
        assert_eq!(found.len(), 1);
        assert!(found["secret://mq/a"].contains("orders of acme"));
    }
}
