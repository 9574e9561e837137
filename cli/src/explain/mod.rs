//! `integrahub explain`: checks whether the API would accept a request with an API key, and prints
//! the result of each access rule. The rules are checked by the code that the functions use, on the
//! access table and the stack's parameters. No request is sent to the API.

mod budget;
mod key;
mod limits;
mod operation;
mod products;
mod rule;
mod target;

use access::{KeyHash, KeyItem, TargetLimits};
use jiff::Timestamp;
use serde_json::{Value, json};

use self::operation::{Needed, Subject};
use self::rule::{Rule, Verdict};
use self::target::{Named, Settings};
use crate::access::Table;
use crate::args::{Explain, Operation};
use crate::aws::Aws;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::{Format, Output};

const SCHEMA: &str = "integrahub.explained.v1";

/// Runs `integrahub explain`.
///
/// # Errors
/// If the API would refuse the request, the command names no key or no target, or the table cannot
/// be accessed.
pub(crate) async fn run(args: &Explain, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    let needed = args.operation.needed();
    check(args, needed.subject)?;
    let named = Named::of(args).await?;
    let cnpj = args.cnpj.as_deref().map(products::establishment).transpose()?;
    let known = Table::of(context).await?.read().await?;
    let deployment = Deployment::of(context).await?;
    let mut rules = Vec::new();
    let caller = key::find(args, context, &known, &mut rules)?;
    if let Some((hash, item)) = caller {
        rules.extend(key::decide(&known, &hash, item, needed.scopes, Timestamp::now()));
        let tenant = item.tenant_id.as_str();
        let mut target = None;
        match needed.subject {
            Subject::Nothing => {}
            Subject::Products => {
                rules.extend(products::decide(item, cnpj.as_ref(), args.operation));
                // The owner decides about what is loaded, and not about batches that are looked at.
                if let Some(cnpj) = cnpj.as_ref().filter(|_| args.operation != Operation::Batches) {
                    rules.push(products::owner(context, &deployment, tenant, cnpj).await);
                }
            }
            subject => {
                let settings = deployment.settings().await;
                let decided = target::decide(&known, tenant, &named, &settings, subject)?;
                rules.extend(decided.rules);
                target = decided.target;
            }
        }
        if let Some(target) = target.as_ref().filter(|_| args.resolve) {
            rules.extend(target::resolve(target).await);
        }
        if args.operation != Operation::Status {
            rules.extend(limits::describe(&known, tenant, &named, target.as_ref(), &deployment).await);
            rules.extend(budget::decide(known.spent(tenant), Timestamp::now()));
        }
    }
    show(args, needed, caller, &rules, out);
    let refused = rules.iter().find(|rule| rule.verdict == Verdict::Broken);
    refused.map_or(Ok(Exit::Done), |rule| {
        let (method, path) = needed.route;
        Err(Failure::new(Exit::Denied, format!("{method} {path} would be refused"))
            .why(format!("{}: {}", rule.name, rule.reason)))
    })
}

/// Refuses options about a target or an establishment that the operation does not use.
fn check(args: &Explain, subject: Subject) -> Result<(), Failure> {
    let names_a_target = args.target.is_some()
        || args.target_ref.is_some()
        || args.target_file.is_some()
        || args.queue.is_some()
        || args.resolve;
    if names_a_target && matches!(subject, Subject::Products | Subject::Nothing) {
        return Err(Failure::usage("the operation has no target")
            .next("leave out --target, --target-ref, --target-file, --queue and --resolve"));
    }
    if args.cnpj.is_some() && subject != Subject::Products {
        return Err(Failure::usage("the operation is about no establishment").next("leave out --cnpj"));
    }
    Ok(())
}

/// Reader of a deployment's settings, from the parameters of its stack or from the local stack.
struct Deployment<'a> {
    context: &'a Context,
    aws: Aws,
}

impl<'a> Deployment<'a> {
    async fn of(context: &'a Context) -> Result<Self, Failure> {
        Ok(Self { context, aws: Aws::of(context).await? })
    }

    /// Returns the stack's parameter `name`, or for the local stack its `variable`; `None` if it
    /// cannot be read.
    async fn parameter(&self, name: &str, variable: &str) -> Option<String> {
        match &self.context.local {
            Some(local) => local.variable(variable).map(str::to_owned),
            None => self.aws.parameter(name).await.ok().flatten(),
        }
    }

    async fn settings(&self) -> Settings {
        Settings {
            inline_targets: self.parameter("InlineTargets", "INLINE_TARGETS").await,
            secret_prefix: self.parameter("SecretNamePrefix", "SECRET_NAME_PREFIX").await,
        }
    }

    /// Returns the rate limits in the stack's parameter `name`, or for the local stack in its
    /// `variable`. They apply to tenants without limits of their own. No limit is returned if the
    /// parameter cannot be read.
    async fn limits(&self, name: &str, variable: &str) -> TargetLimits {
        let text = self.parameter(name, variable).await.unwrap_or_default();
        text.parse().unwrap_or_default()
    }
}

/// Returns whether the API would accept the request by these results; `None` if no rule refuses it
/// and a rule could not be checked.
fn allowed(rules: &[Rule]) -> Option<bool> {
    let has = |verdict: Verdict| rules.iter().any(|rule| rule.verdict == verdict);
    match (has(Verdict::Broken), has(Verdict::Unknown)) {
        (true, _) => Some(false),
        (false, true) => None,
        (false, false) => Some(true),
    }
}

fn show(
    args: &Explain,
    needed: Needed,
    caller: Option<(KeyHash, &KeyItem)>,
    rules: &[Rule],
    out: &mut Output,
) {
    if out.format() == Format::Text {
        for line in rules.iter().flat_map(Rule::lines) {
            out.line(&line);
        }
        return;
    }
    let (method, path) = needed.route;
    let key = caller.map(|(hash, item)| json!({"id": hash.id(), "name": item.name}));
    let documents: Vec<Value> = rules.iter().map(Rule::document).collect();
    let operation = clap::ValueEnum::to_possible_value(&args.operation);
    out.json(
        SCHEMA,
        &json!({
            "operation": operation.map(|value| value.get_name().to_owned()),
            "route": format!("{method} {path}"),
            "tenant": caller.map(|(_, item)| &item.tenant_id),
            "key": key,
            "allowed": allowed(rules),
            "rules": documents,
        }),
    );
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    #[test]
    fn options_that_say_nothing_about_the_operation_are_refused() {
        let checked = |options: &str| {
            let words = ["integrahub", "explain"].into_iter().chain(options.split(' '));
            match Cli::try_parse_from(words).unwrap().command {
                Command::Explain(args) => check(&args, args.operation.needed().subject),
                other => panic!("{other:?}"),
            }
        };
        for fits in ["depth --target orders --resolve", "send --cnpj 11222333000181", "status"] {
            assert_eq!(checked(fits), Ok(()), "{fits}");
        }
        for wrong in ["send --target orders", "targets --queue Q", "depth --target orders --cnpj 1"] {
            assert_eq!(checked(wrong).unwrap_err().exit, Exit::Usage, "{wrong}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_allowed_for_certain() {
        let (holds, unknown) = (Rule::holds("a", ""), Rule::unknown("b", ""));
        let broken = Rule::broken("c", "");
        assert_eq!(allowed(std::slice::from_ref(&holds)), Some(true));
        assert_eq!(allowed(&[holds.clone(), unknown.clone()]), None);
        assert_eq!(allowed(&[holds, unknown, broken]), Some(false));
    }
}
