//! `integrahub apply`: changes the access table to the state that an access file describes.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::change::{Change, apply};
use super::cnpj::{outcome, warn};
use super::establishments::Establishments;
use super::file::AccessFile;
use super::key::{NEW, generate, new_key};
use super::plan::{Owners, Plan, plan};
use super::table::Table;
use super::when::now;
use crate::args::Apply;
use crate::context::Context;
use crate::exit::{Exit, Explain as _, Failure};
use crate::input;
use crate::output::{Format, Output};

const SCHEMA: &str = "integrahub.applied.v1";
/// Name of the JSON schema in which one establishment's change of owner is printed.
const OWNER: &str = "integrahub.owner-change.v1";

/// File that `apply --keys` writes new API keys to. Only its owner can read it.
#[derive(Debug)]
struct KeyFile {
    path: PathBuf,
    file: fs::File,
    /// True while the file holds every API key that the command has created so far.
    complete: bool,
}

impl KeyFile {
    /// Creates the file for new keys, and fails if there is one already.
    fn create(path: &Path) -> Result<Self, Failure> {
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).or_explain(|| format!("create {}", path.display()))?;
        Ok(Self { path: path.to_owned(), file, complete: true })
    }

    fn add(&mut self, key: &Value) -> Result<(), Failure> {
        let written = self.file.write_all(format!("{key}\n").as_bytes());
        let written = written.and_then(|()| self.file.sync_data());
        self.complete &= written.is_ok();
        written.or_explain(|| format!("write {}", self.path.display()))
    }

    /// Closes the key file. Returns whether it holds all of `keys`, which are the keys that the
    /// command created. If there are none, removes the file, so that its name is free again, and
    /// returns false.
    fn finish(self, keys: &[Value]) -> bool {
        if keys.is_empty() {
            // An empty file holds nothing that anybody could miss.
            let _left = fs::remove_file(&self.path);
        }
        self.complete && !keys.is_empty()
    }
}

/// Runs `integrahub apply`.
///
/// # Errors
/// If the file is invalid or contradicts the access table, if the user does not confirm, or if a
/// change fails. The earlier changes stay made, and running the command again makes the remaining
/// ones.
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
    let plan = plan(&file, &known, &owners, args.prune, now())?;
    known.warn(out);
    for warning in &plan.warnings {
        out.note(warning);
    }
    refuse_taken(&plan, establishments.as_ref()).await?;
    if plan.len() == 0 && out.format() == Format::Text {
        out.note("nothing to change");
    }
    if args.dry.dry_run || plan.len() == 0 {
        report(&plan, args.dry.dry_run, &[], out);
        return Ok(Exit::Done);
    }
    for line in plan.lines() {
        out.note(&line);
    }
    out.confirm(&format!("this makes {} changes", plan.len()), "yes")?;
    let file = args.keys.as_deref().filter(|_| !plan.keys.is_empty());
    let mut file = file.map(KeyFile::create).transpose()?;
    let (mut made, mut keys) = (Plan::default(), Vec::new());
    let outcome =
        perform(&table, establishments.as_ref(), &plan, file.as_mut(), &mut made, &mut keys, out).await;
    // A key that was made is shown even if a later change failed: nobody can show it again.
    if let (Some(path), Some(file)) = (&args.keys, file)
        && file.finish(&keys)
    {
        out.note(&format!("the new keys are in {}, which only you can read", path.display()));
        keys.clear();
    }
    report(&made, false, &keys, out);
    outcome
}

/// Asks the function `establishments` which establishments the tenants of the access file own.
/// Tenants whose section has no list of establishments are left out. Without `establishments`, no
/// tenant is returned.
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

/// Refuses the plan if a change of owner in it would fail, for example because a tenant outside of
/// the file owns the establishment. Dry runs find that out before anything is changed. Without
/// `establishments`, nothing is checked.
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

/// Makes the changes of the plan, and writes new API keys to `file` too. Without `establishments`,
/// no owner is changed. `made` receives the changes that were made, `keys` the new keys. Returns
/// the exit code, which says whether changes of owner were refused.
async fn perform(
    table: &Table,
    establishments: Option<&Establishments>,
    plan: &Plan,
    mut file: Option<&mut KeyFile>,
    made: &mut Plan,
    keys: &mut Vec<Value>,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let mut exit = Exit::Done;
    for change in &plan.first {
        apply(table, std::slice::from_ref(change), out).await?;
        made.first.push(change.clone());
    }
    if let Some(establishments) = establishments {
        for (change, cnpjs) in &plan.owners {
            let changed = establishments.change(change, cnpjs, false).await?;
            warn(&changed, out);
            exit = exit.max(outcome(&changed));
            made.owners.insert(change.clone(), changed.changed.into_iter().collect());
        }
    }
    for item in &plan.keys {
        let key = new_key(&generate(table, item, out).await?, item);
        let kept = file.as_mut().map_or(Ok(()), |file| file.add(&key));
        keys.push(key);
        made.keys.push(item.clone());
        kept?;
    }
    for change in &plan.last {
        apply(table, std::slice::from_ref(change), out).await?;
        made.last.push(change.clone());
    }
    Ok(exit)
}

/// Prints the changes of a plan and the API keys that were created. The text format prints changes
/// only in a dry run.
fn report(plan: &Plan, dry_run: bool, keys: &[Value], out: &mut Output) {
    let changes = || -> Vec<Value> { plan.changes().iter().map(Change::document).collect() };
    let owners = || -> Vec<Value> {
        let all = plan.owners.iter();
        all.flat_map(|(change, cnpjs)| cnpjs.iter().map(|cnpj| change.document(cnpj))).collect()
    };
    match out.format() {
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
            let value =
                json!({"dryRun": dry_run, "changes": changes(), "establishments": owners(), "keys": keys});
            out.json(SCHEMA, &value);
        }
        Format::Ndjson => {
            for change in changes() {
                out.json("integrahub.changes.v1", &change);
            }
            for owner in owners() {
                out.json(OWNER, &owner);
            }
            for key in keys {
                out.json(NEW, key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::entry::tests::ACME;
    use super::*;
    use crate::output::memory::output;

    #[test]
    fn programs_get_what_was_made_and_no_more() {
        let change = super::super::establishments::OwnerChange::Assign(ACME.to_owned());
        let owners = BTreeMap::from([(change, BTreeSet::from(["11222333000181".to_owned()]))]);
        let (mut out, data, _) = output(Format::Ndjson, None);
        report(&Plan { owners, ..Plan::default() }, false, &[], &mut out);
        let line: Value = serde_json::from_str(&data.text()).unwrap();
        assert_eq!((&line["schema"], &line["cnpj"]), (&json!(OWNER), &json!("11222333000181")));
        assert_eq!((&line["action"], &line["tenant"]), (&json!("assign"), &json!(ACME)));
        let (mut out, data, _) = output(Format::Json, None);
        report(&Plan::default(), false, &[], &mut out);
        let document: Value = serde_json::from_str(&data.text()).unwrap();
        assert_eq!((&document["changes"], &document["dryRun"]), (&json!([]), &json!(false)));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_of_keys_is_there_before_the_first_key() {
        use std::os::unix::fs::PermissionsExt as _;

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys.ndjson");
        let key = json!({"key": "ihub_x"});
        assert!(!KeyFile::create(&path).unwrap().finish(&[]) && !path.exists(), "an empty file goes");
        let mut file = KeyFile::create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(KeyFile::create(&path).is_err(), "it may hold keys");
        file.add(&key).unwrap();
        assert!(file.finish(std::slice::from_ref(&key)));
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{key}\n"));
        let read_only = fs::File::open(&path).unwrap();
        let mut full = KeyFile { path: path.clone(), file: read_only, complete: true };
        assert!(full.add(&key).is_err());
        assert!(!full.finish(&[key]) && path.exists(), "the keys are printed");
    }

    #[test]
    fn new_keys_are_data_and_the_difference_is_not() {
        let key = json!({"tenant": ACME, "name": "orders", "id": "abcd1234", "key": "ihub_x"});
        let (mut out, data, words) = output(Format::Text, None);
        report(&Plan::default(), false, std::slice::from_ref(&key), &mut out);
        assert_eq!(data.text(), format!("{ACME}  orders  ihub_x\n"));
        assert!(words.text().contains("nobody can show them again"));
        let (mut out, data, _) = output(Format::Json, None);
        report(&Plan::default(), false, &[key], &mut out);
        let document: Value = serde_json::from_str(&data.text()).unwrap();
        assert_eq!((&document["keys"][0]["key"], &document["dryRun"]), (&json!("ihub_x"), &json!(false)));
    }
}
