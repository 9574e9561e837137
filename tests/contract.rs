//! Tests that the contract, the template and the code agree.

use std::collections::{BTreeMap, BTreeSet};

use api::Reason;
use front::Operation;
use ingestion::product::{ATTRIBUTES, Kind, known_members};
use serde_norway::Value;

const TEMPLATE: &str = include_str!("../template.yaml");
const CONTRACT: &str = include_str!("../openapi.yaml");
const ERRORS: &str = include_str!("../docs/errors.md");

type Routes = BTreeSet<(String, String)>;

/// Returns the value behind a CloudFormation tag such as `!If`, or the value itself if it has no
/// tag.
fn untagged(value: &Value) -> &Value {
    match value {
        Value::Tagged(tagged) => &tagged.value,
        other => other,
    }
}

/// Returns the routes of each function that has some, from the template's API with this resource
/// name.
fn template_routes(api: &str) -> BTreeMap<String, Routes> {
    let template: Value = serde_norway::from_str(TEMPLATE).unwrap();
    let mut functions: BTreeMap<String, Routes> = BTreeMap::new();
    let paths = &template["Resources"][api]["Properties"]["DefinitionBody"]["paths"];
    for (path, operations) in paths.as_mapping().unwrap() {
        let path = path.as_str().unwrap();
        // Under a condition, they are the second part of an `!If`.
        let operations = match untagged(operations) {
            Value::Sequence(condition) => &condition[1],
            operations => operations,
        };
        for (method, operation) in operations.as_mapping().unwrap() {
            let uri = untagged(&operation["x-amazon-apigateway-integration"]["uri"]).as_str().unwrap();
            let (_, function) = uri.rsplit_once("/functions/${").unwrap();
            let function = function.strip_suffix(".Alias}/invocations").unwrap();
            if path != "$default" {
                let routes = functions.entry(function.to_owned()).or_default();
                routes.insert((method.as_str().unwrap().to_ascii_uppercase(), path.to_owned()));
            }
        }
    }
    functions
}

#[test]
fn the_contract_describes_exactly_the_routes_of_the_template() {
    assert_eq!(end_to_end::routes(), template_routes("Api").into_values().flatten().collect());
    assert_eq!(template_routes("Api"), template_routes("RestApi"));
}

#[test]
fn every_function_serves_the_routes_that_the_template_sends_it() {
    let served = [
        ("ProduceFunction", vec![produce::ProduceRequest::ROUTE, front::UPLOADED_BODY]),
        ("ConsumeFunction", vec![consume::ConsumeRequest::ROUTE, orders::STORED_BODY]),
        ("MoveMessagesFunction", vec![move_messages::MoveRequest::ROUTE]),
        ("DepthFunction", vec![depth::DepthRequest::ROUTE, front::TARGETS]),
        ("ConnectionTestFunction", vec![connection_test::ConnectionTestRequest::ROUTE]),
        ("LoadTestsFunction", load_tests::Endpoint::ALL.map(load_tests::Endpoint::route).to_vec()),
        ("ProductIngestFunction", vec![product_ingest::PRODUCTS, product_ingest::UPLOADS]),
        ("BatchesFunction", batches::Endpoint::ALL.map(batches::Endpoint::route).to_vec()),
        ("StatusFunction", status::Endpoint::ALL.map(status::Endpoint::route).to_vec()),
    ];
    let template = template_routes("Api");
    let served = served.map(|(function, routes)| {
        let routes = routes.iter().map(|route| (route.method.to_owned(), route.path.to_owned()));
        (function.to_owned(), routes.collect::<Routes>())
    });
    assert_eq!(template, served.into());
    let known = status::ROUTES
        .iter()
        .flat_map(|(path, methods)| methods.iter().map(|method| ((*method).to_owned(), (*path).to_owned())));
    let known: Routes = known.collect();
    let sent: Routes = template.into_values().flatten().collect();
    assert_eq!(known, sent, "what the $default route knows decides between 404 and 405");
}

#[test]
fn the_contract_lists_exactly_the_reasons_of_the_code() {
    let contract: Value = serde_norway::from_str(CONTRACT).unwrap();
    let listed = |schema: &str| -> BTreeSet<String> {
        let values = contract["components"]["schemas"][schema]["anyOf"][0]["enum"].as_sequence().unwrap();
        values.iter().map(|value| value.as_str().unwrap().to_owned()).collect()
    };
    let reasons: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.as_str().to_owned()).collect();
    let codes: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.code().to_owned()).collect();
    assert_eq!(listed("ErrorReason"), reasons);
    assert_eq!(listed("ErrorCode"), codes);
}

#[test]
fn the_page_on_errors_lists_exactly_the_reasons_of_the_code_with_their_actions() {
    let rows = Reason::ALL.iter().map(|reason| {
        let (status, name, action) = (reason.status(), reason.as_str(), reason.action());
        format!("| {status} | `{name}` | {action} |\n")
    });
    let rows: String = rows.collect();
    let table = format!("| status | reason | action |\n|---|---|---|\n{rows}\n");
    assert!(ERRORS.contains(&table), "the table of actions in docs/errors.md has to be:\n{table}");
}

/// Returns the names of the JSON types that a schema allows.
fn types(contract: &Value, schema: &Value) -> BTreeSet<String> {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let name = reference.rsplit('/').next().unwrap();
        return types(contract, &contract["components"]["schemas"][name]);
    }
    let parts = ["anyOf", "allOf"].into_iter().filter_map(|word| schema.get(word)?.as_sequence());
    let parts = parts.flatten().flat_map(|part| types(contract, part));
    let own = match schema.get("type") {
        Some(Value::Sequence(several)) => several.clone(),
        one => one.cloned().into_iter().collect(),
    };
    own.iter().map(|name| name.as_str().unwrap().to_owned()).chain(parts).collect()
}

#[test]
fn the_contract_describes_exactly_the_members_that_have_a_column() {
    let contract: Value = serde_norway::from_str(CONTRACT).unwrap();
    let properties = &contract["components"]["schemas"]["Product"]["properties"];
    let described: BTreeSet<&str> =
        properties.as_mapping().unwrap().keys().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(described, known_members().collect());
    for attribute in ATTRIBUTES {
        let expected: &[&[&str]] = match attribute.kind {
            // Codes are sent as numbers, too.
            Kind::Text => &[&["null", "string"], &["integer", "null", "string"]],
            Kind::Price | Kind::Decimal => &[&["null", "number", "string"]],
            Kind::Integer => &[&["integer", "null", "string"]],
            Kind::Time => &[&["null", "string"]],
            Kind::Json => &[],
        };
        for member in attribute.members() {
            let types = types(&contract, &properties[member]);
            let types: Vec<&str> = types.iter().map(String::as_str).collect();
            assert!(expected.contains(&types.as_slice()), "{member}: {types:?}, not one of {expected:?}");
        }
    }
}

#[test]
fn the_sample_orders_are_orders() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../events/gateway/mq-access");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let orders = files.map(|path| {
        serde_json::from_slice::<orders::WorkOrder>(&std::fs::read(&path).unwrap())
            .map_err(|error| (path, error))
    });
    assert!(orders.collect::<Result<Vec<_>, _>>().unwrap().len() >= 5);
}
