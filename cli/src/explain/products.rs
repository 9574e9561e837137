//! Rules of `integrahub explain` about products: the tenant's id, the establishments of the API
//! key, and their owners.

use access::KeyItem;
use ingestion::Cnpj;
use uuid::Uuid;

use super::Deployment;
use super::rule::Rule;
use crate::access::Establishments;
use crate::args::Operation;
use crate::context::Context;
use crate::exit::Failure;

/// Parses the CNPJ of the establishment that the command line names.
pub(super) fn establishment(text: &str) -> Result<Cnpj, Failure> {
    let cnpj: Result<Cnpj, _> = text.trim().parse();
    cnpj.map_err(|error| Failure::usage(format!("`{text}` is no CNPJ")).why(error.to_string()))
}

/// Checks the rules about products for which the API key's item is enough: the tenant's id, and
/// whether the key covers the establishment. Without `cnpj`, the second result is unknown.
pub(super) fn decide(item: &KeyItem, cnpj: Option<&Cnpj>, operation: Operation) -> Vec<Rule> {
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

/// Asks the function `establishments` who owns the establishment, and checks whether the tenant may
/// load it. If the function does not answer, the result is unknown.
pub(super) async fn owner(context: &Context, deployment: &Deployment<'_>, tenant: &str, cnpj: &Cnpj) -> Rule {
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

/// Checks whether a tenant may load the establishment `cnpj`. `owner` is the establishment's
/// tenant, or `None` if nobody owns it. `rule` is the value of the parameter `EstablishmentOwners`,
/// or `None` if it is unknown.
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

#[cfg(test)]
mod tests {
    use access::Establishments as Which;

    use super::*;
    use crate::access::examples::{ACME, key};
    use crate::explain::rule::{Verdict, broken};

    const CNPJ: &str = "11222333000181";

    #[test]
    fn a_key_about_products_covers_its_own_establishments() {
        let cnpj: Cnpj = CNPJ.parse().unwrap();
        let all = key("till", &["products:write"]);
        assert!(broken(&decide(&all, Some(&cnpj), Operation::Send)).is_empty());
        let only =
            |text: &str| KeyItem { establishments: Which::Only([text.to_owned()].into()), ..all.clone() };
        let own = decide(&only("11.222.333/0001-81"), Some(&cnpj), Operation::Send);
        assert!(broken(&own).is_empty());
        for (operation, says) in [(Operation::Send, "CNPJ_NOT_ALLOWED"), (Operation::Batches, "404")] {
            let foreign = decide(&only("05927228000145"), Some(&cnpj), operation);
            assert_eq!(broken(&foreign), ["establishment"]);
            assert!(foreign[1].reason.contains(says), "{}", foreign[1].reason);
        }
        assert_eq!(decide(&all, None, Operation::Send)[1].verdict, Verdict::Unknown);
        let legacy = KeyItem { tenant_id: "legacy".to_owned(), ..all.clone() };
        assert_eq!(broken(&decide(&legacy, Some(&cnpj), Operation::Send)), ["tenant id"]);
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
}
