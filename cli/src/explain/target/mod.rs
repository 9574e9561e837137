//! Rules of `integrahub explain` about a target: its profile, the allow-lists and the names of its
//! secrets. They are checked by the gateway's own code.

mod hosts;
mod named;

use access::pk;
use mq::{
    AllowedTargets, InlineTargets, Judgement, Profile, SecretRef, StoreRef, Target, TargetError, TargetRule,
    Tls,
};

pub(super) use self::hosts::resolve;
pub(super) use self::named::Named;
use super::operation::Subject;
use super::rule::{Entry, Rule, Verdict};
use crate::access::{Entry as Item, Snapshot, profile};
use crate::exit::Failure;

/// Parameters of the deployment that decide which targets are allowed. A parameter is `None` if it
/// cannot be read.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    /// Value of the parameter `InlineTargets`: the deployment's allow-list of targets.
    pub(super) inline_targets: Option<String>,
    /// Value of the parameter `SecretNamePrefix`: the functions may read only secrets whose names
    /// begin with it.
    pub(super) secret_prefix: Option<String>,
}

/// Results of the access rules for a target, and the target itself. `target` is `None` if the
/// target is incomplete or invalid.
#[derive(Debug, Default)]
pub(super) struct Decided {
    pub(super) rules: Vec<Rule>,
    pub(super) target: Option<Target>,
}

/// Allow-lists of the deployment and of the tenant, with the texts of their entries.
struct Lists {
    deployment: InlineTargets,
    own: InlineTargets,
    texts: Vec<(&'static str, String)>,
    /// True if the deployment's allow-list could be read.
    is_known: bool,
}

impl Lists {
    /// Parses the allow-lists of the deployment and of the tenant, and adds a result to `rules` for
    /// each fault in them. A tenant's list with a fault allows nothing, as in the gateway.
    fn of(known: &Snapshot, tenant: &str, settings: &Settings, rules: &mut Vec<Rule>) -> Self {
        let text = settings.inline_targets.as_deref();
        let deployment = text.map(str::parse::<InlineTargets>).transpose();
        if let Err(error) = &deployment {
            rules.push(Rule::broken("InlineTargets", format!("the functions cannot start with it: {error}")));
        }
        let entries = known.targets(tenant);
        if let Some(fault) = known.fault(&pk::targets(tenant)) {
            let reason = format!("the tenant's own list counts as empty: {fault}");
            rules.push(Rule::unknown("own list", reason));
        }
        let own = InlineTargets::of_one_tenant(entries);
        if let Err(error) = &own {
            let reason = format!("the tenant's own list counts as empty: {error}");
            rules.push(Rule::unknown("own list", reason));
        }
        let is_separator = |character: char| character.is_whitespace() || character == ';';
        let of_deployment = text.filter(|_| deployment.is_ok()).unwrap_or_default().split(is_separator);
        let of_deployment = of_deployment.filter(|entry| !entry.is_empty());
        let of_deployment = of_deployment.map(|entry| ("deployment", entry.to_owned()));
        let of_tenant = entries.iter().filter(|_| own.is_ok()).map(|entry| ("tenant", entry.clone()));
        let texts = of_deployment.chain(of_tenant).collect();
        Self {
            is_known: text.is_some(),
            deployment: deployment.ok().flatten().unwrap_or_default(),
            own: own.unwrap_or_default(),
            texts,
        }
    }

    fn allowed<'a>(&'a self, tenant: &'a str) -> AllowedTargets<'a> {
        self.deployment.of(tenant).and(&self.own)
    }

    /// Returns every entry of the allow-lists with the result of its comparison with the target.
    fn entries(&self, tenant: &str, target: &Target) -> Vec<Entry> {
        let differences = self.allowed(tenant).differences(target);
        let texts = self.texts.iter().cloned().zip(differences);
        let entry = |((list, text), parts): ((&'static str, String), Vec<mq::EntryPart>)| Entry {
            list,
            text,
            differences: parts.into_iter().map(mq::EntryPart::difference).collect(),
        };
        texts.map(entry).collect()
    }
}

/// Checks every access rule about a target.
///
/// # Errors
/// If the command names no target.
pub(super) fn decide(
    known: &Snapshot,
    tenant: &str,
    named: &Named,
    settings: &Settings,
    subject: Subject,
) -> Result<Decided, Failure> {
    let mut rules = Vec::new();
    let profile = match named.profile.as_deref().map(|name| find(known, tenant, name)).transpose() {
        Ok(profile) => profile,
        Err(reason) => {
            return Ok(Decided { rules: vec![Rule::broken("profile", reason)], target: None });
        }
    };
    match (&profile, &named.profile, &named.inline) {
        (Some(profile), Some(name), _) => {
            let overrides = if profile.overrides { "may" } else { "may not" };
            let reason =
                format!("the tenant has `{name}`; a request {overrides} change further members of it");
            rules.push(Rule::holds("profile", reason));
        }
        (_, _, Some(_)) => {}
        (_, _, None) => {
            return Err(Failure::usage("the command names no target")
                .next("add --target PROFILE, or --target broker://host:port/queue"));
        }
    }
    let lists = Lists::of(known, tenant, settings, &mut rules);
    let judged = Target::judge(profile.as_ref(), named.inline.as_ref(), lists.allowed(tenant));
    let Judgement { target, rules: judged } = match judged {
        Ok(judged) => judged,
        Err(error) => {
            rules.push(Rule::broken("target", profile::faulty(&error)));
            return Ok(Decided { rules, target: None });
        }
    };
    rules.extend(check_place(&target, subject));
    // A profile without overrides takes nothing from a list, so that it need not be known.
    let is_fixed = profile.as_ref().is_some_and(|profile| !profile.overrides);
    let mut entries = if is_fixed { Vec::new() } else { lists.entries(tenant, &target) };
    for (rule, says) in judged {
        let mut explained = explained(rule, &says, lists.is_known || is_fixed);
        let shows = rule == TargetRule::AllowList || depends(rule) && explained.verdict != Verdict::Holds;
        if shows {
            explained.entries = std::mem::take(&mut entries);
        }
        rules.push(explained);
    }
    rules.extend(secret_names(&target, settings.secret_prefix.as_deref()));
    rules.push(hosts::describe(&target));
    // An allowed one also knows which special addresses its names may lead to.
    let allowed = Target::resolve(profile.as_ref(), named.inline.as_ref(), lists.allowed(tenant));
    Ok(Decided { rules, target: Some(allowed.unwrap_or(target)) })
}

/// Finds a target profile of the tenant, or returns a sentence about why it cannot be used.
fn find(known: &Snapshot, tenant: &str, name: &str) -> Result<Profile, String> {
    let pk = pk::profile(tenant, name);
    match (known.get(&pk).map(|held| &held.entry), known.fault(&pk)) {
        (Some(Item::Profile(.., value)), _) => {
            profile::parse(value).map_err(|failure| failure.why.unwrap_or(failure.what))
        }
        (_, Some(fault)) => Err(format!("the item of `{name}` cannot be used: {fault}")),
        _ => Err(format!("the tenant has no target profile `{name}`")),
    }
}

/// Returns a rule that refuses the request if the operation needs a queue or an exchange that the
/// target lacks; `None` otherwise.
fn check_place(target: &Target, subject: Subject) -> Option<Rule> {
    let has_place = match subject {
        Subject::Queue => target.queue.is_some(),
        Subject::QueueOrExchange => target.queue.is_some() || target.exchange.is_some(),
        Subject::Connection | Subject::Products | Subject::Nothing => true,
    };
    (!has_place).then(|| Rule::broken("target", "/target/queue: is required"))
}

/// Returns whether an entry of an allow-list can make a target satisfy this rule.
const fn depends(rule: TargetRule) -> bool {
    match rule {
        TargetRule::AllowList
        | TargetRule::Queue
        | TargetRule::Exchange
        | TargetRule::Connection
        | TargetRule::Secrets => true,
        TargetRule::Overrides | TargetRule::Credentials | TargetRule::Tls => false,
    }
}

fn explained(rule: TargetRule, says: &Result<(), TargetError>, list_is_known: bool) -> Rule {
    match says {
        Ok(()) => Rule::holds(rule.as_str(), holding(rule)),
        Err(error) if depends(rule) && !list_is_known => {
            let reason = format!("{error}; the deployment's InlineTargets are not known here");
            Rule::unknown(rule.as_str(), reason)
        }
        Err(error) => Rule::broken(rule.as_str(), error.to_string()),
    }
}

/// Returns the sentence to show if a target satisfies this rule.
const fn holding(rule: TargetRule) -> &'static str {
    match rule {
        TargetRule::AllowList => "an entry covers the target at each of its addresses",
        TargetRule::Overrides => "the request changes nothing that the profile keeps",
        TargetRule::Queue => "the profile or an entry covers the queue",
        TargetRule::Exchange => "the profile or an entry covers the exchange, or the request names none",
        TargetRule::Connection => {
            "the request stays at the profile's place, or an entry covers the other one"
        }
        TargetRule::Credentials => "the profile's credentials go to the profile's hosts only",
        TargetRule::Tls => "the request leaves the profile's TLS as it is",
        TargetRule::Secrets => "each secret that the request itself names is granted",
    }
}

/// Returns the secrets that a target uses, including those of its profile.
fn secrets(target: &Target) -> Vec<&SecretRef> {
    let mut all: Vec<&SecretRef> = target.endpoint.password_ref.iter().collect();
    if let Tls::On { key_store_ref, trust_store_ref, opening, .. } = &target.endpoint.tls {
        let stores = [key_store_ref, trust_store_ref, &opening.stash_ref].into_iter().flatten();
        all.extend(stores.filter_map(StoreRef::secret));
        all.extend(opening.password_ref.iter());
    }
    all
}

/// Checks that the names of the target's secrets begin with the prefix that the functions may read.
/// Returns `None` if the target has no secret, or the prefix is not known.
fn secret_names(target: &Target, prefix: Option<&str>) -> Option<Rule> {
    const NAME: &str = "secret names";
    let (secrets, prefix) = (secrets(target), prefix?);
    let other = secrets.iter().find(|secret| match secret {
        SecretRef::SecretsManager(name) => !name.starts_with(prefix),
        // The resource of a parameter has one slash before its name, however the name begins.
        SecretRef::ParameterStore(name) => !name.strip_prefix('/').unwrap_or(name).starts_with(prefix),
    });
    match other {
        _ if secrets.is_empty() => None,
        None => Some(Rule::holds(NAME, format!("each begins with `{prefix}` (SecretNamePrefix)"))),
        Some(secret) => {
            let why = format!(
                "the functions may not read `{secret}`, which does not begin with `{prefix}` (SecretNamePrefix)"
            );
            Some(Rule::broken(NAME, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use access::TargetsItem;
    use serde_json::{Value, json};

    use super::named::members_of;
    use super::*;
    use crate::access::examples::{ACME, profile as orders, snapshot};
    use crate::explain::rule::broken;

    const OWN: &str = "rabbitmq://mq2.example.com:5671/STOCK.*?vhost=eu";

    fn known() -> Snapshot {
        let mut fixed = orders();
        fixed["overrides"] = json!(false);
        snapshot(&[
            Item::Profile(ACME.to_owned(), "orders".to_owned(), orders()),
            Item::Profile(ACME.to_owned(), "fixed".to_owned(), fixed),
            Item::Targets(ACME.to_owned(), TargetsItem { entries: vec![OWN.to_owned()] }),
        ])
    }

    fn decided(profile: Option<&str>, inline: &str, list: Option<&str>) -> Vec<Rule> {
        let members = (!inline.is_empty()).then(|| members_of(inline).unwrap());
        let inline = members.map(|members| attempt::malformed::from_value(Value::Object(members)).unwrap());
        let named = Named { profile: profile.map(str::to_owned), inline };
        let settings =
            Settings { inline_targets: list.map(str::to_owned), secret_prefix: Some("mq/".to_owned()) };
        decide(&known(), ACME, &named, &settings, Subject::Queue).unwrap().rules
    }

    #[test]
    fn a_profile_explains_itself() {
        let rules = decided(Some("orders"), "", Some(""));
        assert!(broken(&rules).is_empty() && rules[0].reason.contains("may change"), "{rules:?}");
        let none = decided(Some("stock"), "", Some(""));
        assert_eq!(broken(&none), ["profile"]);
        let elsewhere = decided(Some("fixed"), "rabbitmq://mq.example.com:5671/PAYMENTS", Some(""));
        assert_eq!(broken(&elsewhere), ["overrides", "queue"]);
        assert!(elsewhere.iter().all(|rule| rule.entries.is_empty()), "no entry holds beside it");
    }

    #[test]
    fn an_entry_that_covers_a_target_is_named_and_the_others_say_why_not() {
        let list = "rabbitmq://mq.example.com:5671/STOCK.*?tenant=other";
        let rules = decided(None, "rabbitmq://mq2.example.com:5671/STOCK.A?vhost=eu", Some(list));
        assert!(broken(&rules).is_empty(), "{rules:?}");
        let entries = &rules.iter().find(|rule| rule.name == "allow-list").unwrap().entries;
        assert_eq!((entries[0].list, entries[1].list), ("deployment", "tenant"));
        assert!(entries[1].differences.is_empty() && entries[1].text == OWN, "{entries:?}");
        assert!(entries[0].differences.contains(&"it is for other tenants"), "{entries:?}");
        let refused = decided(None, "rabbitmq://mq2.example.com:5671/PAYMENTS?vhost=eu", Some(list));
        assert_eq!(broken(&refused), ["allow-list"]);
        let lines: Vec<String> = refused.iter().flat_map(Rule::lines).collect();
        assert!(lines.contains(&format!("    ✘ tenant `{OWN}`: it is for other queues")), "{lines:?}");
    }

    #[test]
    fn what_depends_on_a_list_that_is_not_known_is_not_refused() {
        let rules = decided(None, "rabbitmq://mq.example.com:5671/Q", None);
        assert!(broken(&rules).is_empty(), "{rules:?}");
        assert!(rules.iter().any(|rule| rule.verdict == Verdict::Unknown), "{rules:?}");
        let fixed = decided(Some("fixed"), "rabbitmq://mq.example.com:5671/PAYMENTS", None);
        assert_eq!(broken(&fixed), ["overrides", "queue"], "no list could allow it");
    }

    #[test]
    fn a_secret_that_the_functions_may_not_read_is_named() {
        let rules = decided(
            Some("orders"),
            "rabbitmq://mq.example.com:5671/ORDERS.IN?password=secret://other/orders",
            Some("rabbitmq://mq.example.com:5671/*?tenant=*&secrets=*&tls=optional"),
        );
        assert_eq!(broken(&rules), ["secret names"]);
        let named = |password: &str| {
            let inline = format!("rabbitmq://mq.example.com:5671/ORDERS.IN?password={password}");
            decided(
                Some("orders"),
                &inline,
                Some("rabbitmq://mq.example.com:5671/*?tenant=*&secrets=*&tls=optional"),
            )
        };
        assert!(broken(&named("ssm:///mq/orders")).is_empty(), "a parameter may begin with a slash");
        assert_eq!(broken(&named("secret:///mq/orders")), ["secret names"]);
    }

    #[test]
    fn a_target_without_what_it_needs_says_so() {
        assert_eq!(broken(&decided(None, "ibmmq://h:1414/Q?channel=A", Some(""))), ["target"]);
        assert_eq!(broken(&decided(None, "rabbitmq://h:1/", Some("rabbitmq://**:*/*"))), ["target"]);
        let none = decide(&known(), ACME, &Named::default(), &Settings::default(), Subject::Queue);
        assert!(none.unwrap_err().what.contains("names no target"));
    }
}
