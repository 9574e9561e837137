//! `GET /health/ready`: whether the stores and functions that requests depend on respond. The route
//! needs no key, so its response is cached for five seconds.

use api::Reply;
use api::readiness::Dependency;
use futures_util::future::OptionFuture;
use serde_json::json;

use crate::Status;
use crate::ingest::Ingest;

/// Name of the dependency that no request needs. While it does not respond, events are only
/// published later.
const OPTIONAL_DEPENDENCY: &str = "eventTargets";

/// Part of the API's service, such as `messages`, with the dependencies that it needs.
struct ServicePart {
    /// Name of the part, as the schema `Readiness` of the OpenAPI document lists it.
    name: &'static str,
    /// Dependencies by which the part is recognized: a deployment offers the part if it has at
    /// least one of them. The part needs all of them that the deployment has.
    own: &'static [&'static str],
    /// Dependencies that this part of the service shares with others. It needs those of them that
    /// the deployment has, and having them does not make the deployment offer the part.
    also: &'static [&'static str],
}

static SERVICE_PARTS: [ServicePart; 7] = [
    ServicePart { name: "messages", own: &["mqAccess"], also: &["accessStore", "idempotencyStore"] },
    ServicePart { name: "queues", own: &["mqAccess"], also: &["accessStore"] },
    ServicePart {
        name: "largeBodies",
        own: &["resultsBucket"],
        also: &["accessStore", "idempotencyStore", "mqAccess"],
    },
    ServicePart {
        name: "loads",
        own: &["payloadBucket", "batchesTable"],
        also: &["accessStore", "idempotencyStore"],
    },
    ServicePart { name: "batches", own: &["database", "ingest"], also: &["accessStore", "secrets"] },
    ServicePart {
        name: "processing",
        own: &["database", "payloadBucket", "batchesTable", "batchesQueue", "chunksQueue", "ingest"],
        also: &["secrets", "kafka"],
    },
    ServicePart { name: "events", own: &["eventTargets"], also: &["kafka"] },
];

impl Status {
    /// Responds to `GET /health/ready`: 200 if every dependency that requests need responds,
    /// otherwise 503. The body lists all dependencies. The response may be some seconds old.
    pub(crate) async fn readiness(&self) -> Reply {
        if let Some(reply) = self.ready.get(&()) {
            return reply;
        }
        let results = self.results.as_ref();
        let (access, records, mq_access, results, ingest) = tokio::join!(
            Dependency::check("accessStore", self.access.probe()),
            Dependency::check("idempotencyStore", self.records.probe()),
            Dependency::check("mqAccess", self.mq_access.probe()),
            OptionFuture::from(results.map(|results| Dependency::check("resultsBucket", results.probe()))),
            OptionFuture::from(self.ingest.as_ref().map(Ingest::dependencies)),
        );
        let mut dependencies = vec![access, records, mq_access];
        dependencies.extend(results);
        dependencies.extend(ingest.into_iter().flatten());
        let reply = reply(&dependencies);
        self.ready.put((), reply.clone());
        reply
    }
}

fn reply(dependencies: &[Dependency]) -> Reply {
    let answers = |name: &str| dependencies.iter().find(|one| one.name == name).map(|one| one.ok);
    let there = SERVICE_PARTS.iter().filter(|part| part.own.iter().any(|&name| answers(name).is_some()));
    let (works, degraded): (Vec<&ServicePart>, Vec<&ServicePart>) =
        there.partition(|part| part.own.iter().chain(part.also).all(|&name| answers(name) != Some(false)));
    let names = |parts: &[&ServicePart]| parts.iter().map(|part| part.name).collect::<Vec<_>>();
    let is_refusing = dependencies.iter().any(|one| !one.ok && one.name != OPTIONAL_DEPENDENCY);
    let word = match (dependencies.iter().all(|one| one.ok), works.is_empty()) {
        (true, _) => "ok",
        (false, false) => "degraded",
        (false, true) => "unavailable",
    };
    let mut reply = Reply::json(
        if is_refusing { 503 } else { 200 },
        &json!({
            "status": word,
            "works": names(&works),
            "degraded": names(&degraded),
            "dependencies": dependencies,
        }),
    );
    if is_refusing {
        reply.set_header("retry-after", "5");
    }
    reply
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[tokio::test]
    async fn one_dependency_that_fails_is_503_and_named() {
        let good = Dependency::check("accessStore", async { Ok::<_, String>(()) }).await;
        let bad = async { Err("no such function: integrahub-mq-access".to_owned()) };
        let bad = Dependency::check("mqAccess", bad).await;
        assert_eq!(reply(std::slice::from_ref(&good)).status, 200);
        let reply = reply(&[good, bad]);
        assert_eq!((reply.status, reply.headers["retry-after"].as_str()), (503, "5"));
        let body: Value = serde_json::from_str(&reply.body).unwrap();
        assert_eq!(body["status"], "unavailable");
        assert_eq!(body["dependencies"][0]["ok"], true);
        assert_eq!(
            (&body["dependencies"][1]["name"], &body["dependencies"][1]["ok"]),
            (&json!("mqAccess"), &json!(false))
        );
        assert!(!reply.body.contains("integrahub"), "the error is for the log only");
    }

    fn dependencies(away: &str) -> Vec<Dependency> {
        let names = ["accessStore", "idempotencyStore", "mqAccess", "resultsBucket", "database"];
        let names = names.into_iter().chain(["payloadBucket", "batchesTable", "batchesQueue", "chunksQueue"]);
        let names = names.chain(["secrets", "kafka", "eventTargets"]);
        names.map(|name| Dependency { name: name.into(), ok: name != away, latency_ms: 1.0 }).collect()
    }

    fn answer(dependencies: &[Dependency]) -> (u16, String, String) {
        let reply = reply(dependencies);
        let body: Value = serde_json::from_str(&reply.body).unwrap();
        let degraded = body["degraded"].as_array().unwrap();
        let degraded: Vec<_> = degraded.iter().map(|name| name.as_str().unwrap()).collect();
        (reply.status, body["status"].as_str().unwrap().to_owned(), degraded.join(" "))
    }

    #[test]
    fn what_a_dependency_that_is_away_degrades_is_listed() {
        for (away, status, word, degraded) in [
            ("nothing", 200, "ok", ""),
            ("resultsBucket", 503, "degraded", "largeBodies"),
            ("mqAccess", 503, "degraded", "messages queues largeBodies"),
            ("database", 503, "degraded", "batches processing"),
            ("chunksQueue", 503, "degraded", "processing"),
            ("secrets", 503, "degraded", "batches processing"),
            ("kafka", 503, "degraded", "processing events"),
            // No request needs it.
            ("eventTargets", 200, "degraded", "events"),
        ] {
            let found = answer(&dependencies(away));
            assert_eq!((found.0, found.1.as_str(), found.2.as_str()), (status, word, degraded), "{away}");
        }
    }

    #[test]
    fn without_the_ingest_nothing_is_said_of_it() {
        let (status, word, degraded) = answer(&dependencies("accessStore")[..4]);
        assert_eq!((status, word.as_str()), (503, "unavailable"));
        assert_eq!(degraded, "messages queues largeBodies");
    }
}
