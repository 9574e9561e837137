//! Readiness of the stores and functions that requests depend on. The route needs no key, so its
//! response is remembered for a few seconds.

use api::Reply;
use api::readiness::Dependency;
use serde_json::json;

use crate::Status;

impl Status {
    /// Returns 200 if every dependency responds, and 503 with the same lines if one does not.
    pub(crate) async fn readiness(&self) -> Reply {
        if let Some(reply) = self.ready.get(&()) {
            return reply;
        }
        let (access, records, mq_access, ingest) = tokio::join!(
            Dependency::check("accessStore", self.access.probe()),
            Dependency::check("idempotencyStore", self.records.probe()),
            Dependency::check("mqAccess", self.mq_access.probe()),
            async {
                match &self.ingest {
                    Some(ingest) => ingest.dependencies().await,
                    None => Vec::new(),
                }
            },
        );
        let reply = reply(&[vec![access, records, mq_access], ingest].concat());
        self.ready.put((), reply.clone());
        reply
    }
}

fn reply(dependencies: &[Dependency]) -> Reply {
    let ready = dependencies.iter().all(|dependency| dependency.ok);
    let (status, word) = if ready { (200, "ok") } else { (503, "unavailable") };
    let mut reply = Reply::json(status, &json!({"status": word, "dependencies": dependencies}));
    if !ready {
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
}
