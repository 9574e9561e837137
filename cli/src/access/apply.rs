//! `integrahub apply`.

use std::path::Path;

use access::{ApiKey, KeyItem};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::change::{Change, apply};
use super::cnpj::{outcome, warn};
use super::entry::Entry;
use super::establishments::Establishments;
use super::file::AccessFile;
use super::key::{NEW, new_key};
use super::plan::{Owners, Plan, plan};
use super::table::Table;
use crate::args::Apply;
use crate::context::{Context, write_private};
use crate::exit::{Exit, Explain as _, Failure};
use crate::input;
use crate::output::{Format, Output};

const SCHEMA: &str = "integrahub.applied.v1";

/// Runs the command.
///
/// # Errors
/// A file that cannot be used or contradicts what is there, no confirmation, or a change that
/// cannot be made. Changes before it are made, and running the command again makes the rest.
pub(crate) async fn run(args: &Apply, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    if let Some(path) = &args.keys
        && path.exists()
    {
        return Err(Failure::usage(format!("{} is there already", path.display()))
            .why("it may hold keys that nobody can show again")
            .next("name another file with --keys"));
    }
    let file: AccessFile = input::document(&args.file).await?;
    let table = Table::of(context).await?;
    let known = table.read().await?;
    let establishments = match file.tenants.values().any(|section| section.establishments.is_some()) {
        true => Some(Establishments::of(context).await?),
        false => None,
    };
    let owners = owners(&file, establishments.as_ref()).await?;
    let plan = plan(&file, &known, &owners, args.prune, Timestamp::now())?;
    known.warn(out);
    refuse_taken(&plan, establishments.as_ref()).await?;
    if args.dry.dry_run || plan.len() == 0 {
        report(&plan, true, &[], out);
        return Ok(Exit::Done);
    }
    for line in plan.lines() {
        out.note(&line);
    }
    out.confirm(&format!("this makes {} changes", plan.len()), "yes")?;
    let mut keys = Vec::new();
    let made = perform(&table, establishments.as_ref(), &plan, args.keys.as_deref(), &mut keys, out).await;
    // A key that was made is shown even if a later change failed: nobody can show it again.
    match &args.keys {
        Some(path) if !keys.is_empty() => {
            out.note(&format!("the new keys are in {}, which only you can read", path.display()));
            report(&plan, false, &[], out);
        }
        _ => report(&plan, false, &keys, out),
    }
    made
}

/// Reads what the tenants of the file own.
async fn owners(file: &AccessFile, establishments: Option<&Establishments>) -> Result<Owners, Failure> {
    let mut owners = Owners::new();
    for (id, section) in &file.tenants {
        // Another id owns nothing, and the plan refuses it.
        if let (Some(_), Some(client), true) =
            (&section.establishments, establishments, id.parse::<uuid::Uuid>().is_ok())
        {
            let owned = client.list(Some(id), None).await?;
            owners.insert(id.clone(), owned.into_iter().map(|owned| owned.cnpj).collect());
        }
    }
    Ok(owners)
}

/// Asks, before anything is changed, whether another tenant owns an establishment of the plan.
async fn refuse_taken(plan: &Plan, establishments: Option<&Establishments>) -> Result<(), Failure> {
    let Some(establishments) = establishments else { return Ok(()) };
    for (change, cnpjs) in &plan.owners {
        let would = establishments.change(change, cnpjs, true).await?;
        if let Some(first) = would.refused.first() {
            let count = would.refused.len();
            return Err(Failure::refused(format!(
                "{count} establishments cannot be changed; nothing was changed"
            ))
            .why(format!("{}: {}", first.cnpj, first.text()))
            .next("have the other tenant in the file too, or: integrahub cnpj move --help"));
        }
    }
    Ok(())
}

async fn perform(
    table: &Table,
    establishments: Option<&Establishments>,
    plan: &Plan,
    file: Option<&Path>,
    keys: &mut Vec<Value>,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let mut exit = Exit::Done;
    apply(table, &plan.first, out).await?;
    if let Some(establishments) = establishments {
        for (change, cnpjs) in &plan.owners {
            let changed = establishments.change(change, cnpjs, false).await?;
            warn(&changed, out);
            exit = exit.max(outcome(&changed));
        }
    }
    for item in &plan.keys {
        keys.push(create(table, item, out).await?);
        if let Some(path) = file {
            let lines: Vec<String> = keys.iter().map(|key| format!("{key}\n")).collect();
            write_private(path, lines.concat().as_bytes())?;
        }
    }
    apply(table, &plan.last, out).await?;
    Ok(exit)
}

async fn create(table: &Table, item: &KeyItem, out: &mut Output) -> Result<Value, Failure> {
    let key = ApiKey::generate().or_explain(|| "generate a key".to_owned())?;
    apply(table, &[Change::Create(Entry::Key(key.hash(), item.clone()))], out).await?;
    Ok(new_key(&key, item))
}

/// Shows the difference, or the new keys once it is made.
fn report(plan: &Plan, dry_run: bool, keys: &[Value], out: &mut Output) {
    let changes = || -> Vec<Value> { plan.changes().iter().map(Change::document).collect() };
    match out.format() {
        Format::Text if plan.len() == 0 => out.note("nothing to change"),
        Format::Text if dry_run => plan.lines().iter().for_each(|line| out.line(line)),
        Format::Text => {
            let text = |key: &Value, name: &str| {
                key.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            let row = |key: &Value| ["tenant", "name", "key"].map(|name| text(key, name)).to_vec();
            if !keys.is_empty() {
                out.table(&["tenant", "name", "key"], keys.iter().map(row).collect());
                out.note("keep the keys: nobody can show them again");
            }
        }
        Format::Json => {
            let owners: Vec<String> = plan
                .owners
                .iter()
                .flat_map(|(change, cnpjs)| cnpjs.iter().map(|cnpj| change.line(cnpj)))
                .collect();
            let value =
                json!({"dryRun": dry_run, "changes": changes(), "establishments": owners, "keys": keys});
            out.json(SCHEMA, &value);
        }
        Format::Ndjson => {
            for change in changes() {
                out.json("integrahub.changes.v1", &change);
            }
            for key in keys {
                out.json(NEW, key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use access::Establishments as Which;

    use super::super::entry::tests::{ACME, key};
    use super::*;
    use crate::output::memory::output;

    fn planned() -> Plan {
        let item = KeyItem { establishments: Which::All, ..key("orders", &["products:read"]) };
        Plan { keys: vec![item], ..Plan::default() }
    }

    #[test]
    fn a_dry_run_shows_the_difference_and_no_key() {
        let (mut out, data, _) = output(Format::Text, None);
        report(&planned(), true, &[], &mut out);
        assert!(data.text().starts_with(&format!("+ key `orders` of {ACME}\n")), "{}", data.text());
        assert!(!data.text().contains("ihub_"));
    }

    #[test]
    fn new_keys_are_data_and_the_difference_is_not() {
        let key = json!({"tenant": ACME, "name": "orders", "id": "abcd1234", "key": "ihub_x"});
        let (mut out, data, words) = output(Format::Text, None);
        report(&planned(), false, std::slice::from_ref(&key), &mut out);
        assert_eq!(data.text(), format!("{ACME}  orders  ihub_x\n"));
        assert!(words.text().contains("nobody can show them again"));
        let (mut out, data, _) = output(Format::Json, None);
        report(&planned(), false, &[key], &mut out);
        let document: Value = serde_json::from_str(&data.text()).unwrap();
        assert_eq!((&document["keys"][0]["key"], &document["dryRun"]), (&json!("ihub_x"), &json!(false)));
    }
}
