//! `integrahub grant`: who may drop files into S3.

use access::DropGrant;

use super::change::{Change, StoredEntry, make};
use super::entry::Entry;
use super::key;
use super::snapshot::Snapshot;
use super::table::Table;
use crate::args::{Edit, Grant, GrantCreate, TenantOption};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::Output;

const LIST: &str = "integrahub.grants.v1";
const ONE: &str = "integrahub.grant.v1";

/// Runs `integrahub grant`.
///
/// # Errors
/// If the grant is invalid, exists already or does not exist, or the table cannot be accessed.
pub(crate) async fn run(args: &Grant, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    let table = Table::of(context).await?;
    let known = table.read().await?;
    match args {
        Grant::Create(args) => make(&table, create(&known, args)?, args.dry, out).await,
        Grant::List => {
            let (mut items, mut rows) = (Vec::new(), Vec::new());
            for entry in known.entries(None)? {
                let Entry::Grant(of, grant) = entry else { continue };
                items.push(entry.document());
                rows.push(row(of, grant).map(|(_, value)| value).to_vec());
            }
            out.list(LIST, "grants", items, &["tenant", "establishments", "buckets"], rows);
            known.warn(out);
            Ok(Exit::Done)
        }
        Grant::Show(TenantOption { tenant }) => {
            let (id, StoredEntry { entry, .. }) = find(&known, tenant)?;
            if let Entry::Grant(_, grant) = entry {
                out.thing(ONE, &entry.document(), &row(&id, grant));
            }
            Ok(Exit::Done)
        }
        Grant::Remove(Edit { of: TenantOption { tenant }, dry }) => {
            let (id, held) = find(&known, tenant)?;
            let question = format!("this removes the grant of {id}, whose files stay where they are");
            dry.confirm(&question, tenant, out)?;
            make(&table, [Change::Remove(held.clone())], *dry, out).await
        }
    }
}

fn row(tenant: &str, grant: &DropGrant) -> [(&'static str, String); 3] {
    let buckets = Vec::from_iter(grant.buckets.iter().map(String::as_str)).join(", ");
    [
        ("tenant", tenant.to_owned()),
        ("establishments", grant.establishments.to_string()),
        ("buckets", if buckets.is_empty() { "-".to_owned() } else { buckets }),
    ]
}

fn find<'a>(known: &'a Snapshot, reference: &str) -> Result<(String, &'a StoredEntry), Failure> {
    let id = known.tenant(reference)?;
    let missing = || {
        Failure::refused(format!("the tenant {id} has no grant"))
            .next("create one: integrahub grant create --help")
    };
    let held = known.get(&access::pk::drops(&id)).ok_or_else(missing)?;
    Ok((id, held))
}

fn create(known: &Snapshot, args: &GrantCreate) -> Result<Option<Change>, Failure> {
    let tenant = known.tenant(&args.tenant)?;
    let establishments = key::establishments(&args.establishments)?;
    let grant = checked(&tenant, establishments, args.buckets.iter().map(|bucket| bucket.trim().to_owned()))?;
    known.create(Entry::Grant(tenant, grant), args.replace)
}

/// Returns a tenant's grant for these establishments and buckets, if it is valid.
///
/// # Errors
/// If the tenant's id is no UUID, no establishments are given, or a bucket's name is invalid.
pub(crate) fn checked(
    tenant: &str,
    establishments: Option<access::Establishments>,
    buckets: impl Iterator<Item = String>,
) -> Result<DropGrant, Failure> {
    if tenant.parse::<uuid::Uuid>().is_err() {
        return Err(Failure::refused(format!("the tenant `{tenant}` cannot drop files"))
            .why("the ingest knows tenants by UUIDs, and its id is none"));
    }
    let establishments = establishments.ok_or_else(|| {
        Failure::refused("a grant has to say which establishments it is about")
            .next("add --all-cnpjs for all of the tenant, or --cnpj CNPJ,CNPJ")
    })?;
    let is_bucket = |name: &String| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte);
        (3..=63).contains(&name.len()) && name.bytes().all(plain)
    };
    let buckets: std::collections::BTreeSet<String> = buckets.collect();
    if let Some(wrong) = buckets.iter().find(|name| !is_bucket(name)) {
        return Err(Failure::usage(format!("`{wrong}` is no name of a bucket")));
    }
    Ok(DropGrant { establishments, buckets })
}

#[cfg(test)]
mod tests {
    use access::TenantItem;

    use super::super::entry::tests::ACME;
    use super::super::snapshot::tests::snapshot;
    use super::*;
    use crate::args::{self, DryRun};

    fn args(tenant: &str, all_cnpjs: bool, bucket: &str) -> GrantCreate {
        GrantCreate {
            tenant: tenant.to_owned(),
            establishments: args::Establishments { cnpjs: Vec::new(), all_cnpjs },
            buckets: vec![bucket.to_owned()],
            replace: false,
            dry: DryRun::default(),
        }
    }

    fn tenant(id: &str) -> Entry {
        Entry::Tenant(id.to_owned(), TenantItem::default())
    }

    #[test]
    fn a_grant_that_contradicts_itself_is_refused() {
        let known = snapshot(&[tenant(ACME), tenant("legacy")]);
        assert!(matches!(create(&known, &args(ACME, true, "partner-files")), Ok(Some(Change::Create(_)))));
        for wrong in
            [args("legacy", true, "partner-files"), args(ACME, false, "partner-files"), args(ACME, true, "A")]
        {
            assert!(create(&known, &wrong).is_err(), "{wrong:?}");
        }
    }
}
