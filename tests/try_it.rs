//! Test of the page at `/docs`: the first click on "Execute" succeeds for each operation, or waits
//! for a value that only the reader knows.

use std::io::Write as _;
use std::process::{Command, Stdio};

use end_to_end::{Gateway, KEY_A, LoadTests};
use serde_json::{Map, Value};

/// JavaScript that runs the page's `start.js`, and prints what it passes to Swagger UI, with the
/// media type and the example that each operation sends first. Only there the order of media types
/// and examples is still known.
const CAPTURE: &str = r#"
    const { readFileSync } = require("node:fs");
    let load;
    globalThis.window = { addEventListener: (_, listener) => { load = listener; } };
    globalThis.fetch = async () => ({ json: async () => JSON.parse(readFileSync(0, "utf8")) });
    globalThis.SwaggerUIBundle = ({ spec }) => {
      const first = {};
      for (const operation of Object.values(spec.paths).flatMap(Object.values)) {
        if (!operation.requestBody) continue;
        const [mediaType, content] = Object.entries(operation.requestBody.content)[0];
        first[operation.operationId] = { mediaType, body: Object.values(content.examples)[0].value };
      }
      process.stdout.write(JSON.stringify({ spec, first }));
    };
    (0, eval)(process.argv[1]);
    load();
"#;

/// Returns the page's content: `spec` is the contract as the page shows it, and `first` has the
/// first body of each operation.
async fn shown(gateway: &Gateway) -> Value {
    let contract = gateway.send("GET", "/openapi.json", &[], "").await.expect(200);
    let start = gateway.send("GET", "/docs/start.js", &[], "").await.expect(200);
    let start = String::from_utf8(start.bytes).unwrap();
    let mut node = Command::new("node")
        .args(["--eval", CAPTURE, "--", &start])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("Node.js 20 or later is needed: {error}"));
    node.stdin.take().unwrap().write_all(&contract.bytes).unwrap();
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the value that the page fills in for a parameter: its example, the example of its
/// schema, its default, or, if it is required, the first value of its list. Returns `None` if the
/// field is empty.
fn prefilled(contract: &Value, parameter: &Value) -> Option<String> {
    let schema = &parameter["schema"];
    let schema = match schema["$ref"].as_str() {
        Some(name) => contract.pointer(name.strip_prefix('#').unwrap()).unwrap(),
        None => schema,
    };
    let required = parameter["required"] == true;
    let value = [&parameter["example"], &schema["example"], &schema["default"]]
        .into_iter()
        .chain(required.then(|| &schema["enum"][0]))
        .find(|value| !value.is_null())?;
    Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

fn operations(contract: &Value) -> impl Iterator<Item = (&str, &str, &Map<String, Value>)> {
    let paths = contract["paths"].as_object().unwrap();
    paths.iter().flat_map(|(path, operations)| {
        let operations = operations.as_object().unwrap().iter();
        operations
            .map(move |(method, operation)| (path.as_str(), method.as_str(), operation.as_object().unwrap()))
    })
}

#[tokio::test]
async fn the_first_request_of_each_operation_succeeds_or_waits_for_a_value() {
    let gateway = Gateway::new();
    let page = shown(&gateway).await;
    let contract = &page["spec"];
    for (path, method, operation) in operations(contract) {
        let (mut headers, mut path, mut query) =
            (vec![("x-api-key".to_owned(), KEY_A.to_owned())], path.to_owned(), String::new());
        let mut waits = false;
        for parameter in operation.get("parameters").and_then(Value::as_array).into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap();
            let Some(value) = prefilled(contract, parameter) else {
                waits |= parameter["required"] == true;
                continue;
            };
            match parameter["in"].as_str().unwrap() {
                "header" => headers.push((name.to_lowercase(), value)),
                "path" => path = path.replace(&format!("{{{name}}}"), &value),
                _ => query = format!("{query}{}{name}={value}", if query.is_empty() { "?" } else { "&" }),
            }
        }
        let id = operation["operationId"].as_str().unwrap();
        if waits {
            // Nobody else knows which batch, which body, or which test.
            let known_to_few = ["{batch_id}", "{body_id}", "{test_id}"];
            assert!(known_to_few.iter().any(|name| path.contains(name)), "{id} waits for a value");
            continue;
        }
        let mut body = String::new();
        if let Some(first) = page["first"].get(id) {
            headers.push(("content-type".to_owned(), first["mediaType"].as_str().unwrap().to_owned()));
            body = first["body"].to_string();
        }
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let method = method.to_uppercase();
        let answer = gateway.send(&method, &format!("{path}{query}"), &headers, body).await;
        let text = String::from_utf8_lossy(&answer.bytes[..answer.bytes.len().min(500)]).into_owned();
        assert!(answer.status < 300, "{method} {path}{query}: {} {text}", answer.status);
        if method == "POST" && path == "/tests" {
            LoadTests::new(gateway.clone()).end(&LoadTests::id(&answer)).await;
        }
    }
}

#[tokio::test]
async fn each_visitor_has_keys_of_his_own_and_the_first_example_takes_nothing() {
    let gateway = Gateway::new();
    let key = |page: &Value, path: &str| {
        let parameters = page["spec"]["paths"][path]["post"]["parameters"].as_array().unwrap();
        let key = parameters.iter().find(|one| one["name"] == "Idempotency-Key").unwrap();
        key["example"].as_str().unwrap().parse::<uuid::Uuid>().unwrap()
    };
    let (first, second) = (shown(&gateway).await, shown(&gateway).await);
    let keys = |page| ["/messages/produce", "/messages/consume"].map(|path| key(page, path));
    let ([a, b], [c, d]) = (keys(&first), keys(&second));
    assert!(a != b && a != c && b != d && a.get_version_num() == 4);
    for (operation, member) in [("consume", "browseOnly"), ("move", "dryRun")] {
        assert_eq!(first["first"][operation]["body"][member], true, "{operation}");
    }
}
