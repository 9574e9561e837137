//! `integrahub limit`: the rate limits of tenants, on requests, messages and bytes per second.

mod single;

use std::collections::BTreeMap;

use access::{LimitsItem, Rate, RateError, TargetLimits};
use serde_json::{Value, json};

pub(crate) use self::single::{SingleLimit, each, values_as_text};
use super::change::{Change, make};
use super::entry::Entry;
use super::profile;
use super::snapshot::Snapshot;
use super::table::Table;
use crate::api::Api;
use crate::args::{Limit, LimitRemove, LimitSet, TenantFilter};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::member::shown;
use crate::output::{Format, Output};

const LIST: &str = "integrahub.limits.v1";
const ONE: &str = "integrahub.limit.v1";
const MINE: &str = "integrahub.limits-in-force.v1";
/// Path of the API's route that lists the rate limits of the caller.
const ROUTE: &str = "/limits";
/// Word on the command line that removes a limit, in place of a rate.
const NONE: &str = "none";

/// Runs `integrahub limit`.
///
/// # Errors
/// If a limit is invalid or does not exist, or the table or the API cannot be accessed.
pub(crate) async fn run(args: &Limit, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    if matches!(args, Limit::Show { mine: true, .. }) {
        return mine(context, out).await;
    }
    // What contradicts itself is refused before anything is called.
    if let Limit::Set(args) = args {
        set(LimitsItem::default(), args)?;
    }
    let table = Table::of(context).await?;
    let known = table.read().await?;
    match args {
        Limit::Set(args) => {
            let tenant = known.tenant(&args.of.tenant)?;
            known.check_readable(&access::pk::limits(&tenant))?;
            let item = set(known.limits(&tenant), args)?;
            check(&item)?;
            let has_profile = |name: &str| known.get(&access::pk::profile(&tenant, name)).is_some();
            for warning in warnings(&tenant, &item, has_profile) {
                out.note(&warning);
            }
            make(&table, change(&known, &tenant, item), args.dry, out).await
        }
        Limit::List(TenantFilter { tenant }) => list(&known, tenant.as_deref(), out).map(|()| Exit::Done),
        Limit::Show { tenant, .. } => {
            show(&known, &known.tenant(tenant.as_deref().unwrap_or_default())?, out);
            Ok(Exit::Done)
        }
        Limit::Remove(args) => {
            let tenant = known.tenant(&args.of.tenant)?;
            known.check_readable(&access::pk::limits(&tenant))?;
            let item = without_removed(known.limits(&tenant), &tenant, args)?;
            if args.all {
                let question = format!("this removes every limit of {tenant}");
                args.dry.confirm(&question, &args.of.tenant, out)?;
            }
            make(&table, change(&known, &tenant, item), args.dry, out).await
        }
    }
}

/// Parses a rate limit such as `100/200` (per second, and burst); `None` for the word `none`, which
/// removes the limit. `unit` is only for the error message.
fn rate(unit: &str, text: &str) -> Result<Option<Rate>, Failure> {
    if text == NONE {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|error: RateError| {
        Failure::usage(format!("`{text}` is no limit of {unit}"))
            .why(error.to_string())
            .next("write a rate a second and a burst, such as 100/200, or `none` for no limit")
    })
}

/// Returns a tenant's limits as `limit set` changes them. Units (requests, messages, bytes) that
/// the command does not name keep their limits.
///
/// # Errors
/// If the command names no limit, or an invalid one.
fn set(mut item: LimitsItem, args: &LimitSet) -> Result<LimitsItem, Failure> {
    let LimitSet { of, requests, messages, bytes, .. } = args;
    if let Some(target) = &of.target {
        profile::check_name(target)?;
    }
    if requests.is_none() && messages.is_none() && bytes.is_none() {
        return Err(Failure::usage("the command names no limit")
            .next("add --requests 100/200, or with a target also --messages or --bytes"));
    }
    let limit = |unit: &str, text: &Option<String>, before: Option<Rate>| match text {
        Some(text) => rate(unit, text),
        None => Ok(before),
    };
    let (targets, name) = match (&of.target, &of.queue_manager) {
        (Some(name), _) => (&mut item.targets, name),
        (None, Some(name)) => (&mut item.queue_managers, name),
        (None, None) if messages.is_some() || bytes.is_some() => {
            return Err(Failure::usage("a tenant as a whole has a limit of requests alone")
                .next("name what the other limits are about: --target PROFILE or --queue-manager NAME"));
        }
        (None, None) => {
            item.requests = limit("requests", requests, item.requests)?;
            return Ok(item);
        }
    };
    let before = targets.remove(name).unwrap_or_default();
    let limits = TargetLimits {
        requests: limit("requests", requests, before.requests)?,
        messages: limit("messages", messages, before.messages)?,
        bytes: limit("bytes", bytes, before.bytes)?,
    };
    if !limits.is_empty() {
        targets.insert(name.clone(), limits);
    }
    Ok(item)
}

/// Returns a tenant's limits without those that `limit remove` names.
///
/// # Errors
/// If the tenant has none of the limits to remove.
fn without_removed(mut item: LimitsItem, tenant: &str, args: &LimitRemove) -> Result<LimitsItem, Failure> {
    let missing = |what: &str| {
        Failure::refused(format!("the tenant {tenant} has no limit {what}"))
            .next(format!("see them: integrahub limit list --tenant {tenant}"))
    };
    let (is_there, what) = match (&args.of.target, &args.of.queue_manager) {
        (Some(name), _) => (item.targets.remove(name).is_some(), format!("of the target `{name}`")),
        (None, Some(name)) => {
            (item.queue_managers.remove(name).is_some(), format!("of the queue manager `{name}`"))
        }
        (None, None) if args.all => (item != LimitsItem::default(), "at all".to_owned()),
        (None, None) => (item.requests.take().is_some(), "of its own".to_owned()),
    };
    match (is_there, args.all) {
        (false, _) => Err(missing(&what)),
        (true, true) => Ok(LimitsItem::default()),
        (true, false) => Ok(item),
    }
}

/// Checks a tenant's limits by the validation of the access table's items.
///
/// # Errors
/// If the limits are invalid, for example because they name too many targets.
pub(crate) fn check(item: &LimitsItem) -> Result<(), Failure> {
    item.check().map_err(|error| Failure::refused("the limits cannot be used").why(error.to_string()))
}

/// Returns the change that gives a tenant the limits of `item`; `None` if the tenant has these
/// limits already. If `item` has no limit, the change removes the tenant's item.
fn change(known: &Snapshot, tenant: &str, item: LimitsItem) -> Option<Change> {
    let is_empty = item == LimitsItem::default();
    let entry = Entry::Limits(tenant.to_owned(), item);
    if is_empty { known.get(&entry.pk()).cloned().map(Change::Remove) } else { known.put(entry) }
}

/// Returns the limits of `new`, completed by those of `before` that `new` does not set.
pub(crate) fn merged(before: LimitsItem, new: LimitsItem) -> LimitsItem {
    let targets = |mut all: BTreeMap<String, TargetLimits>, new: BTreeMap<String, TargetLimits>| {
        for (name, new) in new {
            let before = all.remove(&name).unwrap_or_default();
            let limits = TargetLimits {
                requests: new.requests.or(before.requests),
                messages: new.messages.or(before.messages),
                bytes: new.bytes.or(before.bytes),
            };
            all.insert(name, limits);
        }
        all.retain(|_, limits| !limits.is_empty());
        all
    };
    LimitsItem {
        requests: new.requests.or(before.requests),
        targets: targets(before.targets, new.targets),
        queue_managers: targets(before.queue_managers, new.queue_managers),
    }
}

/// Returns warnings about limits without effect: for a target without a profile, or above the
/// tenant's own limit. `has_profile` returns whether the tenant will have a profile of this name
/// when the limits are in force.
pub(crate) fn warnings(tenant: &str, item: &LimitsItem, has_profile: impl Fn(&str) -> bool) -> Vec<String> {
    let without = item.targets.keys().filter(|name| !has_profile(name)).map(|name| {
        format!("warning: the tenant {tenant} has no profile `{name}`, so the limits of that target hold for nothing")
    });
    let own = item.requests;
    let is_above = |one: &SingleLimit<'_>| {
        one.unit == "requests" && own.is_some_and(|own| one.rate.per_second > own.per_second)
    };
    let above = each(item).into_iter().filter(|one| !one.name.is_empty() && is_above(one)).map(|one| {
        format!(
            "warning: the limit of requests of the {} is above the tenant's own, which refuses before",
            one.place()
        )
    });
    without.chain(above).collect()
}

fn list(known: &Snapshot, tenant: Option<&str>, out: &mut Output) -> Result<(), Failure> {
    let (mut items, mut rows) = (Vec::new(), Vec::new());
    for entry in known.entries(tenant)? {
        let Entry::Limits(of, limits) = entry else { continue };
        for one in each(limits) {
            let Rate { per_second, burst } = one.rate;
            let place = Some(one.place()).filter(|place| !place.is_empty());
            rows.push(vec![
                of.clone(),
                place.unwrap_or_else(|| "tenant".to_owned()),
                one.unit.to_owned(),
                per_second.to_string(),
                burst.to_string(),
            ]);
            items.push(json!({"tenant": of, "about": one.about, "name": one.name, "unit": one.unit,
                "perSecond": per_second, "burst": burst}));
        }
    }
    out.list(LIST, "limits", items, &["tenant", "about", "unit", "per second", "burst"], rows);
    known.warn(out);
    Ok(())
}

fn show(known: &Snapshot, tenant: &str, out: &mut Output) {
    let item = known.limits(tenant);
    if item == LimitsItem::default() && out.format() == Format::Text {
        out.note(&format!("the tenant {tenant} has no limits of its own; those of the deployment hold"));
    }
    let entry = Entry::Limits(tenant.to_owned(), item);
    if out.format() != Format::Text {
        return out.json(ONE, &entry.document());
    }
    let rows = entry.values_as_text().into_iter().map(|(title, text)| vec![title, text]).collect();
    out.table(&["limit", "rate/burst"], rows);
}

/// Prints the rate limits that apply to the API key, and how much of each is left.
async fn mine(context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    let limits = in_force(&Api::of(context)?).await?;
    if limits.is_empty() && out.format() == Format::Text {
        out.note("no limit holds for the API key");
    }
    let rows = limits.iter().map(|one| cells(one).into()).collect();
    out.list(MINE, "limits", limits, &["limit", "unit", "per second", "burst", "left"], rows);
    Ok(Exit::Done)
}

/// Returns a limit of the API's response as table cells: name, unit, rate, burst, and what is
/// left.
pub(crate) fn cells(limit: &Value) -> [String; 5] {
    let rate = limit.get("perSecond").and_then(Value::as_f64).unwrap_or_default();
    let [name, unit, burst, left] = ["name", "unit", "burst", "remaining"].map(|member| shown(limit, member));
    [name, unit, rate.to_string(), burst, left]
}

/// Requests from the API the limits that apply to the context's key.
///
/// # Errors
/// If the API does not answer, or does not know the key or the route.
pub(crate) async fn in_force(api: &Api) -> Result<Vec<Value>, Failure> {
    let mut answer = api.get(ROUTE).await?;
    let limits = answer.get_mut("limits").and_then(Value::as_array_mut).map(std::mem::take);
    Ok(limits.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use access::TenantItem;
    use clap::Parser as _;

    use super::super::entry::tests::{ACME, limits as stored, profile as orders};
    use super::super::snapshot::tests::snapshot;
    use super::*;
    use crate::args::{Cli, Command};

    fn known() -> Snapshot {
        snapshot(&[
            Entry::Tenant(ACME.to_owned(), TenantItem { name: "Acme".to_owned(), enabled: true }),
            Entry::Profile(ACME.to_owned(), "orders".to_owned(), orders()),
            Entry::Limits(ACME.to_owned(), stored()),
        ])
    }

    fn parsed(options: &str) -> Limit {
        let start = ["integrahub", "limit"];
        match Cli::try_parse_from(start.into_iter().chain(options.split(' '))).unwrap().command {
            Command::Limit(args) => args,
            other => panic!("{other:?}"),
        }
    }

    fn after(options: &str) -> Result<LimitsItem, Failure> {
        match parsed(options) {
            Limit::Set(args) => set(stored(), &args),
            Limit::Remove(args) => without_removed(stored(), ACME, &args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_set_changes_what_it_names_and_no_more() {
        let own = values_as_text(&after("set --tenant acme --requests 5/10").unwrap());
        assert_eq!((own["requests"].as_str(), own.len()), ("5/10", 3));
        let target = values_as_text(&after("set --tenant acme --target orders --bytes 1048576").unwrap());
        assert_eq!(target["target `orders` bytes"], "1048576/1048576");
        assert_eq!(target["target `orders` messages"], "500/1000");
        let none = after("set --tenant acme --queue-manager QM1 --bytes none").unwrap();
        assert!(none.queue_managers.is_empty(), "{none:?}");
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for (options, says) in [
            ("set --tenant acme", "names no limit"),
            ("set --tenant acme --messages 5", "requests alone"),
            ("set --tenant acme --requests 5/0", "`5/0` is no limit"),
            ("set --tenant acme --requests 0/5", "`0/5` is no limit"),
            ("set --tenant acme --requests=-1", "`-1` is no limit"),
            ("set --tenant acme --requests NaN", "`NaN` is no limit"),
            ("set --tenant acme --requests 5/1.5", "`5/1.5` is no limit"),
            ("set --tenant acme --target a#b --requests 5", "cannot be the name of a profile"),
            ("remove --tenant acme --target stock", "no limit of the target `stock`"),
        ] {
            let refused = after(options).unwrap_err().what;
            assert!(refused.contains(says), "{options}: {refused}");
        }
    }

    #[test]
    fn a_removal_leaves_the_other_limits() {
        assert_eq!(values_as_text(&after("remove --tenant acme").unwrap()).len(), 2);
        assert_eq!(values_as_text(&after("remove --tenant acme --target orders").unwrap()).len(), 2);
        let nothing = after("remove --tenant acme --all").unwrap();
        assert!(matches!(change(&known(), ACME, nothing.clone()), Some(Change::Remove(_))));
        assert_eq!(change(&snapshot(&[]), ACME, nothing), None);
        assert_eq!(change(&known(), ACME, stored()), None);
    }

    #[test]
    fn a_limit_that_holds_for_nothing_is_a_warning() {
        let item = after("set --tenant acme --target stock --requests 500").unwrap();
        let warned = warnings(ACME, &item, |name| name == "orders");
        assert_eq!(warned.len(), 2, "{warned:?}");
        assert!(warned[0].contains("no profile `stock`") && warned[1].contains("above the tenant's own"));
        assert_eq!(warnings(ACME, &item, |_| true).len(), 1);
        assert!(warnings(ACME, &stored(), |name| name == "orders").is_empty());
    }
}
