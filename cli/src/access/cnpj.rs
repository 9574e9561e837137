//! `integrahub cnpj`: shows and changes which tenant owns an establishment.

use std::collections::BTreeSet;

use serde_json::json;

use super::establishments::{Changed, Establishments, OwnerChange};
use super::key;
use super::table::Table;
use crate::args::{Cnpj, CnpjList};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::input;
use crate::output::{Format, Output};

const LIST: &str = "integrahub.establishments.v1";
const UNOWNED: &str = "integrahub.unowned.v1";
const CHANGED: &str = "integrahub.owners-changed.v1";
/// Maximum number of bytes of a file of CNPJs.
const MAX_FILE: u64 = 16 * 1024 * 1024;

/// Runs `integrahub cnpj`.
///
/// # Errors
/// If a text is not a CNPJ, the tenant does not exist, or the function `establishments` cannot be
/// invoked.
pub(crate) async fn run(args: &Cnpj, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    match args {
        Cnpj::List { tenant, cnpj } => {
            let tenant = match tenant {
                Some(tenant) => Some(find(context, tenant).await?),
                None => None,
            };
            let cnpj = key::cnpjs(&Vec::from_iter(cnpj))?.into_iter().next();
            let all = Establishments::of(context).await?.list(tenant.as_deref(), cnpj.as_deref()).await?;
            let items = all.iter().map(|owned| json!(owned)).collect();
            let columns =
                [("cnpj", "cnpj"), ("tenant", "tenant"), ("assigned", "assignedAt"), ("by", "assignedBy")];
            out.members(LIST, "establishments", items, &columns);
            Ok(Exit::Done)
        }
        Cnpj::Unowned => {
            let all = Establishments::of(context).await?.unowned().await?;
            let items = all.iter().map(|cnpj| json!({"cnpj": cnpj})).collect();
            out.members(UNOWNED, "establishments", items, &[("cnpj", "cnpj")]);
            Ok(Exit::Done)
        }
        Cnpj::Assign { tenant, which, dry } => {
            let cnpjs = read(which).await?;
            let change = OwnerChange::Assign(receiver(context, tenant).await?);
            make(context, &change, &cnpjs, dry.dry_run, out).await
        }
        Cnpj::Move { from, to, which, dry } => {
            let cnpjs = read(which).await?;
            let change = OwnerChange::Move(find(context, from).await?, receiver(context, to).await?);
            let count = cnpjs.len();
            dry.confirm(&format!("this moves {count} establishments from {from} to {to}"), to, out)?;
            make(context, &change, &cnpjs, dry.dry_run, out).await
        }
        Cnpj::Release { tenant, which, dry } => {
            let cnpjs = read(which).await?;
            let change = OwnerChange::Release(find(context, tenant).await?);
            let count = cnpjs.len();
            dry.confirm(&format!("this takes {count} establishments from {tenant}"), tenant, out)?;
            make(context, &change, &cnpjs, dry.dry_run, out).await
        }
    }
}

async fn find(context: &Context, tenant: &str) -> Result<String, Failure> {
    // The owner of an establishment need not have a key any more.
    if tenant.parse::<uuid::Uuid>().is_ok() {
        return Ok(tenant.to_owned());
    }
    receiver(context, tenant).await
}

/// Returns the id of the tenant that receives establishments, found by its name or id. The tenant
/// must be in the access table: otherwise establishments could be given to a mistyped UUID, and no
/// tenant could load them.
async fn receiver(context: &Context, tenant: &str) -> Result<String, Failure> {
    let id = Table::of(context).await?.read().await?.tenant(tenant)?;
    if id.parse::<uuid::Uuid>().is_err() {
        return Err(Failure::refused(format!("the tenant `{id}` cannot have establishments"))
            .why("the ingest knows tenants by UUIDs, and its id is none"));
    }
    Ok(id)
}

async fn read(which: &CnpjList) -> Result<BTreeSet<String>, Failure> {
    let mut texts = which.cnpjs.clone();
    if let Some(path) = &which.file {
        let file = input::read(path, MAX_FILE).await?;
        texts.extend(lines(&String::from_utf8_lossy(&file)));
    }
    let cnpjs = key::cnpjs(&texts)?;
    if cnpjs.is_empty() {
        return Err(Failure::new(Exit::Nothing, "there is no CNPJ"));
    }
    Ok(cnpjs)
}

/// Returns the lines of a file without empty lines and without remarks, which begin with `#`.
fn lines(text: &str) -> Vec<String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

async fn make(
    context: &Context,
    change: &OwnerChange,
    cnpjs: &BTreeSet<String>,
    dry_run: bool,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let changed = Establishments::of(context).await?.change(change, cnpjs, dry_run).await?;
    show(change, &changed, dry_run, out);
    Ok(outcome(&changed))
}

/// Returns the exit code after establishments were assigned, moved or released: `Refused` if all of
/// them were refused, `Partial` if some were, otherwise `Done`.
pub(crate) fn outcome(changed: &Changed) -> Exit {
    match (changed.refused.is_empty(), changed.changed.is_empty() && changed.unchanged.is_empty()) {
        (true, _) => Exit::Done,
        (false, true) => Exit::Refused,
        (false, false) => Exit::Partial,
    }
}

fn show(change: &OwnerChange, changed: &Changed, dry_run: bool, out: &mut Output) {
    if out.format() == Format::Text {
        for cnpj in &changed.changed {
            out.line(&change.line(cnpj));
        }
    } else {
        let Changed { changed, unchanged, refused } = changed;
        let value =
            json!({"dryRun": dry_run, "changed": changed, "unchanged": unchanged, "refused": refused});
        out.json(CHANGED, &value);
    }
    warn(changed, out);
    let (changed, unchanged) = (changed.changed.len(), changed.unchanged.len());
    let verb = if dry_run { "would be changed" } else { "changed" };
    out.note(&format!("{changed} {verb}, {unchanged} were so already"));
}

/// Prints a warning for each establishment whose owner was not changed, with the reason.
pub(crate) fn warn(changed: &Changed, out: &mut Output) {
    for refused in &changed.refused {
        out.note(&format!("refused: {}: {}", refused.cnpj, refused.text()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::establishments::RefusedCnpj;
    use super::*;

    #[test]
    fn a_file_has_a_cnpj_a_line_and_remarks() {
        let text = "\u{feff}11.222.333/0001-81\r\n\n# closed\n 05927228000145 # Centro\n";
        assert_eq!(lines(text), ["11.222.333/0001-81", "05927228000145"]);
    }

    #[test]
    fn the_exit_code_says_whether_anything_was_refused() {
        let refused = RefusedCnpj { cnpj: "a".into(), reason: "it has an owner".into(), owner: None };
        let all = Changed { changed: vec!["b".into()], ..Changed::default() };
        assert_eq!(outcome(&all), Exit::Done);
        assert_eq!(outcome(&Changed { refused: vec![refused.clone()], ..all }), Exit::Partial);
        assert_eq!(outcome(&Changed { refused: vec![refused], ..Changed::default() }), Exit::Refused);
    }
}
