//! Tests of callers that send a token, an API key, or both.

use aws_sdk_dynamodb::Client;
use http::HeaderValue;
use runtime::{Envelope, Sdk};
use test_support::http_server::{Server, response};
use test_support::log::Sink;
use tracing::Instrument as _;
use tracing::field::Empty;
use tracing::instrument::WithSubscriber as _;
use tracing_subscriber::layer::SubscriberExt as _;

use super::*;
use crate::caller::{API_KEY, PRODUCTS_API_KEYS, Principal, authenticate, authenticate_by};
use crate::store::AccessStore;

const DISABLED: &str = "disabled";
const MALFORMED: &str = "malformed";
const UNKNOWN: &str = "unknown";

/// Fake access table without API keys: one tenant is disabled, one has a malformed item, and one
/// does not exist.
struct Table {
    server: Server,
    sdk: Sdk,
}

impl Table {
    async fn open() -> Self {
        let server = Server::start(|request| async move {
            let asked = String::from_utf8_lossy(request.body()).into_owned();
            let answer = if asked.contains(&format!("TENANT#{DISABLED}")) {
                json!({"Item": {"pk": {"S": "-"}, "enabled": {"BOOL": false}}})
            } else if asked.contains(&format!("TENANT#{MALFORMED}")) {
                json!({"Item": {"pk": {"S": "-"}, "enabeld": {"BOOL": false}}})
            } else if asked.contains(&format!("TENANT#{UNKNOWN}")) || !asked.contains("TENANT#") {
                json!({})
            } else {
                json!({"Item": {"pk": {"S": "-"}}})
            };
            Some(response(200, answer.to_string()))
        });
        let server = server.await;
        let sdk = Sdk::at(&server.url(), "us-east-1", "none", "none").await;
        Self { server, sdk }
    }

    fn store(&self, settings: Option<TokenSettings>) -> AccessStore {
        AccessStore::new(Client::new(self.sdk.standard()), "access".to_owned()).with_tokens(settings)
    }
}

fn headers(sent: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in sent {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn bearer_of(token: &str) -> String {
    format!("Bearer {token}")
}

/// Returns the reason, the detail and the header `WWW-Authenticate` of a refusal.
fn refused(found: Result<Principal, Problem>) -> (Reason, String, Option<String>) {
    let problem = found.unwrap_err();
    let challenge = problem.headers.iter().find(|(name, _)| *name == "www-authenticate");
    (problem.reason, problem.detail.clone(), challenge.map(|(_, value)| value.clone()))
}

#[tokio::test]
async fn a_token_opens_the_routes_of_its_scopes_for_its_tenant() {
    let (key, table) = (Key::rsa("a"), Table::open().await);
    let issuer = Issuer::of(&[&key]).await;
    let store = table.store(Some(issuer.settings()));
    for scheme in ["Bearer", "bearer"] {
        let sent = headers(&[("authorization", &format!("{scheme} {}", key.token(&claims(json!({})))))]);
        let caller = authenticate(&store, &sent).await.unwrap();
        assert_eq!((caller.tenant.as_str(), caller.cnpjs()), (TENANT, None));
        assert_eq!((caller.key_name(), caller.key_id()), ("token:service-7", ""));
        assert_eq!(caller.require_any(&[Scope::MqAdmin, Scope::MqWrite]), Ok(()));
        let (reason, detail, challenge) =
            refused(caller.require_any(&[Scope::MqAdmin]).map(|()| caller.clone()));
        assert_eq!((reason, detail.as_str()), (Reason::ScopeRequired, "the token needs the scope mq:admin"));
        assert_eq!(challenge.as_deref(), Some(r#"Bearer realm="integrahub", error="insufficient_scope""#));
        // The ingest knows tenants by a UUID.
        let (reason, _, challenge) = refused(caller.tenant_id().map(|_| caller));
        assert_eq!((reason, challenge.is_some()), (Reason::TokenInvalid, true));
    }
    let tenant = "11111111-1111-4111-8111-111111111111";
    let token = bearer_of(&key.token(&claims(json!({ "tenant": tenant }))));
    let caller = authenticate_by(&store, &headers(&[("authorization", &token)]), PRODUCTS_API_KEYS).await;
    assert_eq!(caller.unwrap().tenant_id().unwrap().to_string(), tenant);
}

#[tokio::test]
async fn a_request_has_a_key_or_a_token_and_not_both() {
    let (key, table) = (Key::rsa("a"), Table::open().await);
    let issuer = Issuer::of(&[&key]).await;
    let store = table.store(Some(issuer.settings()));
    let token = bearer_of(&key.token(&claims(json!({}))));
    let wrong_token = r#"Bearer realm="integrahub", error="invalid_token""#;
    let no_token = r#"Bearer realm="integrahub""#;
    for name in PRODUCTS_API_KEYS {
        let found = authenticate(&store, &headers(&[("authorization", &token), (*name, "a key")])).await;
        let (reason, detail, challenge) = refused(found);
        assert_eq!((reason, challenge.as_deref()), (Reason::TokenInvalid, Some(wrong_token)), "{name}");
        assert_eq!(detail, "send an API key or a token, and not both");
    }
    let twice = [("authorization", token.as_str()), ("authorization", token.as_str())];
    assert_eq!(refused(authenticate(&store, &headers(&twice)).await).0, Reason::TokenInvalid);
    // Another scheme is no token, and a key counts beside it.
    let basic = [("authorization", "Basic YTpi"), (API_KEY, "a key")];
    let (reason, _, challenge) = refused(authenticate(&store, &headers(&basic)).await);
    assert_eq!((reason, challenge.as_deref()), (Reason::ApiKeyInvalid, Some(no_token)));
    for sent in [headers(&[]), headers(&[("authorization", "Basic YTpi")])] {
        let (reason, detail, challenge) = refused(authenticate(&store, &sent).await);
        assert_eq!((reason, challenge.as_deref()), (Reason::ApiKeyRequired, Some(no_token)));
        assert_eq!(
            detail,
            "send the API key in the header X-Api-Key, or a token as `Authorization: Bearer …`"
        );
    }
}

#[tokio::test]
async fn a_deployment_without_an_issuer_reads_no_token() {
    let (key, table) = (Key::rsa("a"), Table::open().await);
    let store = table.store(None);
    let token = bearer_of(&key.token(&claims(json!({}))));
    let (reason, detail, challenge) =
        refused(authenticate(&store, &headers(&[("authorization", &token)])).await);
    assert_eq!((reason, challenge), (Reason::ApiKeyRequired, None));
    assert_eq!(detail, "send the API key in the header X-Api-Key; Authorization is not read");
    let both = headers(&[("authorization", &token), (API_KEY, "a key")]);
    assert_eq!(refused(authenticate(&store, &both).await).0, Reason::ApiKeyInvalid);
}

#[tokio::test]
async fn the_token_of_a_disabled_or_removed_tenant_opens_nothing() {
    let (key, table) = (Key::rsa("a"), Table::open().await);
    let issuer = Issuer::of(&[&key]).await;
    let store = table.store(Some(issuer.settings()));
    for tenant in [DISABLED, MALFORMED, UNKNOWN] {
        let token = bearer_of(&key.token(&claims(json!({ "tenant": tenant }))));
        let (reason, detail, _) = refused(authenticate(&store, &headers(&[("authorization", &token)])).await);
        assert_eq!(reason, Reason::TokenInvalid);
        assert!(detail.contains(tenant), "{detail}");
    }
}

#[tokio::test]
async fn what_cannot_be_checked_now_can_be_sent_again() {
    let (key, table) = (Key::rsa("a"), Table::open().await);
    let issuer = Issuer::of(&[&key]).await;
    let store = table.store(Some(issuer.settings()));
    let token = bearer_of(&key.token(&claims(json!({}))));
    let sent = headers(&[("authorization", &token)]);
    table.server.stop();
    let (reason, _, challenge) = refused(authenticate(&store, &sent).await);
    assert_eq!((reason, challenge), (Reason::StoreUnavailable, None));
    issuer.answer(503, "");
    let problem = authenticate(&table.store(Some(issuer.settings())), &sent).await.unwrap_err();
    assert_eq!((problem.reason, problem.retry_after), (Reason::StoreUnavailable, Some(RETRY)));
}

#[tokio::test]
async fn the_log_names_the_caller_and_never_has_the_token() {
    let (key, table) = (Key::rsa("a"), Table::open().await);
    let issuer = Issuer::of(&[&key]).await;
    let store = table.store(Some(issuer.settings()));
    let sink = Sink::default();
    let writer = sink.clone();
    let subscriber = tracing_subscriber::registry().with(Envelope::to(move || writer.clone()));
    let expired = key.token(&claims(json!({"exp": seconds(-120)})));
    let tokens = [key.token(&claims(json!({}))), expired];
    let call = async {
        for token in &tokens {
            let span = tracing::error_span!("request", tenant = Empty, key_name = Empty, key_id = Empty);
            let sent = headers(&[("authorization", &bearer_of(token))]);
            async {
                let found = authenticate(&store, &sent).await;
                tracing::info!(event_type = "test.done", ok = found.is_ok());
            }
            .instrument(span)
            .await;
        }
    };
    call.with_subscriber(subscriber).await;
    let lines = sink.lines();
    let done: Vec<_> = lines.iter().filter(|line| line["event_type"] == "test.done").collect();
    let expected = json!({"tenant": TENANT, "key_name": "token:service-7", "ok": true});
    assert_eq!(done[0]["context"], expected);
    assert_eq!(done[1]["context"], json!({"ok": false}));
    let refused: Vec<_> = lines.iter().filter(|line| line["event_type"] == "access.token_refused").collect();
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0]["context"]["why"], "the token has expired");
    for part in tokens.iter().flat_map(|token| token.split('.').skip(1)) {
        assert!(!sink.text().contains(part));
    }
}
