//! Client of the ingest's function `establishments`, which administers the owners of
//! establishments.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_lambda::Client;
use aws_sdk_lambda::primitives::Blob;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::profile::without_nulls;
use crate::aws::{Aws, failed};
use crate::context::Context;
use crate::exit::{Exit, Explain as _, Failure};

/// Maximum number of establishments in one request to the function `establishments`.
const MOST: usize = 1_000;

/// Client of the function `establishments`, which lists and changes the owners of establishments.
#[derive(Debug)]
pub(crate) struct Establishments {
    lambda: Client,
    function: String,
    by: String,
}

/// Establishment with the tenant that owns it, as the function `establishments` lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Owned {
    /// CNPJ of the establishment.
    pub(crate) cnpj: String,
    /// Id of the tenant that owns the establishment.
    pub(crate) tenant: String,
    /// Time (RFC 3339) at which the establishment was assigned to the tenant.
    pub(crate) assigned_at: String,
    /// Name of the person or program that assigned the establishment.
    pub(crate) assigned_by: String,
}

/// Change of the owner of establishments: assignment, move or release.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OwnerChange {
    /// Gives establishments without owner to the tenant with this id.
    Assign(String),
    /// Moves establishments from the tenant with the first id to the tenant with the second.
    Move(String, String),
    /// Takes establishments from the tenant with this id, so that they have no owner.
    Release(String),
}

/// Establishment that has products, but belongs to no tenant.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Unowned {
    cnpj: String,
}

/// Result of a change of owner, or of its dry run, with each establishment of the request in one of
/// the three lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Changed {
    /// CNPJs whose owner was changed. In a dry run, those that would be changed.
    #[serde(default)]
    pub(crate) changed: Vec<String>,
    /// CNPJs that had the requested owner already.
    #[serde(default)]
    pub(crate) unchanged: Vec<String>,
    /// Establishments whose owner was not changed, each with the reason.
    #[serde(default)]
    pub(crate) refused: Vec<RefusedCnpj>,
}

/// Establishment whose owner was not changed, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RefusedCnpj {
    /// CNPJ of the establishment.
    pub(crate) cnpj: String,
    /// Code of the function `establishments` for the reason, such as `OWNED_BY_ANOTHER`.
    pub(crate) reason: String,
    /// Id of the tenant that owns the establishment; `None` if no tenant does.
    #[serde(default)]
    pub(crate) owner: Option<String>,
}

impl RefusedCnpj {
    /// Returns a sentence with the reason why the owner was not changed.
    pub(crate) fn text(&self) -> String {
        match (self.reason.as_str(), &self.owner) {
            ("OWNED_BY_ANOTHER", Some(owner)) => format!("it belongs to {owner}"),
            ("UNOWNED", _) => "it belongs to nobody".to_owned(),
            (other, _) => other.to_owned(),
        }
    }
}

/// Page of a list that the function `establishments` returned. `cursor` asks for the next page;
/// `None` if this is the last one.
#[derive(Debug, Deserialize)]
struct Page<T> {
    establishments: Vec<T>,
    #[serde(default)]
    cursor: Option<String>,
}

impl OwnerChange {
    /// Returns the change of owner for one establishment as JSON, to print it.
    pub(crate) fn document(&self, cnpj: &str) -> Value {
        let mut document = self.event();
        if let Some(members) = document.as_object_mut() {
            members.insert("cnpj".to_owned(), json!(cnpj));
        }
        document
    }

    /// Returns the event by which the function `establishments` makes the change, without the
    /// CNPJs.
    fn event(&self) -> Value {
        match self {
            Self::Assign(tenant) => json!({"action": "assign", "tenant": tenant}),
            Self::Move(from, to) => json!({"action": "move", "from": from, "to": to}),
            Self::Release(tenant) => json!({"action": "release", "tenant": tenant}),
        }
    }

    /// Returns the change of owner for one establishment as a line that begins with `+`, `~` or
    /// `-`.
    pub(crate) fn line(&self, cnpj: &str) -> String {
        match self {
            Self::Assign(tenant) => format!("+ establishment {cnpj} of {tenant}"),
            Self::Move(from, to) => format!("~ establishment {cnpj}: {from} -> {to}"),
            Self::Release(tenant) => format!("- establishment {cnpj} of {tenant}"),
        }
    }
}

impl Establishments {
    /// Finds the function `establishments` in the context's deployment.
    ///
    /// # Errors
    /// If the deployment has no such function.
    pub(crate) async fn of(context: &Context) -> Result<Self, Failure> {
        let aws = Aws::of(context).await?;
        let function = aws.establishments_function().await.map_err(|failure| match failure.exit {
            Exit::Error => failure.why("the deployment has no ingest, or is of a version without owners"),
            _ => failure,
        })?;
        let user = ["USER", "USERNAME"].into_iter().find_map(|name| std::env::var(name).ok());
        let by = format!("integrahub, {}", user.as_deref().unwrap_or("unknown user"));
        Ok(Self { lambda: aws.lambda(), function, by })
    }

    /// Lists the establishments that have an owner. `tenant` limits the list to those of one
    /// tenant, `cnpj` to one establishment.
    ///
    /// # Errors
    /// If the function does not answer, or refuses the request.
    pub(crate) async fn list(&self, tenant: Option<&str>, cnpj: Option<&str>) -> Result<Vec<Owned>, Failure> {
        self.pages(&without_nulls(json!({"action": "list", "tenant": tenant, "cnpj": cnpj, "limit": MOST})))
            .await
    }

    /// Lists establishments that have products and no owner.
    ///
    /// # Errors
    /// If the function does not answer.
    pub(crate) async fn unowned(&self) -> Result<Vec<String>, Failure> {
        let unowned: Vec<Unowned> = self.pages(&json!({"action": "unowned", "limit": MOST})).await?;
        Ok(unowned.into_iter().map(|unowned| unowned.cnpj).collect())
    }

    /// Changes the owner of establishments, in invocations with at most 1,000 CNPJs each. A dry run
    /// changes nothing. The call can be repeated without harm.
    ///
    /// # Errors
    /// If the function does not answer, or refuses a whole invocation. The invocations before it
    /// have taken effect.
    pub(crate) async fn change(
        &self,
        change: &OwnerChange,
        cnpjs: &BTreeSet<String>,
        dry_run: bool,
    ) -> Result<Changed, Failure> {
        let mut all = Changed::default();
        let cnpjs: Vec<&String> = cnpjs.iter().collect();
        for part in cnpjs.chunks(MOST) {
            let mut event = change.event();
            if let Some(members) = event.as_object_mut() {
                members.insert("cnpjs".to_owned(), json!(part));
                members.insert("by".to_owned(), json!(self.by));
                if dry_run {
                    members.insert("dryRun".to_owned(), json!(true));
                }
            }
            let Changed { changed, unchanged, refused } = read(self.invoke(&event).await?)?;
            all.changed.extend(changed);
            all.unchanged.extend(unchanged);
            all.refused.extend(refused);
        }
        Ok(all)
    }

    async fn pages<T: serde::de::DeserializeOwned>(&self, event: &Value) -> Result<Vec<T>, Failure> {
        let (mut all, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let mut event = event.clone();
            if let (Some(cursor), Some(members)) = (&cursor, event.as_object_mut()) {
                members.insert("cursor".to_owned(), json!(cursor));
            }
            let page: Page<T> = read(self.invoke(&event).await?)?;
            all.extend(page.establishments);
            cursor = page.cursor;
            if cursor.is_none() {
                return Ok(all);
            }
        }
    }

    async fn invoke(&self, event: &Value) -> Result<Value, Failure> {
        let invoke = self.lambda.invoke().function_name(&self.function).payload(Blob::new(event.to_string()));
        let answer = invoke.send().await.map_err(|error| failed("administer establishments", &error))?;
        let payload = answer.payload().map(|payload| payload.as_ref().to_vec()).unwrap_or_default();
        let value: Value = serde_json::from_slice(&payload)
            .or_explain(|| "read the answer about establishments".to_owned())?;
        if let Some(fault) = value.get("error").and_then(Value::as_str) {
            return Err(
                Failure::refused("the function of establishments did not understand the request").why(fault)
            );
        }
        if answer.function_error().is_none() {
            return Ok(value);
        }
        let message = value.get("errorMessage").and_then(Value::as_str).unwrap_or("it failed").to_owned();
        Err(Failure::new(Exit::Error, "the function of establishments did not do it")
            .why(message)
            .next("the log of the function has more; try again if the database was away"))
    }
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, Failure> {
    serde_json::from_value(value).map_err(|error| {
        Failure::new(Exit::Error, "the answer about establishments has another form than this version knows")
            .why(error.to_string())
            .next("use the integrahub of the deployment's version")
    })
}

/// Returns the CNPJs of establishments, grouped by the id of the tenant that owns them.
pub(crate) fn by_owner(owned: Vec<Owned>) -> BTreeMap<String, BTreeSet<String>> {
    let mut owners: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for Owned { cnpj, tenant, .. } in owned {
        owners.entry(tenant).or_default().insert(cnpj);
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let list = json!({"establishments": [{"cnpj": "11222333000181", "tenant": "t",
            "assignedAt": "2026-11-27T10:00:00Z", "assignedBy": "upgrade"}], "cursor": null});
        let page: Page<Owned> = read(list).unwrap();
        assert_eq!((page.establishments[0].cnpj.as_str(), page.cursor), ("11222333000181", None));
        let page: Page<Unowned> = read(json!({"establishments": [{"cnpj": "a"}], "cursor": "a"})).unwrap();
        assert_eq!((page.establishments.len(), page.cursor.as_deref()), (1, Some("a")));
        assert!(read::<Changed>(json!({"changed": 1})).is_err());
    }

    #[test]
    fn a_refusal_names_the_present_owner() {
        let refused = json!([{"cnpj": "a", "reason": "OWNED_BY_ANOTHER", "owner": "t"},
            {"cnpj": "b", "reason": "UNOWNED", "owner": null}, {"cnpj": "c", "reason": "LATER"}]);
        let answer = json!({"dryRun": false, "changed": [], "unchanged": [], "refused": refused});
        let texts: Vec<String> =
            read::<Changed>(answer).unwrap().refused.iter().map(RefusedCnpj::text).collect();
        assert_eq!(texts, ["it belongs to t", "it belongs to nobody", "LATER"]);
    }
}
