//! Checks of the secrets that template parameters and target profiles name. Their values are not
//! read.

use std::collections::{BTreeMap, BTreeSet};

use mq::{Profile, SecretRef, StoreRef};
use serde_json::{Value, json};

use super::kinds::{OF_DEPLOYMENT, OF_PROFILES};
use super::parameters::Parameters;
use super::report::{Check, Known, Unknown};
use crate::aws_query::{AwsError, AwsQuery};
use crate::member::text;

/// Names of the template parameters whose values are ARNs of secrets.
const PARAMETERS: [&str; 4] =
    ["DatabaseSecretArn", "DatabaseCaSecretArn", "KafkaSecretArn", "KafkaCaSecretArn"];
/// Maximum number of secrets of target profiles that are checked.
const MOST: usize = 100;
/// Maximum number of pages that are read of a Parameter Store list. Pages before the last one may
/// be empty.
const MOST_PAGES: usize = 10;
/// Maximum number of profiles or faulty secrets that one sentence of the report names.
const MOST_NAMES: usize = 5;

/// State of a secret in Secrets Manager or Parameter Store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Secret {
    /// A secret of this name exists.
    Stored,
    /// The secret is scheduled for deletion, so it cannot be read.
    Deleted,
    /// No secret of this name exists.
    Missing,
}

/// Titles of the target profiles that refer to a secret, by the reference to the secret.
pub(crate) type Named = BTreeMap<String, BTreeSet<String>>;

/// Adds the secrets that a target profile refers to: passwords, key stores and trust stores.
/// `title` is that of the profile.
pub(crate) fn add(named: &mut Named, title: &str, profile: &Profile) {
    let auth = profile.target.auth.iter().filter_map(|auth| auth.password_ref.as_ref());
    let of_tls = profile.target.ssl.iter().filter_map(|ssl| ssl.store_password_ref.as_ref());
    let stores = profile.target.ssl.iter().flat_map(|ssl| {
        [&ssl.key_store_ref, &ssl.trust_store_ref, &ssl.stash_ref].into_iter().flatten().filter_map(secret)
    });
    for reference in auth.chain(of_tls).chain(stores) {
        named.entry(reference.to_string()).or_default().insert(title.to_owned());
    }
}

fn secret(store: &StoreRef) -> Option<&SecretRef> {
    match store {
        StoreRef::Secret(secret) => Some(secret),
        StoreRef::Object(_) => None,
    }
}

/// Requests the state of a secret in Secrets Manager by its ARN or name.
async fn look(client: &AwsQuery, id: &str) -> Known<Secret> {
    let target = "secretsmanager.DescribeSecret";
    match client.json("secretsmanager", target, &json!({"SecretId": id})).await {
        Ok(answer) if answer.get("DeletedDate").is_some_and(|date| !date.is_null()) => Ok(Secret::Deleted),
        Ok(_) => Ok(Secret::Stored),
        Err(AwsError { code, .. }) if code == "ResourceNotFoundException" => Ok(Secret::Missing),
        Err(error) => Err(error.into()),
    }
}

async fn look_at_parameter(client: &AwsQuery, name: &str) -> Known<Secret> {
    let filters = json!([{"Key": "Name", "Values": [name]}]);
    let mut asked = json!({"ParameterFilters": filters});
    for _ in 0..MOST_PAGES {
        let answer = client.json("ssm", "AmazonSSM.DescribeParameters", &asked).await?;
        if answer.get("Parameters").and_then(Value::as_array).is_some_and(|found| !found.is_empty()) {
            return Ok(Secret::Stored);
        }
        match text(&answer, "NextToken") {
            "" => return Ok(Secret::Missing),
            token => asked = json!({"ParameterFilters": filters, "NextToken": token}),
        }
    }
    Err(Unknown::Failed(format!("ssm:DescribeParameters answers more than {MOST_PAGES} pages")))
}

/// Checks the secrets whose ARNs are values of template parameters, each with a check of its own.
pub(crate) async fn of_deployment(client: &AwsQuery, parameters: &Parameters) -> Vec<Check> {
    let mut checks = Vec::new();
    for name in PARAMETERS {
        let arn = parameters.get(name);
        if !arn.is_empty() {
            checks.push(parameter(&look(client, arn).await, arn).about(name));
        }
    }
    if checks.is_empty() {
        checks.push(OF_DEPLOYMENT.ok("the parameters name none"));
    }
    checks
}

fn parameter(secret: &Known<Secret>, arn: &str) -> Check {
    match secret {
        Err(unknown) => OF_DEPLOYMENT.skip(unknown),
        Ok(Secret::Stored) => OF_DEPLOYMENT.ok("the secret is there"),
        Ok(Secret::Deleted) => OF_DEPLOYMENT.fail(
            format!("the secret {arn} waits for its deletion, and cannot be read"),
            format!("aws secretsmanager restore-secret --secret-id {arn}"),
        ),
        Ok(Secret::Missing) => OF_DEPLOYMENT.fail(
            format!("there is no secret {arn} in this account and region"),
            "give its whole ARN, with the six characters at its end",
        ),
    }
}

/// Checks the secrets that target profiles refer to, all in one check. `prefix` is what the names
/// of secrets must begin with; `None` if it is unknown, or functions may read any secret.
pub(crate) async fn of_profiles(client: &AwsQuery, named: &Known<Named>, prefix: Option<&str>) -> Check {
    let named = match named {
        Ok(named) => named,
        Err(unknown) => return OF_PROFILES.skip(unknown),
    };
    let mut found = BTreeMap::new();
    for reference in named.keys().take(MOST) {
        let state = match SecretRef::try_from(reference.clone()) {
            Ok(SecretRef::SecretsManager(name)) => look(client, &name).await,
            Ok(SecretRef::ParameterStore(name)) => look_at_parameter(client, &name).await,
            Err(_) => Ok(Secret::Missing),
        };
        found.insert(reference.clone(), state);
    }
    profiles(named, &found, prefix)
}

fn profiles(named: &Named, found: &BTreeMap<String, Known<Secret>>, prefix: Option<&str>) -> Check {
    let (mut faults, mut unknown): (Vec<String>, Option<&Unknown>) = (Vec::new(), None);
    for (reference, titles) in named {
        let of = Vec::from_iter(titles.iter().take(MOST_NAMES).map(String::as_str)).join(", ");
        let name = reference.split_once("://").map_or("", |(_, name)| name).trim_start_matches('/');
        if let Some(prefix) = prefix.filter(|prefix| !name.starts_with(prefix)) {
            faults.push(format!(
                "the functions may not read {reference} (of {of}): its name does not begin with {prefix}"
            ));
            continue;
        }
        match found.get(reference) {
            Some(Ok(Secret::Missing)) => faults.push(format!("{reference} (of {of}) does not exist")),
            Some(Ok(Secret::Deleted)) => faults.push(format!("{reference} (of {of}) waits for its deletion")),
            Some(Err(why)) => unknown = Some(why),
            Some(Ok(Secret::Stored)) | None => {}
        }
    }
    if !faults.is_empty() {
        let rest = faults.len().saturating_sub(MOST_NAMES);
        faults.truncate(MOST_NAMES);
        if rest > 0 {
            faults.push(format!("and {rest} more"));
        }
        return OF_PROFILES.fail(
            faults.join("; "),
            "store each with `aws secretsmanager create-secret --name NAME --secret-string file://…`, or correct the \
             profile: integrahub profile create NAME --replace",
        );
    }
    match unknown {
        Some(unknown) => OF_PROFILES.skip(unknown),
        None if named.len() > MOST => {
            OF_PROFILES.ok(format!("the first {MOST} of {} are there", named.len()))
        }
        None => OF_PROFILES.ok(format!("{} named, and all there", named.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Status;
    use super::*;

    const ORDERS: &str = "secret://mq/orders";

    fn named(references: &[&str]) -> Named {
        let of = BTreeSet::from(["orders of acme".to_owned()]);
        references.iter().map(|&reference| (reference.to_owned(), of.clone())).collect()
    }

    fn judged(reference: &str, state: Known<Secret>, prefix: Option<&str>) -> Check {
        profiles(&named(&[reference]), &BTreeMap::from([(reference.to_owned(), state)]), prefix)
    }

    #[test]
    fn every_reference_of_a_profile_counts_once() {
        let profile: Profile = serde_json::from_value(json!({"target": {
            "auth": {"user": "app", "passwordRef": ORDERS},
            "ssl": {"enabled": true, "keyStoreRef": "ssm://mq/key", "trustStoreRef": "s3://bucket/key",
                "storePasswordRef": ORDERS},
        }}))
        .unwrap();
        let mut found = Named::new();
        add(&mut found, "orders of acme", &profile);
        add(&mut found, "stock of acme", &profile);
        assert_eq!(found.keys().collect::<Vec<_>>(), [ORDERS, "ssm://mq/key"]);
        assert_eq!(found[ORDERS].len(), 2);
    }

    #[test]
    fn a_secret_that_the_functions_cannot_read_fails() {
        assert_eq!(judged(ORDERS, Ok(Secret::Stored), Some("mq/")).status, Status::Ok);
        let missing = judged(ORDERS, Ok(Secret::Missing), Some("mq/"));
        assert_eq!(missing.detail, "secret://mq/orders (of orders of acme) does not exist");
        assert_eq!(judged(ORDERS, Ok(Secret::Deleted), Some("mq/")).status, Status::Fail);
        let other = judged(ORDERS, Ok(Secret::Stored), Some("production/"));
        assert!(other.status == Status::Fail && other.detail.contains("production/"), "{}", other.detail);
        assert_eq!(judged("ssm:///mq/orders", Ok(Secret::Stored), Some("mq/")).status, Status::Ok);
        let denied = Err(Unknown::Denied("secretsmanager:DescribeSecret".to_owned()));
        assert_eq!(judged(ORDERS, denied, None).status, Status::Skip);
    }

    #[test]
    fn a_sentence_stays_readable() {
        let references: Vec<String> = (0..9).map(|number| format!("secret://mq/{number}")).collect();
        let named = named(&references.iter().map(String::as_str).collect::<Vec<_>>());
        let missing = references.iter().map(|name| (name.clone(), Ok(Secret::Missing))).collect();
        let detail = profiles(&named, &missing, None).detail;
        assert!(detail.ends_with("; and 4 more"), "{detail}");
    }

    #[test]
    fn a_secret_of_a_parameter_is_judged_by_its_state() {
        assert_eq!(parameter(&Ok(Secret::Stored), "arn").status, Status::Ok);
        let check = parameter(&Ok(Secret::Deleted), "arn");
        assert!(check.fix.unwrap().contains("restore-secret --secret-id arn"));
        assert_eq!(parameter(&Ok(Secret::Missing), "arn").status, Status::Fail);
    }
}
