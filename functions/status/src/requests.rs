//! `GET /v1/requests/{operation}/{key}`: timeline of one request that had an idempotency key. The
//! timeline comes from the request's idempotency record; the stored response is not read.

use access::{PRODUCTS_API_KEYS, Principal, Scope};
use api::{Problem, Query, Reason, Reply, invalid_parameter};
use idempotency::{IdempotencyKey, KeyForm, OperationType, Timeline, from_store};
use lambda_http::Request;
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde_json::json;

use crate::Status;

const INGEST: OperationType = OperationType::named("INGEST");

/// Operation of the API whose requests have an idempotency key and a record of their execution.
struct Operation {
    /// Name of the operation in the path of `GET /v1/requests/{operation}/{key}`.
    name: &'static str,
    records: OperationType,
    keys: KeyForm,
    /// Scope that a caller needs to read the timeline of a request.
    scope: Scope,
}

static OPERATIONS: [Operation; 8] = [
    of_messages("produce", "PRODUCE", Scope::MqRead),
    of_messages("consume", "CONSUME", Scope::MqRead),
    of_messages("move", "MOVE", Scope::MqRead),
    of_messages("tests", "LOAD_TEST", Scope::MqAdmin),
    of_messages("stop", "LOAD_TEST_STOP", Scope::MqAdmin),
    of_products("ingest", INGEST),
    of_products("upload", OperationType::named("UPLOAD").with_keys_of(INGEST)),
    of_products("replay", OperationType::named("REPLAY")),
];

const fn of_messages(name: &'static str, records: &'static str, scope: Scope) -> Operation {
    Operation { name, records: OperationType::named(records), keys: KeyForm::Uuid, scope }
}

const fn of_products(name: &'static str, records: OperationType) -> Operation {
    Operation { name, records, keys: KeyForm::Text, scope: Scope::ProductsRead }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    operation: &'a str,
    idempotency_key: &'a str,
    #[serde(flatten)]
    timeline: &'a Timeline,
}

impl Status {
    /// Responds to `GET /v1/requests/{operation}/{key}` with the timeline of a request of the
    /// caller's tenant. No rate limit applies.
    pub(crate) async fn request(&self, request: &Request) -> Result<Reply, Problem> {
        let principal = access::authenticate_by(&self.access, request.headers(), PRODUCTS_API_KEYS).await?;
        Query::parse(request.uri().query().unwrap_or_default(), &[])?;
        let (operation, key) = asked(request.uri().path())?;
        principal.require_any(&[operation.scope])?;
        let found = self.records.timeline(operation.records, &principal.tenant, &key).await;
        let found = found.map_err(|error| from_store(&error, "cannot read the record of a request"))?;
        let timeline = found.filter(|timeline| operation.shows(timeline, &principal)).ok_or_else(unknown)?;
        Ok(answer(operation, &key, &timeline))
    }
}

impl Operation {
    /// Returns whether the caller may see the timeline of a request of this operation. An API key
    /// that is limited to some establishments sees product requests only if a key of the same name
    /// made them, because requests of other keys may concern other establishments.
    fn shows(&self, timeline: &Timeline, caller: &Principal) -> bool {
        let is_own = timeline.key_name.as_deref() == Some(caller.key_name());
        self.scope != Scope::ProductsRead || caller.cnpjs().is_none() || is_own
    }
}

/// Parses the operation and the idempotency key from a path `/v1/requests/{operation}/{key}`.
fn asked(path: &str) -> Result<(&'static Operation, IdempotencyKey), Problem> {
    let mut last = path.rsplit('/');
    let [key, name] = [(); 2].map(|()| last.next().unwrap_or_default());
    let operation = OPERATIONS.iter().find(|operation| operation.name == name).ok_or_else(|| {
        let names = OPERATIONS.each_ref().map(|operation| operation.name).join(", ");
        invalid_parameter("operation", format!("must be one of {names}"))
    })?;
    let key = percent_decode_str(key).decode_utf8_lossy();
    // A header says a key with a comma in quotes; a path may say it without.
    let key = IdempotencyKey::parse(&key, operation.keys)
        .or_else(|_| IdempotencyKey::parse_canonical(&key, operation.keys))
        .map_err(|error| invalid_parameter("key", error.to_string()))?;
    Ok((operation, key))
}

fn answer(operation: &Operation, key: &IdempotencyKey, timeline: &Timeline) -> Reply {
    // A request and an upload have the same keys, and the record says which it was.
    let known = OPERATIONS.iter().find(|known| known.records.as_str() == timeline.operation);
    let operation = known.unwrap_or(operation).name;
    Reply::json(200, &json!(Answer { operation, idempotency_key: key.as_str(), timeline }))
}

fn unknown() -> Problem {
    Problem::new(Reason::RequestNotFound, "the tenant has no request of this key, or not any more")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "5c1e0a56-4a58-4aaf-9359-83ec8f663f10";

    #[test]
    fn a_path_names_an_operation_and_one_of_its_keys() {
        let named = |path: &str| {
            let (operation, key) = asked(path)?;
            Ok::<_, Problem>((operation.name, operation.scope, key.as_str().to_owned()))
        };
        let of = |operation: &str, key: &str| named(&format!("/v1/requests/{operation}/{key}"));
        assert_eq!(of("produce", KEY), Ok(("produce", Scope::MqRead, KEY.to_owned())));
        assert_eq!(of("tests", KEY), Ok(("tests", Scope::MqAdmin, KEY.to_owned())));
        let name = "carga%2F2026%23%2525.json";
        assert_eq!(of("ingest", name), Ok(("ingest", Scope::ProductsRead, "carga/2026#%25.json".to_owned())));
        for key in ["loja%2C12", "%22loja%2C12%22"] {
            assert_eq!(of("ingest", key), Ok(("ingest", Scope::ProductsRead, "loja,12".to_owned())), "{key}");
        }
        for (operation, key, parameter) in [
            ("put", KEY, "operation"),
            ("PRODUCE", KEY, "operation"),
            ("", KEY, "operation"),
            ("produce", "loja-12", "key"),
            ("ingest", "%C3%A9", "key"),
            ("ingest", "%FF", "key"),
        ] {
            let refused = of(operation, key).unwrap_err();
            assert_eq!(refused.reason, Reason::InvalidParameter, "{operation}/{key}");
            assert!(refused.detail.starts_with(&format!("`{parameter}`")), "{}", refused.detail);
        }
        let refused = of("put", KEY).unwrap_err().detail;
        assert!(
            refused.ends_with("produce, consume, move, tests, stop, ingest, upload, replay"),
            "{refused}"
        );
    }

    #[test]
    fn each_operation_has_its_own_name() {
        for operation in &OPERATIONS {
            let same = OPERATIONS.iter().filter(|other| other.name == operation.name);
            assert_eq!(same.count(), 1, "{}", operation.name);
            let same = OPERATIONS.iter().filter(|other| other.records == operation.records);
            assert_eq!(same.count(), 1, "{}", operation.records);
        }
    }
}
