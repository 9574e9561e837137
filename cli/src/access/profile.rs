//! `integrahub profile`: creates, lists, shows and removes target profiles.

use mq::{InlineTargets, Profile as Parsed, ProfileName as Name, Target, TargetError};
use serde_json::{Map, Value, json};

use super::change::{Change, StoredEntry, make};
use super::entry::Entry;
use super::snapshot::Snapshot;
use super::table::Table;
use crate::args::{Edit, Profile, ProfileCreate, ProfileName, TenantFilter};
use crate::context::Context;
use crate::exit::{Exit, Explain as _, Failure};
use crate::input;
use crate::member::plain;
use crate::output::{Format, Output};

const LIST: &str = "integrahub.profiles.v1";
const ONE: &str = "integrahub.profile.v1";

/// Runs `integrahub profile`.
///
/// # Errors
/// If the profile is one that no request could use, if it exists already or does not exist, or if
/// the table cannot be accessed.
pub(crate) async fn run(args: &Profile, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    // A file is checked before anything is called.
    let given = match args {
        Profile::Create(args) => Some(given(args).await?),
        _ => None,
    };
    let table = Table::of(context).await?;
    let known = table.read().await?;
    match args {
        Profile::Create(args) => {
            make(&table, change(&known, args, given.unwrap_or_default())?, args.dry, out).await
        }
        Profile::List(TenantFilter { tenant }) => list(&known, tenant.as_deref(), out).map(|()| Exit::Done),
        Profile::Show(profile) => {
            let held = held(&known, profile)?;
            match (&held.entry, out.format()) {
                (Entry::Profile(.., value), Format::Text) => out.line(yaml(value)?.trim_end()),
                (entry, _) => out.json(ONE, &entry.document()),
            }
            Ok(Exit::Done)
        }
        Profile::Remove(Edit { of: profile, dry }) => {
            let held = held(&known, profile)?;
            dry.confirm(&format!("this removes the {}", held.entry.title()), &profile.name, out)?;
            make(&table, [Change::Remove(held.clone())], *dry, out).await
        }
    }
}

fn held<'a>(
    known: &'a Snapshot,
    ProfileName { name, tenant }: &ProfileName,
) -> Result<&'a StoredEntry, Failure> {
    let tenant = known.tenant(tenant)?;
    known.get(&access::pk::profile(&tenant, name)).ok_or_else(|| {
        Failure::refused(format!("there is no profile `{name}` of {tenant}"))
            .next(format!("see those that there are: integrahub profile list --tenant {tenant}"))
    })
}

fn change(known: &Snapshot, args: &ProfileCreate, value: Value) -> Result<Option<Change>, Failure> {
    let name = &args.profile.name;
    check_name(name)?;
    known.create(Entry::Profile(known.tenant(&args.profile.tenant)?, name.clone(), value), args.replace)
}

/// Checks the name of a target profile, which requests give in `targetRef`.
///
/// # Errors
/// If the name has a `#`, or is one that the gateway would refuse in a request.
pub(crate) fn check_name(name: &str) -> Result<(), Failure> {
    let wrong = |why: String| Failure::usage(format!("`{name}` cannot be the name of a profile")).why(why);
    Name::try_from(name.to_owned()).map_err(|error| wrong(format!("the name {error}")))?;
    if name.contains('#') {
        return Err(wrong("the name has a `#`".to_owned()));
    }
    Ok(())
}

/// Builds a target profile from the file or the options of `profile create`, and checks that
/// requests can use it.
async fn given(args: &ProfileCreate) -> Result<Value, Failure> {
    let value = match &args.file {
        Some(path) => without_nulls(input::document(path).await?),
        None => of_options(args),
    };
    check(&value)?;
    Ok(value)
}

/// Removes members of JSON objects that are null, so that null means the same as an absent member.
pub(crate) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(members.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        other => other,
    }
}

fn of_options(args: &ProfileCreate) -> Value {
    let mut target = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            target.insert(name.to_owned(), value);
        }
    };
    let text = |value: &Option<String>| value.as_ref().map(|text| json!(text));
    put("broker", text(&args.broker));
    put("connName", text(&args.conn_name));
    put("queueManager", text(&args.queue_manager));
    put("channel", text(&args.channel));
    put("queue", text(&args.queue));
    put("ssl", args.tls.then(|| json!({"enabled": true})));
    let auth = [("user", &args.user), ("passwordRef", &args.password_ref)];
    let auth: Map<String, Value> =
        auth.into_iter().filter_map(|(name, value)| Some((name.to_owned(), text(value)?))).collect();
    put("auth", (!auth.is_empty()).then_some(Value::Object(auth)));
    let mut profile = Map::from_iter([("target".to_owned(), Value::Object(target))]);
    for (name, patterns) in
        [("queues", &args.queues), ("exchanges", &args.exchanges), ("routingKeys", &args.routing_keys)]
    {
        if !patterns.is_empty() {
            profile.insert(name.to_owned(), json!(patterns));
        }
    }
    if args.no_overrides {
        profile.insert("overrides".to_owned(), json!(false));
    }
    Value::Object(profile)
}

/// Parses a profile into the gateway's own type.
///
/// # Errors
/// If a member is unknown, missing or wrong.
pub(crate) fn parse(value: &Value) -> Result<Parsed, Failure> {
    attempt::malformed::from_value(value.clone())
        .map_err(|error| Failure::usage("the profile cannot be used").why(error.to_string()))
}

/// Checks that requests can use a profile, by the code of the gateway.
///
/// # Errors
/// If the gateway would refuse every request that names it.
pub(crate) fn check(value: &Value) -> Result<(), Failure> {
    let profile = parse(value)?;
    let refused = |why: String| Failure::usage("the profile cannot be used").why(why);
    let patterns = [
        ("queues", &profile.queues),
        ("exchanges", &profile.exchanges),
        ("routingKeys", &profile.routing_keys),
    ];
    for (member, patterns) in patterns {
        if patterns.iter().any(|pattern| pattern.trim().is_empty()) {
            return Err(refused(format!("/{member}: a pattern is empty, and would match nothing")));
        }
    }
    let has_place = profile.target.queue.is_some() || profile.target.exchange.is_some();
    if !has_place && profile.queues.is_empty() && profile.exchanges.is_empty() {
        return Err(refused(
            "it has no queue, no exchange and no pattern of either, so no request can use it".to_owned(),
        )
        .next("add --queue NAME, or patterns: --queues 'ORDERS.*'"));
    }
    let allowed = InlineTargets::default();
    Target::resolve(Some(&profile), None, allowed.of("")).map_err(|error| refused(faulty(&error)))?;
    Ok(())
}

/// Returns the reason why a target is invalid, with the path of the faulty member if there is one.
pub(crate) fn faulty(error: &TargetError) -> String {
    match error {
        TargetError::Invalid { pointer, detail } => format!("{pointer}: {detail}"),
        other => other.to_string(),
    }
}

/// Writes a document as YAML.
///
/// # Errors
/// If the document cannot be written.
pub(crate) fn yaml(value: &Value) -> Result<String, Failure> {
    serde_norway::to_string(value).or_explain(|| "write YAML".to_owned())
}

fn list(known: &Snapshot, tenant: Option<&str>, out: &mut Output) -> Result<(), Failure> {
    let (mut items, mut rows) = (Vec::new(), Vec::new());
    for entry in known.entries(tenant)? {
        let Entry::Profile(of, name, profile) = entry else { continue };
        let member = |name: &str| profile.pointer(&format!("/target/{name}")).map(plain).unwrap_or_default();
        let broker = Some(member("broker")).filter(|broker| !broker.is_empty());
        rows.push(vec![
            of.clone(),
            name.clone(),
            broker.unwrap_or_else(|| "ibmmq".to_owned()),
            member("connName"),
            member("queueManager"),
            member("queue"),
        ]);
        items.push(entry.document());
    }
    out.list(
        LIST,
        "profiles",
        items,
        &["tenant", "name", "broker", "address", "queue manager", "queue"],
        rows,
    );
    known.warn(out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use access::TenantItem;
    use clap::Parser as _;

    use super::super::entry::tests::{ACME, profile};
    use super::super::snapshot::tests::snapshot;
    use super::*;
    use crate::args::{Cli, Command};

    fn create(options: &[&str]) -> Box<ProfileCreate> {
        let start = ["integrahub", "profile", "create", "orders", "--tenant", "Acme"];
        let cli = Cli::try_parse_from(start.iter().chain(options)).unwrap();
        match cli.command {
            Command::Profile(Profile::Create(args)) => args,
            other => panic!("{other:?}"),
        }
    }

    fn acme() -> Entry {
        Entry::Tenant(ACME.to_owned(), TenantItem { name: "Acme".to_owned(), enabled: true })
    }

    #[tokio::test]
    async fn options_make_the_profile_that_a_file_would() {
        let options =
            "--broker rabbitmq --conn-name mq.example.com:5671 --tls --queue ORDERS.IN --queues ORDERS.*";
        let args = create(&options.split(' ').collect::<Vec<_>>());
        assert_eq!(given(&args).await.unwrap(), profile());
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), yaml(&profile()).unwrap()).unwrap();
        let args = create(&["--file", file.path().to_str().unwrap()]);
        assert_eq!(given(&args).await.unwrap(), profile());
    }

    #[test]
    fn a_profile_that_no_request_could_use_is_refused() {
        let with = |pointer: &str, value: Value| {
            let mut profile = profile();
            let (parent, member) = pointer.rsplit_once('/').unwrap();
            profile.pointer_mut(parent).unwrap()[member] = value;
            check(&profile).map_err(|failure| failure.why.unwrap_or_default())
        };
        assert!(with("/target/connName", Value::Null).unwrap_err().contains("/target/connName: is required"));
        assert!(with("/queues", json!([""])).unwrap_err().contains("a pattern is empty"));
    }

    #[test]
    fn a_profile_is_replaced_only_if_that_was_asked_for() {
        let stored = Entry::Profile(ACME.to_owned(), "orders".to_owned(), profile());
        let known = snapshot(&[acme(), stored]);
        let mut other = profile();
        other["queues"] = json!(["*"]);
        let options = ["--broker", "rabbitmq", "--conn-name", "mq.example.com:5671", "--queue", "A"];
        let mut args = create(&options);
        assert!(change(&known, &args, other.clone()).unwrap_err().next.unwrap().contains("--replace"));
        args.replace = true;
        assert!(matches!(change(&known, &args, other), Ok(Some(Change::Update(..)))));
        assert_eq!(change(&known, &args, profile()), Ok(None));
        args.profile.name = "stock".to_owned();
        assert!(matches!(change(&known, &args, profile()), Ok(Some(Change::Create(_)))));
        args.profile.name = "a#b".to_owned();
        assert!(change(&known, &args, profile()).is_err());
    }
}
