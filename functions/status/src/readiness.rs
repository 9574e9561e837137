//! Whether what requests depend on answers.

use std::fmt::Display;
use std::time::Instant;

use api::Reply;
use serde::Serialize;
use serde_json::json;

use crate::Status;

/// One line of the answer. Names are the contract's; tables and functions stay unnamed.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Dependency {
    name: &'static str,
    ok: bool,
    latency_ms: f64,
}

impl Status {
    /// 200 where every dependency answers, and 503 with the same lines where one does not.
    pub(crate) async fn readiness(&self) -> Reply {
        let (access, records, mq_access) = tokio::join!(
            check("accessStore", self.access.probe()),
            check("idempotencyStore", self.records.probe()),
            check("mqAccess", self.mq_access.probe()),
        );
        reply(&[access, records, mq_access])
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

async fn check<E: Display>(name: &'static str, probe: impl Future<Output = Result<(), E>>) -> Dependency {
    let started = Instant::now();
    let answer = probe.await;
    let latency_ms = (started.elapsed().as_secs_f64() * 10_000.0).round() / 10.0;
    if let Err(error) = &answer {
        tracing::error!(event_type = "readiness.failed", dependency = name, error = %error, "{name} does not answer");
    }
    Dependency { name, ok: answer.is_ok(), latency_ms }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[tokio::test]
    async fn one_dependency_that_fails_is_503_and_named() {
        let good = check("accessStore", async { Ok::<_, String>(()) }).await;
        let bad = check("mqAccess", async { Err("no such function: integrahub-mq-access".to_owned()) }).await;
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
