//! Tests of an issuer's tokens (JWT) in place of API keys, with a program of the gateway and one of
//! the ingest. The stack has no issuer, so the tests run these programs themselves, with the
//! stack's stores.

use std::process::Stdio;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use end_to_end::{Access, Answer, contract, variable};
use http::{HeaderMap, HeaderName, HeaderValue};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use test_support::built;
use test_support::http_server::{Server, response};
use test_support::runtime_api::RuntimeApi;
use tokio::process::{Child, Command};
use uuid::Uuid;

const ISSUER: &str = "https://issuer.example.com";
const AUDIENCE: &str = "integrahub";
const TARGETS: &str = include_str!("../events/gateway/depth/targets.json");
const PRODUCTS: &str = include_str!("../events/ingest/product-ingest/delta-array.json");
/// Environment variables of the stack that either program reads.
const OF_THE_STACK: [&str; 8] = [
    "AWS_ENDPOINT_URL",
    "AWS_REGION",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "ACCESS_TABLE",
    "IDEMPOTENCY_TABLE",
    "BATCHES_TABLE",
    "PAYLOAD_BUCKET",
];

/// Stand-in for a token issuer, with one signing key and a server of its key set.
struct Issuer {
    key: EcdsaKeyPair,
    jwks: Server,
}

impl Issuer {
    async fn start() -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap();
        let point = key.public_key().as_ref();
        let (x, y) = (URL_SAFE_NO_PAD.encode(&point[1..33]), URL_SAFE_NO_PAD.encode(&point[33..]));
        let set = json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": "1", "x": x, "y": y}]}).to_string();
        let jwks = Server::start(move |_| {
            let set = set.clone();
            async move { Some(response(200, set)) }
        });
        Self { key, jwks: jwks.await }
    }

    /// Returns an `Authorization` header with a token for this tenant and scope, which expires
    /// `expires_in` seconds from now.
    fn authorization(&self, tenant: &str, scope: &str, expires_in: i64) -> String {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let expires = i64::try_from(now).unwrap() + expires_in;
        let claims = json!({
            "iss": ISSUER, "aud": AUDIENCE, "sub": "till-7", "exp": expires, "tenant": tenant, "scope": scope,
        });
        let parts = [json!({"alg": "ES256", "kid": "1"}), claims];
        let message = parts.map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
        let signature = self.key.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        format!("Bearer {message}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }
}

/// Process of a function, with the Runtime API that passes events to it.
struct Function {
    api: RuntimeApi,
    _child: Child,
}

impl Function {
    async fn start(name: &str, issuer: &Issuer) -> Self {
        let mut api = RuntimeApi::start(name).await;
        let child = Command::new(built::find(name).unwrap())
            .env_clear()
            .envs(OF_THE_STACK.map(|name| (name, variable(name))))
            .envs(["SSL_CERT_FILE"].iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("AWS_LAMBDA_RUNTIME_API", api.address())
            .env("AWS_LAMBDA_FUNCTION_NAME", name)
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256")
            .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
            .env("MQ_ACCESS_FUNCTION", "mq-access")
            .env("MAX_PAYLOAD_BYTES", "1000000")
            .env("JWT_ISSUER", ISSUER)
            .env("JWT_AUDIENCE", AUDIENCE)
            .env("JWT_JWKS_URL", issuer.jwks.url())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        api.polled().await.unwrap_or_else(|error| panic!("{name}: {error}"));
        Self { api, _child: child }
    }

    /// Passes a sample request to the function, with these headers in place of its API key and
    /// idempotency key. Returns the response.
    async fn send(&self, sample: &str, headers: &[(&str, &str)]) -> Answer {
        let mut event: Value = serde_json::from_str(sample).unwrap();
        let sent = event["headers"].as_object_mut().unwrap();
        sent.retain(|name, _| !name.ends_with("-key"));
        sent.extend(headers.iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
        let payload = event.to_string().into();
        let answered = self.api.invoker.invoke(payload, Duration::from_secs(30)).await.unwrap();
        let answered: Value = serde_json::from_slice(&answered.body).unwrap();
        let mut headers = HeaderMap::new();
        for (name, value) in answered["headers"].as_object().unwrap() {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.insert(name, HeaderValue::from_str(value.as_str().unwrap()).unwrap());
        }
        let status = u16::try_from(answered["statusCode"].as_u64().unwrap()).unwrap();
        let answer = Answer { status, headers, bytes: answered["body"].as_str().unwrap().into() };
        let http = &event["requestContext"]["http"];
        contract::hold(http["method"].as_str().unwrap(), http["path"].as_str().unwrap(), &answer);
        answer
    }
}

#[tokio::test]
async fn a_token_opens_the_routes_of_both_products_within_its_scopes_and_its_tenant() {
    let (issuer, access) = (Issuer::start().await, Access::open().await);
    let gateway = Function::start("depth", &issuer).await;
    let ingest = Function::start("product-ingest", &issuer).await;
    let [tenant, disabled, unknown] = [(); 3].map(|()| Uuid::new_v4().to_string());
    access.tenant(&tenant, json!({})).await;
    access.tenant(&disabled, json!({"enabled": false})).await;
    let api_key = access.key(&tenant, &["mq:read"], json!({})).await;

    let token = issuer.authorization(&tenant, "mq:read products:write", 300);
    let token = ("authorization", token.as_str());
    let shown = gateway.send(TARGETS, &[token]).await.expect(200);
    assert_eq!(shown.json(), json!({"targets": []}));
    ingest.send(PRODUCTS, &[token]).await.expect_problem(400, "IDEMPOTENCY_KEY_REQUIRED");
    gateway.send(TARGETS, &[("x-api-key", api_key.as_str())]).await.expect(200);

    for (function, sample) in [(&gateway, TARGETS), (&ingest, PRODUCTS)] {
        let other = issuer.authorization(&tenant, "products:read", 300);
        let refused = function.send(sample, &[("authorization", other.as_str())]).await;
        refused.expect_problem(403, "SCOPE_REQUIRED");
        let both = function.send(sample, &[token, ("x-api-key", api_key.as_str())]).await;
        both.expect_problem(401, "TOKEN_INVALID");
        for refused in [
            issuer.authorization(&disabled, "mq:read products:write", 300),
            issuer.authorization(&unknown, "mq:read products:write", 300),
            issuer.authorization(&tenant, "mq:read products:write", -120),
            format!("{}x", token.1),
        ] {
            let refused = function.send(sample, &[("authorization", refused.as_str())]).await;
            let refused = refused.expect_problem(401, "TOKEN_INVALID");
            assert!(refused.header("www-authenticate").unwrap().starts_with("Bearer "));
        }
        let without = function.send(sample, &[]).await.expect_problem(401, "API_KEY_REQUIRED");
        assert!(without.json()["detail"].as_str().unwrap().contains("Authorization: Bearer"));
    }
}
