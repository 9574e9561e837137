//! `integrahub explain`: why an API key may or may not do a thing, rule by rule, by the code that
//! decides. It reads the access table and the parameters of the stack, and sends no request.

mod budget;
mod operation;
mod rule;
mod target;

use access::{
    ApiKey, DefaultLimits, KeyHash, KeyItem, LimitedTarget, LimitsInForce, LimitsItem, Principal, Scope,
    TargetLimits, TenantItem, pk,
};
use ingestion::Cnpj;
use jiff::Timestamp;
use mq::Target;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use uuid::Uuid;

use self::operation::{Needed, Subject};
use self::rule::{Rule, Verdict};
use self::target::{Named, Settings};
use crate::access::{Establishments, Snapshot, Table, limit};
use crate::args::{Explain, KeyName, Operation};
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
    let cnpj = args.cnpj.as_deref().map(establishment).transpose()?;
    let known = Table::of(context).await?.read().await?;
    let deployment = Deployment::of(context).await?;
    let mut rules = Vec::new();
    let caller = caller(args, context, &known, &mut rules)?;
    if let Some((hash, item)) = caller {
        rules.extend(rights(&known, &hash, item, needed.scopes, Timestamp::now()));
        let tenant = item.tenant_id.as_str();
        let mut target = None;
        match needed.subject {
            Subject::Nothing => {}
            Subject::Products => {
                rules.extend(products(item, cnpj.as_ref(), args.operation));
                // The owner decides about what is loaded, and not about batches that are looked at.
                if let Some(cnpj) = cnpj.as_ref().filter(|_| args.operation != Operation::Batches) {
                    rules.push(owner(context, &deployment, tenant, cnpj).await);
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
            rules.extend(limits(&known, tenant, &named, target.as_ref(), &deployment).await);
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

/// Refuses options that say nothing about the operation.
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

/// Settings of a deployment, from the parameters of its stack or from the local stack.
struct Deployment<'a> {
    context: &'a Context,
    aws: Aws,
}

impl<'a> Deployment<'a> {
    async fn of(context: &'a Context) -> Result<Self, Failure> {
        Ok(Self { context, aws: Aws::of(context).await? })
    }

    /// Returns a parameter of the stack; the local stack has the variable in its place. `None` if
    /// nothing here knows it.
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

    /// Returns the limits that hold where a tenant has none of its own.
    async fn limits(&self, name: &str, variable: &str) -> TargetLimits {
        let text = self.parameter(name, variable).await.unwrap_or_default();
        text.parse().unwrap_or_default()
    }
}

fn establishment(text: &str) -> Result<Cnpj, Failure> {
    let cnpj: Result<Cnpj, _> = text.trim().parse();
    cnpj.map_err(|error| Failure::usage(format!("`{text}` is no CNPJ")).why(error.to_string()))
}

/// Finds the API key, and records facts about it.
fn caller<'a>(
    args: &Explain,
    context: &Context,
    known: &'a Snapshot,
    rules: &mut Vec<Rule>,
) -> Result<Option<(KeyHash, &'a KeyItem)>, Failure> {
    const NAME: &str = "key";
    let found = |hash: KeyHash, item: &KeyItem| {
        let (name, id, tenant) = (&item.name, hash.id(), &item.tenant_id);
        Rule::holds(NAME, format!("the access table has it as `{name}` ({id}) of {tenant}"))
    };
    if let Some(key) = &args.key {
        let (_, hash, item) = known.key(&KeyName { key: key.clone(), tenant: args.tenant.clone() })?;
        rules.push(found(hash, item));
        return Ok(Some((hash, item)));
    }
    let key = context.api_key.as_ref().ok_or_else(|| {
        Failure::usage("the command names no API key")
            .next("add --key NAME with a name or an id, or --api-key-file FILE")
    })?;
    let key = ApiKey::from(key.expose_secret());
    let hash = key.hash();
    if key.is_damaged() {
        rules.push(Rule::broken(NAME, "it was not copied completely: its checksum is wrong"));
        return Ok(None);
    }
    let item = known.keys().find(|(_, other, _)| *other == hash).map(|(.., item)| item);
    rules.push(match (item, known.fault(&pk::key(&hash))) {
        (Some(item), _) => found(hash, item),
        (None, Some(fault)) => Rule::broken(NAME, format!("its item cannot be used: {fault}")),
        (None, None) => Rule::broken(NAME, format!("the access table has no key {}", hash.id())),
    });
    Ok(item.map(|item| (hash, item)))
}

/// Checks the rules about the key itself: its state, its tenant and its scopes.
fn rights(known: &Snapshot, hash: &KeyHash, item: &KeyItem, scopes: &[Scope], now: Timestamp) -> Vec<Rule> {
    let tenant = &item.tenant_id;
    let state = match (item.refusal(&TenantItem::default(), now), item.expires_at) {
        (Some(refusal), _) => Rule::broken("state", refusal.to_string()),
        (None, Some(end)) => Rule::holds("state", format!("it is enabled, and works until {end:.0}")),
        (None, None) => Rule::holds("state", "it is enabled, and does not expire"),
    };
    let fresh = KeyItem { disabled: false, expires_at: None, ..item.clone() };
    let of_tenant = match (known.fault(&pk::tenant(tenant)), fresh.refusal(&known.tenant_item(tenant), now)) {
        (Some(fault), _) => Rule::broken("tenant", format!("its item cannot be used: {fault}")),
        (None, Some(refusal)) => Rule::broken("tenant", refusal.to_string()),
        (None, None) => Rule::holds("tenant", format!("{tenant} is enabled")),
    };
    let own: Vec<Scope> = item.scopes.iter().filter_map(|name| name.parse().ok()).collect();
    let names = own.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(", ");
    let names = if names.is_empty() { "no scope".to_owned() } else { names };
    let scope = match Principal::new(tenant.as_str(), own).require_any(scopes) {
        Ok(()) => Rule::holds("scope", format!("the key {} has {names}", hash.id())),
        Err(problem) => Rule::broken("scope", format!("{}; it has {names}", problem.detail)),
    };
    vec![state, of_tenant, scope]
}

/// Checks the rules about products that need no further lookup.
fn products(item: &KeyItem, cnpj: Option<&Cnpj>, operation: Operation) -> Vec<Rule> {
    let tenant = &item.tenant_id;
    let id = match tenant.parse::<Uuid>() {
        Ok(_) => Rule::holds("tenant id", "it is a UUID, as the ingest needs it"),
        Err(_) => {
            Rule::broken("tenant id", format!("the ingest knows tenants by UUIDs, and `{tenant}` is none"))
        }
    };
    let establishments = &item.establishments;
    let Some(cnpj) = cnpj else {
        let reason = format!("the key is about {establishments}; --cnpj asks about one");
        return vec![id, Rule::unknown("establishment", reason)];
    };
    let is_covered = establishments
        .only()
        .is_none_or(|own| own.iter().any(|own| own.parse::<Cnpj>().is_ok_and(|own| own == *cnpj)));
    let cnpj = cnpj.as_str();
    let rule = match (is_covered, operation) {
        (true, _) => Rule::holds("establishment", format!("the key covers it: it is about {establishments}")),
        (false, Operation::Send) => Rule::broken(
            "establishment",
            format!("the key is about {establishments}, so items of {cnpj} are CNPJ_NOT_ALLOWED"),
        ),
        (false, _) => Rule::broken(
            "establishment",
            format!("the key is about {establishments}, so batches of {cnpj} are absent or 404"),
        ),
    };
    vec![id, rule]
}

/// Asks the function `establishments` for the establishment's owner.
async fn owner(context: &Context, deployment: &Deployment<'_>, tenant: &str, cnpj: &Cnpj) -> Rule {
    const NAME: &str = "owner";
    let listed = match Establishments::of(context).await {
        Ok(establishments) => establishments.list(None, Some(cnpj.as_str())).await,
        Err(failure) => Err(failure),
    };
    let owner = match listed {
        Ok(owned) => owned.into_iter().next().map(|owned| owned.tenant),
        Err(failure) => return Rule::unknown(NAME, failure.what),
    };
    let rule = deployment.parameter("EstablishmentOwners", "ESTABLISHMENT_OWNERS").await;
    owned(tenant, cnpj, owner.as_deref(), rule.as_deref())
}

/// Says whether a tenant may load an establishment of this owner. `rule` is the parameter
/// `EstablishmentOwners`.
fn owned(tenant: &str, cnpj: &Cnpj, owner: Option<&str>, rule: Option<&str>) -> Rule {
    const NAME: &str = "owner";
    let cnpj = cnpj.as_str();
    match (owner, rule) {
        (Some(owner), _) if owner == tenant => Rule::holds(NAME, format!("{cnpj} belongs to the tenant")),
        (Some(owner), _) => {
            Rule::broken(NAME, format!("{cnpj} belongs to {owner}, so its items are CNPJ_NOT_ALLOWED"))
        }
        (None, Some("first")) => {
            Rule::holds(NAME, format!("{cnpj} belongs to nobody, and becomes the first loader's"))
        }
        (None, Some(_)) => Rule::broken(
            NAME,
            format!("{cnpj} belongs to nobody: integrahub cnpj assign --tenant {tenant} {cnpj}"),
        ),
        (None, None) => Rule::unknown(
            NAME,
            format!("{cnpj} belongs to nobody, and EstablishmentOwners is not known here"),
        ),
    }
}

/// Says which limits hold for the request. They refuse only those beyond their rate. An item that
/// the functions cannot read refuses every request.
async fn limits(
    known: &Snapshot,
    tenant: &str,
    named: &Named,
    target: Option<&Target>,
    deployment: &Deployment<'_>,
) -> Option<Rule> {
    if let Some(fault) = known.fault(&pk::limits(tenant)) {
        return Some(Rule::broken("limits", format!("their item cannot be used: {fault}")));
    }
    let requests = deployment.limits("TenantLimit", "TENANT_LIMIT").await.requests;
    let targets = deployment.limits("TargetLimit", "TARGET_LIMIT").await;
    let texts = in_force(&known.limits(tenant), named, target, DefaultLimits { requests, targets });
    (!texts.is_empty()).then(|| Rule::holds("limits", texts.join(", ")))
}

/// Returns the limits of one request, as the functions find them: the tenant's own, or else the
/// deployment's.
fn in_force(
    own: &LimitsItem,
    named: &Named,
    target: Option<&Target>,
    defaults: DefaultLimits,
) -> Vec<String> {
    let limited = target.map(|target| {
        let queue_manager = target.endpoint.broker.certain_queue_manager(&target.endpoint.queue_manager);
        LimitedTarget::new(named.profile.as_deref(), queue_manager)
    });
    let LimitsInForce { requests, target: limits } = defaults.in_force(own, limited.as_ref());
    let mut one = LimitsItem { requests, ..LimitsItem::default() };
    if let Some(LimitedTarget { target_ref, queue_manager }) = limited {
        let (name, place) = match target_ref {
            Some(name) => (name, &mut one.targets),
            None => (queue_manager, &mut one.queue_managers),
        };
        place.insert(name.to_owned(), limits);
    }
    limit::each(&one).iter().map(|one| format!("{} {}", one.title(), one.rate)).collect()
}

/// Returns whether the API would take the request; `None` if a rule is not known here.
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
    use access::Establishments as Which;
    use clap::Parser as _;

    use super::*;
    use crate::access::Entry;
    use crate::access::examples::{ACME, key, snapshot};
    use crate::args::{Cli, Command};

    const CNPJ: &str = "11222333000181";

    fn now() -> Timestamp {
        "2026-11-27T10:00:00Z".parse().unwrap()
    }

    fn broken(rules: &[Rule]) -> Vec<&'static str> {
        let broken = rules.iter().filter(|rule| rule.verdict == Verdict::Broken);
        broken.map(|rule| rule.name).collect()
    }

    #[test]
    fn a_key_needs_its_state_its_tenant_and_its_scope() {
        let hash = ApiKey::from("k").hash();
        let works = KeyItem { disabled: false, ..key("orders", &["mq:read"]) };
        let known = snapshot(&[Entry::Key(hash, works.clone())]);
        let asked = |item: &KeyItem, scope| broken(&rights(&known, &hash, item, &[scope], now()));
        assert!(asked(&works, Scope::MqRead).is_empty());
        assert_eq!(asked(&works, Scope::MqWrite), ["scope"]);
        assert_eq!(asked(&KeyItem { disabled: true, ..works.clone() }, Scope::MqWrite), ["state", "scope"]);
        let ended = KeyItem { expires_at: Some(now()), ..works.clone() };
        assert_eq!(asked(&ended, Scope::MqRead), ["state"]);
        let closed = TenantItem { name: String::new(), enabled: false };
        let known = snapshot(&[Entry::Tenant(ACME.to_owned(), closed)]);
        assert_eq!(broken(&rights(&known, &hash, &works, &[Scope::MqRead], now())), ["tenant"]);
    }

    #[test]
    fn a_key_about_products_covers_its_own_establishments() {
        let cnpj: Cnpj = CNPJ.parse().unwrap();
        let all = key("till", &["products:write"]);
        assert!(broken(&products(&all, Some(&cnpj), Operation::Send)).is_empty());
        let only =
            |text: &str| KeyItem { establishments: Which::Only([text.to_owned()].into()), ..all.clone() };
        let own = products(&only("11.222.333/0001-81"), Some(&cnpj), Operation::Send);
        assert!(broken(&own).is_empty());
        for (operation, says) in [(Operation::Send, "CNPJ_NOT_ALLOWED"), (Operation::Batches, "404")] {
            let foreign = products(&only("05927228000145"), Some(&cnpj), operation);
            assert_eq!(broken(&foreign), ["establishment"]);
            assert!(foreign[1].reason.contains(says), "{}", foreign[1].reason);
        }
        assert_eq!(products(&all, None, Operation::Send)[1].verdict, Verdict::Unknown);
        let legacy = KeyItem { tenant_id: "legacy".to_owned(), ..all.clone() };
        assert_eq!(broken(&products(&legacy, Some(&cnpj), Operation::Send)), ["tenant id"]);
    }

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

    #[test]
    fn an_establishment_belongs_to_one_tenant() {
        let cnpj: Cnpj = CNPJ.parse().unwrap();
        for (owner, rule, verdict) in [
            (Some(ACME), None, Verdict::Holds),
            (Some("other"), Some("first"), Verdict::Broken),
            (None, Some("first"), Verdict::Holds),
            (None, Some("entry"), Verdict::Broken),
            (None, None, Verdict::Unknown),
        ] {
            assert_eq!(owned(ACME, &cnpj, owner, rule).verdict, verdict, "{owner:?} {rule:?}");
        }
    }

    #[test]
    fn the_limits_in_force_are_the_tenant_s_or_the_deployment_s() {
        let own = LimitsItem { requests: Some("5/10".parse().unwrap()), ..LimitsItem::default() };
        let defaults = DefaultLimits::parse("", "messages=500/1000").unwrap();
        let texts = in_force(&own, &Named::default(), None, defaults);
        assert_eq!(texts, ["requests 5/10"]);
        let spec = json!({"broker": "rabbitmq", "connName": "h:1", "queue": "Q"});
        let spec: mq::TargetSpec = serde_json::from_value(spec).unwrap();
        let list: mq::InlineTargets = "rabbitmq://h:1/*".parse().unwrap();
        let target = Target::resolve(None, Some(&spec), list.of(ACME)).unwrap();
        let named = Named { profile: None, inline: Some(spec) };
        let texts = in_force(&own, &named, Some(&target), defaults);
        assert_eq!(texts, ["requests 5/10", "queue manager `/` messages 500/1000"]);
    }
}
