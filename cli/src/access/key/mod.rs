//! `integrahub key`: creates, shows, changes, rotates and removes API keys.

use std::collections::BTreeSet;

use access::{ApiKey, Establishments, KeyHash, KeyItem, Scope};
use ingestion::Cnpj;
use jiff::Timestamp;
use jiff::civil::Date;
use serde_json::{Value, json};
use uuid::Uuid;

use super::change::{Change, StoredEntry, apply, make, show as show_changes};
use super::entry::Entry;
use super::snapshot::{Snapshot, works};
use super::table::Table;
use super::when;
use crate::args::{self, DryRun, Edit, Key, KeyChange, KeyCreate, KeyName, TenantFilter};
use crate::context::Context;
use crate::exit::{Exit, Explain as _, Failure};
use crate::output::{Format, Output};

const LIST: &str = "integrahub.keys.v1";
const ONE: &str = "integrahub.key.v1";
/// Name of the JSON schema of a new key. No other document contains an API key itself.
pub(crate) const NEW: &str = "integrahub.new-key.v1";

/// Prefix of the names under which logs and audit events list callers that have an access token
/// (JWT) in place of an API key. No name of an API key may begin with it.
const TOKEN: &str = "token:";
/// Prefix of the scopes for products: `products:read` and `products:write`.
const PRODUCTS: &str = "products:";

/// Runs `integrahub key`.
///
/// # Errors
/// If the key does not exist, its name or rights are invalid, or the table cannot be accessed.
pub(crate) async fn run(args: &Key, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    let table = Table::of(context).await?;
    let known = table.read().await?;
    let now = when::now();
    match args {
        Key::Create(args) => {
            let item = new_item(&known, args, now)?;
            create(&table, item, args.dry, out).await
        }
        Key::List(TenantFilter { tenant }) => list(&known, tenant.as_deref(), now, out).map(|()| Exit::Done),
        Key::Show(name) => {
            let (held, hash, key) = known.key(name)?;
            show(&known, held, hash, key, now, out);
            Ok(Exit::Done)
        }
        Key::Change(args) => {
            let (held, hash, key) = known.key(&args.key)?;
            if let Some(name) = args.name.as_ref().filter(|name| **name != key.name) {
                check_free(&known, &key.tenant_id, name)?;
            }
            let entry = Entry::Key(hash, changed(key, args, now)?);
            make(&table, Change::of(held, entry), args.dry, out).await
        }
        Key::Rotate { key, keep, dry } => {
            let (held, hash, item) = known.newest_key(key, now)?;
            let end = when::after(keep, now)?;
            let (successor, old) = rotated(item, end, now)?;
            let until = old.expires_at.unwrap_or(end);
            if dry.dry_run {
                let changes =
                    [Change::of(held, Entry::Key(hash, old)), Some(Change::Create(placeholder(successor)))];
                show_changes(&Vec::from_iter(changes.into_iter().flatten()), true, out);
                return Ok(Exit::Done);
            }
            // Should the second write fail, the caller has two keys that work, and knows both.
            create(&table, successor, *dry, out).await?;
            out.flush();
            apply(&table, &Vec::from_iter(Change::of(held, Entry::Key(hash, old))), out).await?;
            out.note(&format!("the old key {} works until {until:.0}", hash.id()));
            Ok(Exit::Done)
        }
        Key::Disable(args) => set_disabled(&table, &known, args, true, out).await,
        Key::Enable(args) => set_disabled(&table, &known, args, false, out).await,
        Key::Remove(Edit { of: key, dry }) => {
            let (held, hash, item) = known.key(key)?;
            let question =
                format!("this removes the key `{}` ({}) of {}", item.name, hash.id(), item.tenant_id);
            dry.confirm(&question, &item.name, out)?;
            make(&table, [Change::Remove(held.clone())], *dry, out).await
        }
    }
}

/// Generates an API key, stores its item in the access table, and prints the key. A dry run only
/// prints the change.
async fn create(table: &Table, item: KeyItem, dry: DryRun, out: &mut Output) -> Result<Exit, Failure> {
    if dry.dry_run {
        show_changes(&[Change::Create(placeholder(item))], true, out);
        return Ok(Exit::Done);
    }
    let key = generate(table, &item, out).await?;
    reveal(&key, &item, out);
    out.note("keep the key: nobody can show it again. It works within a minute");
    Ok(Exit::Done)
}

/// Generates an API key, stores its item in the access table, and returns the key.
///
/// # Errors
/// If the item cannot be stored.
pub(crate) async fn generate(table: &Table, item: &KeyItem, out: &mut Output) -> Result<ApiKey, Failure> {
    let key = ApiKey::generate().or_explain(|| "generate a key".to_owned())?;
    apply(table, &[Change::Create(Entry::Key(key.hash(), item.clone()))], out).await?;
    Ok(key)
}

/// Prints a new API key. This is the only chance to read it, because only its hash is stored.
fn reveal(key: &ApiKey, item: &KeyItem, out: &mut Output) {
    match out.format() {
        Format::Text => out.line(key.expose()),
        Format::Json | Format::Ndjson => out.json(NEW, &new_key(key, item)),
    }
}

/// Returns the JSON of a new API key, the only document that contains the key itself.
pub(crate) fn new_key(key: &ApiKey, item: &KeyItem) -> Value {
    json!({"tenant": item.tenant_id, "name": item.name, "id": key.hash().id(), "key": key.expose()})
}

/// Returns an entry for an API key that is not generated yet, to show it. In place of the unknown
/// hash, it has that of an empty text.
pub(crate) fn placeholder(item: KeyItem) -> Entry {
    Entry::Key(ApiKey::from("").hash(), item)
}

fn new_item(known: &Snapshot, args: &KeyCreate, now: Timestamp) -> Result<KeyItem, Failure> {
    let tenant_id = known.tenant(&args.tenant)?;
    check_name(&args.name)?;
    check_free(known, &tenant_id, &args.name)?;
    let scopes = scopes(&args.scopes)?;
    let establishments = establishments(&args.establishments)?;
    let establishments = rights(&tenant_id, &scopes, establishments)?;
    let expires_at = args.expires.as_deref().map(|text| when::expiry(text, now)).transpose()?.flatten();
    Ok(KeyItem {
        tenant_id,
        name: args.name.clone(),
        scopes,
        establishments,
        created_at: Some(now),
        expires_at,
        disabled: false,
    })
}

/// Refuses a name that another key of the tenant has, because the name would then be ambiguous.
fn check_free(known: &Snapshot, tenant: &str, name: &str) -> Result<(), Failure> {
    let taken = known.keys().find(|(_, _, key)| key.tenant_id == tenant && key.name == name);
    taken.map_or(Ok(()), |(_, hash, _)| {
        Err(Failure::refused(format!("the tenant has a key `{name}` already ({})", hash.id()))
            .next(format!("choose another name, or: integrahub key rotate {name} --tenant {tenant}")))
    })
}

fn changed(key: &KeyItem, args: &KeyChange, now: Timestamp) -> Result<KeyItem, Failure> {
    let mut item = key.clone();
    if let Some(name) = &args.name {
        check_name(name)?;
        item.name.clone_from(name);
    }
    if !args.scopes.is_empty() {
        item.scopes = scopes(&args.scopes)?;
    }
    let given = establishments(&args.establishments)?;
    let is_about_products = is_about_products(&item.scopes);
    // Rights to no establishment are what a key without scopes of products has.
    let kept = Some(key.establishments.clone())
        .filter(|kept| is_about_products && kept.only().is_none_or(|cnpjs| !cnpjs.is_empty()));
    item.establishments = rights(&key.tenant_id, &item.scopes, given.or(kept))?;
    if let Some(text) = &args.expires {
        item.expires_at = when::expiry(text, now)?;
    }
    Ok(item)
}

/// Returns the items of two API keys: the new key, and the old key, which now expires at `end` at
/// the latest. The new key gets the lifetime for which the old one was created.
///
/// # Errors
/// If the old key is expired or disabled.
fn rotated(old: &KeyItem, end: Timestamp, now: Timestamp) -> Result<(KeyItem, KeyItem), Failure> {
    if !works(old, now) {
        return Err(Failure::refused("the key does not work any more, so nothing uses it")
            .next("create a new one: integrahub key create --help"));
    }
    let lifetime = old.expires_at.zip(old.created_at).map(|(expiry, created)| expiry.duration_since(created));
    let expires_at = match (lifetime, old.expires_at) {
        (Some(lifetime), _) => now.checked_add(lifetime).ok(),
        (None, expiry) => expiry,
    };
    let new = KeyItem { created_at: Some(now), expires_at, ..old.clone() };
    let expires_at = Some(old.expires_at.map_or(end, |expiry| expiry.min(end)));
    Ok((new, KeyItem { expires_at, ..old.clone() }))
}

async fn set_disabled(
    table: &Table,
    known: &Snapshot,
    args: &Edit<KeyName>,
    disabled: bool,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let (held, hash, item) = known.key(&args.of)?;
    let entry = Entry::Key(hash, KeyItem { disabled, ..item.clone() });
    let exit = make(table, Change::of(held, entry), args.dry, out).await?;
    if !args.dry.dry_run {
        out.note("it takes effect within a minute");
    }
    Ok(exit)
}

/// Parses the names of scopes, and refuses unknown names: a misspelt scope would permit nothing,
/// and no error would show it.
pub(crate) fn scopes<T: AsRef<str>>(names: &[T]) -> Result<BTreeSet<String>, Failure> {
    let known = || Scope::ALL.map(Scope::as_str).join(", ");
    let check = |name: &T| {
        let name = name.as_ref().trim();
        name.parse::<Scope>().map(|scope| scope.as_str().to_owned()).map_err(|_| {
            Failure::usage(format!("there is no scope `{name}`")).why(format!("there are: {}", known()))
        })
    };
    names.iter().map(check).collect()
}

/// Returns the establishments that the command line names; `None` if it names none.
pub(crate) fn establishments(args: &args::Establishments) -> Result<Option<Establishments>, Failure> {
    if args.all_cnpjs {
        return Ok(Some(Establishments::All));
    }
    let cnpjs = cnpjs(&args.cnpjs)?;
    Ok((!cnpjs.is_empty()).then_some(Establishments::Only(cnpjs)))
}

/// Parses CNPJs, which may contain punctuation, and returns them without it.
pub(crate) fn cnpjs<T: AsRef<str>>(texts: &[T]) -> Result<BTreeSet<String>, Failure> {
    let read = |text: &T| {
        let text = text.as_ref().trim();
        let cnpj: Result<Cnpj, _> = text.parse();
        cnpj.map(|cnpj| cnpj.as_str().to_owned())
            .map_err(|error| Failure::usage(format!("`{text}` is no CNPJ")).why(error.to_string()))
    };
    texts.iter().map(read).collect()
}

/// Checks that an API key's scopes, tenant and establishments fit together, and returns the
/// establishments. A key with a scope `products:*` needs them, and a tenant whose id is a UUID. Any
/// other key must be given none.
pub(crate) fn rights(
    tenant: &str,
    scopes: &BTreeSet<String>,
    establishments: Option<Establishments>,
) -> Result<Establishments, Failure> {
    if !is_about_products(scopes) {
        return match establishments {
            None => Ok(Establishments::Only(BTreeSet::new())),
            Some(_) => Err(Failure::refused(
                "the key has establishments, but no scope products:read or products:write",
            )
            .next("leave the establishments out, or add a scope")),
        };
    }
    if tenant.parse::<Uuid>().is_err() {
        return Err(Failure::refused(format!(
            "the tenant `{tenant}` cannot have a key with a scope products:*"
        ))
        .why("the ingest knows tenants by UUIDs, and its id is none")
        .next("create a tenant for its products: integrahub tenant create NAME"));
    }
    establishments.ok_or_else(|| {
        Failure::refused("a key with a scope products:* has to say which establishments it is about")
            .next("add --all-cnpjs for all of the tenant, or --cnpj CNPJ,CNPJ")
    })
}

fn is_about_products(scopes: &BTreeSet<String>) -> bool {
    scopes.iter().any(|scope| scope.starts_with(PRODUCTS))
}

pub(crate) fn check_name(name: &str) -> Result<(), Failure> {
    let is_line = !name.trim().is_empty() && !name.chars().any(char::is_control);
    if name.starts_with(TOKEN) {
        return Err(Failure::usage(format!("a key's name does not begin with `{TOKEN}`"))
            .why("logs and audit events have such names for callers with a token"));
    }
    if is_line && name.chars().count() <= 128 {
        return Ok(());
    }
    Err(Failure::usage("a key's name is one line of up to 128 characters that is not empty"))
}

/// Returns `works`, or the reason why requests with the key are refused, by the same rule by which
/// the functions refuse them.
fn state(known: &Snapshot, key: &KeyItem, now: Timestamp) -> String {
    let tenant = known.tenant_item(&key.tenant_id);
    key.refusal(&tenant, now).map_or_else(|| "works".to_owned(), |refusal| refusal.to_string())
}

fn shown<T: ToString>(time: Option<T>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| time.to_string())
}

/// Returns a time as text, without a fraction of a second. Items that an earlier version of this
/// program stored may have fractions.
fn seconds(time: Timestamp) -> String {
    format!("{time:.0}")
}

/// Adds the state and the day of the last use to the JSON of a key.
fn with_state(mut document: Value, state: &str, last_used_on: Option<Date>) -> Value {
    if let Some(members) = document.as_object_mut() {
        members.insert("state".to_owned(), json!(state));
        members.insert("lastUsedOn".to_owned(), json!(last_used_on));
    }
    document
}

fn list(known: &Snapshot, tenant: Option<&str>, now: Timestamp, out: &mut Output) -> Result<(), Failure> {
    let tenant = tenant.map(|tenant| known.tenant(tenant)).transpose()?;
    let mut keys: Vec<_> = known.keys().collect();
    keys.retain(|(_, _, key)| tenant.as_ref().is_none_or(|tenant| key.tenant_id == *tenant));
    keys.sort_by(|(.., a), (.., b)| {
        (&a.tenant_id, &a.name, a.created_at).cmp(&(&b.tenant_id, &b.name, b.created_at))
    });
    let (mut items, mut rows) = (Vec::new(), Vec::new());
    for (held, hash, key) in keys {
        let state = state(known, key, now);
        let last_used_on = known.last_used_on(&hash);
        rows.push(vec![
            key.tenant_id.clone(),
            key.name.clone(),
            hash.id(),
            Vec::from_iter(key.scopes.iter().map(String::as_str)).join(","),
            state.clone(),
            shown(key.expires_at.map(seconds)),
            shown(last_used_on),
        ]);
        items.push(with_state(held.entry.document(), &state, last_used_on));
    }
    out.list(LIST, "keys", items, &["tenant", "name", "id", "scopes", "state", "expires", "last used"], rows);
    known.warn(out);
    Ok(())
}

fn show(
    known: &Snapshot,
    held: &StoredEntry,
    hash: KeyHash,
    key: &KeyItem,
    now: Timestamp,
    out: &mut Output,
) {
    let state = state(known, key, now);
    let last_used_on = known.last_used_on(&hash);
    let rows = [
        ("tenant", key.tenant_id.clone()),
        ("name", key.name.clone()),
        ("id", hash.id()),
        ("scopes", Vec::from_iter(key.scopes.iter().map(String::as_str)).join(", ")),
        ("establishments", key.establishments.to_string()),
        ("state", state.clone()),
        ("created", shown(key.created_at.map(seconds))),
        ("expires", shown(key.expires_at.map(seconds))),
        ("last used", shown(last_used_on)),
    ];
    out.thing(ONE, &with_state(held.entry.document(), &state, last_used_on), &rows);
}

#[cfg(test)]
mod tests;
