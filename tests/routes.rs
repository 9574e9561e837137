//! Tests of every route with every kind of API key. They fail if the contract has a route without a
//! [`Row`] here.

use std::collections::BTreeSet;

use end_to_end::{
    Access, Answer, Broker, Gateway, Ingest, KEY_A, KEY_B, Load, LoadTests, PHARMACY_KEY, READONLY_KEY,
    TENANT_A, body_of,
};
use ingestion::generate::{Catalogue, Layout};
use serde_json::{Value, json};
use uuid::Uuid;

/// Kind of API key in these tests. Rows have their expected responses in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Key with every scope, of the tenant that owns the profile and the batch in the requests.
    All,
    /// Key of the same tenant as [`Kind::All`], with scopes for reading only.
    ReadOnly,
    /// Key of the same tenant with every scope, limited to establishments that the batch does not
    /// have.
    Limited,
    /// Key of another tenant, with every scope.
    Stranger,
    /// Key of another tenant, with scopes for products only and limited to some establishments.
    Pharmacy,
    /// Key of the same tenant, with the scope for operators only.
    Operator,
    /// Request without an API key.
    None,
    /// Key that is not in the access table.
    Unknown,
    /// Key whose item in the access table has an unknown member. Without that member it would have
    /// all rights.
    Malformed,
    /// Key with all rights that is disabled.
    Disabled,
    /// Key with all rights that has expired.
    Expired,
    /// Key with all rights, of a tenant that is disabled.
    OfDisabledTenant,
    /// Key with all rights, of a tenant whose item in the access table has an unknown member.
    OfMalformedTenant,
    /// Generated key that lacks its last character.
    Damaged,
    /// Key that is limited to a text which is no CNPJ.
    Nonsense,
}

const KINDS: [Kind; 15] = [
    Kind::All,
    Kind::ReadOnly,
    Kind::Limited,
    Kind::Stranger,
    Kind::Pharmacy,
    Kind::Operator,
    Kind::None,
    Kind::Unknown,
    Kind::Malformed,
    Kind::Disabled,
    Kind::Expired,
    Kind::OfDisabledTenant,
    Kind::OfMalformedTenant,
    Kind::Damaged,
    Kind::Nonsense,
];

/// Expected response: a status, or the status and the reason of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Ok(u16),
    Problem(u16, &'static str),
}

use Expected::{Ok as Gives, Problem};

const SCOPE: Expected = Problem(403, "SCOPE_REQUIRED");
const NO_KEY: Expected = Problem(401, "API_KEY_REQUIRED");
const INVALID: Expected = Problem(401, "API_KEY_INVALID");
const NO_PROFILE: Expected = Problem(404, "TARGET_REF_NOT_FOUND");
const NO_BODY: Expected = Problem(404, "BODY_NOT_FOUND");
const NO_TEST: Expected = Problem(404, "TEST_NOT_FOUND");
const NO_BATCH: Expected = Problem(404, "BATCH_NOT_FOUND");
const NO_REQUEST: Expected = Problem(404, "REQUEST_NOT_FOUND");
const NO_ERRORS: Expected = Problem(404, "ERRORS_FILE_NOT_FOUND");
const NOTHING_FAILED: Expected = Problem(409, "BATCH_NOT_REPLAYABLE");

/// Expected responses of a route that needs a key, for the kinds from [`Kind::None`] to
/// [`Kind::Damaged`].
const REFUSED: [Expected; 8] = [NO_KEY, INVALID, INVALID, INVALID, INVALID, INVALID, INVALID, INVALID];

/// Returns the expected responses of a route that needs a key. `known` has those for the kinds up
/// to [`Kind::Operator`], and `nonsense` the one for [`Kind::Nonsense`].
fn closed(known: [Expected; 6], nonsense: Expected) -> Vec<Expected> {
    known.into_iter().chain(REFUSED).chain([nonsense]).collect()
}

fn open() -> Vec<Expected> {
    vec![Gives(200); KINDS.len()]
}

/// Route with a request for it, and the response that each kind of key must get.
pub(crate) struct Row {
    pub(crate) method: &'static str,
    pub(crate) route: &'static str,
    pub(crate) path: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    answers: Vec<Expected>,
}

impl Row {
    fn get(route: &'static str, answers: Vec<Expected>) -> Self {
        Self { method: "GET", route, path: route.to_owned(), headers: Vec::new(), body: Vec::new(), answers }
    }

    fn post(route: &'static str, body: &Value, answers: Vec<Expected>) -> Self {
        let headers = vec![("content-type", "application/json".to_owned())];
        Self { method: "POST", headers, body: body.to_string().into_bytes(), ..Self::get(route, answers) }
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    fn at(self, path: String) -> Self {
        Self { path, ..self }
    }

    /// Returns the rows of the routes of load tests: a start, the list, and three requests with the
    /// id of a test that does not exist.
    fn of_tests(target: &Value) -> [Self; 5] {
        let test = format!("/tests/{}", Uuid::now_v7());
        let of_test = || closed([NO_TEST, SCOPE, NO_TEST, NO_TEST, SCOPE, SCOPE], SCOPE);
        let starts = closed([Gives(202), SCOPE, Gives(202), NO_PROFILE, SCOPE, SCOPE], SCOPE);
        let lists = closed([Gives(200), SCOPE, Gives(200), Gives(200), SCOPE, SCOPE], SCOPE);
        let one = || Self::get("/tests/{test_id}", of_test()).at(test.clone());
        let stop = Self::get("/tests/{test_id}/stop", of_test()).at(format!("{test}/stop"));
        [
            Self::post("/tests", &body_of("/tests", target), starts),
            Self::get("/tests", lists),
            one(),
            Self { method: "DELETE", ..one() },
            Self { method: "POST", ..stop },
        ]
    }
}

/// Returns the rows of all routes. Their requests name the target and the batch of tenant A.
pub(crate) fn rows(target: &Value, batch_id: &str) -> Vec<Row> {
    let [consume, moves] = ["/messages/consume", "/messages/move"].map(|path| body_of(path, target));
    let upload = json!({"content_type": "application/json", "content_length": 2, "sha256": "ab".repeat(32)});
    let of_batch = |more: &str| format!("/v1/inovafarma/batches/{batch_id}{more}");
    let changes = |ok| closed([Gives(ok), SCOPE, Gives(ok), NO_PROFILE, SCOPE, SCOPE], SCOPE);
    let reads = || closed([Gives(200), Gives(200), Gives(200), NO_PROFILE, SCOPE, SCOPE], SCOPE);
    let loads = |ok| closed([Gives(ok), SCOPE, Gives(ok), Gives(ok), Gives(ok), SCOPE], INVALID);
    let shows = || closed([Gives(200), Gives(200), NO_BATCH, NO_BATCH, NO_BATCH, SCOPE], INVALID);
    let downloads = closed([NO_ERRORS, NO_ERRORS, NO_BATCH, NO_BATCH, NO_BATCH, SCOPE], INVALID);
    let replays = closed([NOTHING_FAILED, SCOPE, NO_BATCH, NO_BATCH, NO_BATCH, SCOPE], INVALID);
    let lists = closed([Gives(200), Gives(200), Gives(200), Gives(200), Gives(200), SCOPE], INVALID);
    let operates = closed([Gives(200), SCOPE, Gives(200), Gives(200), SCOPE, Gives(200)], SCOPE);
    let mut rows = vec![
        Row::post("/messages/produce", target, changes(201)),
        Row::post("/messages/consume", &consume, changes(200)),
        Row::post(
            "/messages/bodies",
            &json!({"size": 2, "sha256": "ab".repeat(32)}),
            closed([Gives(201), SCOPE, Gives(201), Gives(201), SCOPE, SCOPE], SCOPE),
        ),
        Row::get(
            "/messages/bodies/{body_id}",
            closed([NO_BODY, SCOPE, NO_BODY, NO_BODY, SCOPE, SCOPE], SCOPE),
        )
        .at(format!("/messages/bodies/{batch_id}.{batch_id}.2")),
        Row::post("/messages/move", &moves, changes(200)),
        Row::post("/queue/depth", target, reads()),
        Row::get("/targets", closed([Gives(200), Gives(200), Gives(200), Gives(200), SCOPE, SCOPE], SCOPE)),
        Row::post("/connections/test", target, reads()),
        Row::post("/v1/inovafarma/products", &json!([]), loads(202)).with("x-inova-load-type", "delta"),
        Row::post("/v1/inovafarma/products/uploads", &upload, loads(201)).with("x-inova-load-type", "delta"),
        Row::get("/v1/inovafarma/batches", lists),
        Row::get("/v1/inovafarma/batches/{batch_id}", shows()).at(of_batch("")),
        Row::get("/v1/inovafarma/batches/{batch_id}/errors", shows()).at(of_batch("/errors")),
        Row::get("/v1/inovafarma/batches/{batch_id}/errors.ndjson", downloads).at(of_batch("/errors.ndjson")),
        Row::post("/v1/inovafarma/batches/{batch_id}/replay", &json!({"scope": "failed"}), replays)
            .at(of_batch("/replay")),
        Row::get("/status", operates.clone()),
        Row::get("/metrics", operates),
        Row::get(
            "/limits",
            closed([Gives(200), Gives(200), Gives(200), Gives(200), Gives(200), Gives(200)], Gives(200)),
        ),
        Row::get(
            "/v1/requests/{operation}/{key}",
            closed([NO_REQUEST, NO_REQUEST, NO_REQUEST, NO_REQUEST, SCOPE, SCOPE], SCOPE),
        )
        .at(format!("/v1/requests/produce/{}", Uuid::new_v4())),
        Row::get(
            "/v1/usage",
            closed([Gives(200), Gives(200), Gives(200), Gives(200), Gives(200), Gives(200)], Gives(200)),
        ),
        Row::get("/health/live", open()),
        Row::get("/health/ready", open()),
        Row::get("/openapi.json", open()),
        Row::get("/docs", open()),
        Row::get("/docs/{file}", open()).at("/docs/swagger-ui.css".to_owned()),
        Row::get("/console", open()),
        Row::get("/console/{file}", open()).at("/console/console.css".to_owned()),
    ];
    rows.extend(Row::of_tests(target));
    rows
}

/// Returns an API key of each kind, in the order of the kinds. `None` means that no key is sent.
async fn keys(cnpj: &str) -> Vec<Option<String>> {
    let access = Access::open().await;
    let all = ["mq:read", "mq:write", "mq:admin", "products:read", "products:write", "ops:read"];
    let products = ["products:read", "products:write"];
    let known = |key: &str| Some(key.to_owned());
    let [disabled, malformed] = [(); 2].map(|()| Uuid::new_v4().to_string());
    access.tenant(&disabled, json!({"enabled": false})).await;
    access.tenant(&malformed, json!({"disabled": false})).await;
    let mut damaged = access::ApiKey::generate().unwrap().expose().to_owned();
    damaged.pop();
    vec![
        known(KEY_A),
        known(READONLY_KEY),
        Some(access.key(TENANT_A, &all, json!({"cnpjs": ["11222333000181"]})).await),
        known(KEY_B),
        known(PHARMACY_KEY),
        Some(access.key(TENANT_A, &["ops:read"], json!({})).await),
        None,
        Some(Uuid::new_v4().to_string()),
        Some(access.key(TENANT_A, &all, json!({"allCnpjs": true, "cnpj": [cnpj]})).await),
        Some(access.key(TENANT_A, &all, json!({"allCnpjs": true, "disabled": true})).await),
        Some(
            access.key(TENANT_A, &all, json!({"allCnpjs": true, "expiresAt": "2026-01-01T00:00:00Z"})).await,
        ),
        Some(access.key(&disabled, &all, json!({"allCnpjs": true})).await),
        Some(access.key(&malformed, &all, json!({"allCnpjs": true})).await),
        Some(damaged),
        Some(access.key(TENANT_A, &products, json!({"cnpjs": ["everything"]})).await),
    ]
}

/// Returns clients of the APIs to which a key of this kind sends its requests. Rights do not depend
/// on the API, so most kinds use the HTTP API only.
fn apis(kind: Kind) -> Vec<Gateway> {
    match kind {
        Kind::All | Kind::None => vec![Gateway::new(), Gateway::rest()],
        _ => vec![Gateway::new()],
    }
}

pub(crate) async fn send(row: &Row, key: Option<&str>) -> Answer {
    send_to(&Gateway::new(), row, key).await
}

async fn send_to(gateway: &Gateway, row: &Row, key: Option<&str>) -> Answer {
    let idempotency_key = Uuid::new_v4().to_string();
    let mut headers: Vec<(&str, &str)> =
        row.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    if row.method == "POST" {
        headers.push(("idempotency-key", &idempotency_key));
    }
    headers.extend(key.map(|key| ("x-api-key", key)));
    gateway.send(row.method, &row.path, &headers, row.body.clone()).await
}

#[tokio::test]
async fn each_kind_of_key_gets_from_each_route_what_it_may() {
    let (ingest, broker, access) = (Ingest::new(), Broker::connect().await, Access::open().await);
    let catalogue = Catalogue { seed: Uuid::new_v4().as_u64_pair().0, items: 3, ..Catalogue::default() };
    let batch = ingest.load(Load::delta(&catalogue.payload(Layout::Array))).await;
    let batch_id = batch["batch_id"].as_str().unwrap();
    let (queue, profile) = (broker.queue().await, access.profile(TENANT_A).await);
    let target = json!({"targetRef": profile, "target": {"queue": queue.name}});
    let mut rows = rows(&target, batch_id);
    let listed: BTreeSet<_> = rows.iter().map(|row| (row.method.to_owned(), row.route.to_owned())).collect();
    assert_eq!(listed, end_to_end::routes(), "each route of the contract has a row");
    let keys = keys(catalogue.cnpjs()[0].as_str()).await;
    for row in &mut rows {
        assert_eq!(row.answers.len(), KINDS.len());
        for ((kind, key), expected) in KINDS.into_iter().zip(&keys).zip(&row.answers) {
            let expected = match *expected {
                Gives(status) => (status, String::new()),
                Problem(status, reason) => (status, reason.to_owned()),
            };
            for gateway in apis(kind) {
                let answer = send_to(&gateway, row, key.as_deref()).await;
                let got = match answer.status {
                    status @ ..400 => (status, String::new()),
                    status => (status, answer.reason()),
                };
                assert_eq!(got, expected, "{kind:?} {} {} {gateway:?}", row.method, row.path);
                if answer.status == 202 && row.route == "/tests" {
                    // Its workers leave the tenant's others no room.
                    LoadTests::new(Gateway::new()).end(&LoadTests::id(&answer)).await;
                }
            }
        }
        // No route has this parameter. Its sender would believe that it counts.
        row.path.push_str("?pages=2");
        let answer = send(row, Some(KEY_A)).await;
        if row.answers == open() {
            answer.expect(200);
        } else {
            let problem = answer.expect_problem(400, "INVALID_PARAMETER").json();
            assert_eq!(problem["parameter"], "pages", "{} {}", row.method, row.path);
        }
    }
    broker.delete(&queue).await;
}

fn ids(page: &Value) -> Vec<&str> {
    let batches = page["batches"].as_array().unwrap();
    batches.iter().map(|batch| batch["batch_id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_key_for_some_establishments_sees_its_own_batches_from_the_202_on_and_no_others() {
    let access = Access::open().await;
    let catalogue = |cnpjs| Catalogue {
        seed: Uuid::new_v4().as_u64_pair().0,
        items: 10,
        establishments: cnpjs,
        ..Catalogue::default()
    };
    let (mine, others) = (catalogue(1), catalogue(1));
    let of = async |catalogue: &Catalogue| {
        let cnpjs: Vec<_> = catalogue.cnpjs().iter().map(ToString::to_string).collect();
        let scopes = ["products:read", "products:write"];
        access.key(TENANT_A, &scopes, json!({"cnpjs": cnpjs})).await
    };
    let (mine_only, others_only) = (of(&mine).await, of(&others).await);
    let (me, other) = (mine_only.as_str(), others_only.as_str());
    let with = |key: &str| Ingest::new().with_key(key);
    let payload = mine.payload(Layout::Array);
    let batch_id = with(me).accepted(Load::full(&payload)).await;
    let sees = async |key: &str| {
        let one = with(key).get(&batch_id, "").await.status;
        let page =
            Gateway::new().with_key(key).get("/v1/inovafarma/batches?limit=200").await.expect(200).json();
        let listed = ids(&page).contains(&batch_id.as_str());
        assert_eq!((with(key).get(&batch_id, "/errors").await.status, listed), (one, one == 200));
        one == 200
    };
    assert!(sees(me).await && !sees(other).await && sees(KEY_A).await);
    with(me).finished(&batch_id).await;
    assert!(sees(me).await && !sees(other).await && sees(KEY_A).await);

    let theirs = Ingest::new().load(Load::delta(&payload)).await;
    let theirs = theirs["batch_id"].as_str().unwrap();
    assert_eq!(with(me).get(theirs, "").await.status, 200, "it turned out to be about nothing else");
    assert_eq!(with(other).get(theirs, "").await.status, 404);
}

#[tokio::test]
async fn a_held_deactivation_is_confirmed_by_nobody_who_may_not_load_its_establishments() {
    let (ingest, access) = (Ingest::new(), Access::open().await);
    let products = end_to_end::Products::open().await;
    let catalogue = Catalogue { seed: Uuid::new_v4().as_u64_pair().0, items: 201, ..Catalogue::default() };
    ingest.load(Load::full(&catalogue.payload(Layout::Array))).await;
    let few = Catalogue { items: 1, ..catalogue };
    let held = ingest.load(Load::full(&few.payload(Layout::Array))).await;
    assert_eq!(held["deactivation"]["state"], "held");
    let scopes = ["products:read", "products:write"];
    let stranger = access.key(TENANT_A, &scopes, json!({"cnpjs": ["11222333000181"]})).await;
    let body = json!({"scope": "failed", "confirm_deactivation": true});
    let answer =
        ingest.with_key(&stranger).replay(held["batch_id"].as_str().unwrap(), Uuid::new_v4(), &body).await;
    answer.expect_problem(404, "BATCH_NOT_FOUND");
    let rows = products.of(catalogue.cnpjs()[0].as_str()).await;
    assert_eq!(rows.iter().filter(|row| row.active).count(), 201);
}
