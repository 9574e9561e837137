//! `GET /targets`: lists the caller's target profiles, without their hosts and secrets.

use std::collections::BTreeMap;

use access::Scope;
use api::{Problem, Reply, Route};
use endpoint::{Keyed, check_route};
use lambda_http::{Body, Request, Response};
use mq::{BrokerKind, Profile};
use serde_json::{Value, json};

use crate::checks::Front;

/// Route that lists the target profiles of a tenant.
pub const TARGETS: Route = Route::get("/targets");

/// Scopes of which a caller needs one to list profiles: a caller that may use a target may know its
/// name.
const SCOPES: &[Scope] = &[Scope::MqRead, Scope::MqWrite, Scope::MqAdmin];

impl Front {
    /// Responds with the target profiles of the caller's tenant.
    pub async fn targets(&self, request: Request) -> Response<Body> {
        endpoint::serve(self.service, TARGETS, Keyed::No, request.headers(), async |_| {
            check_route(TARGETS, &request)?;
            let principal = self.authenticate(request.headers(), SCOPES).await?;
            self.admission(&principal).await?.unrecorded(self.profiles(&principal.tenant)).await
        })
        .await
    }

    async fn profiles(&self, tenant: &str) -> Result<Reply, Problem> {
        Ok(Reply::json(200, &list(self.access.profiles(tenant).await?)))
    }
}

fn list(profiles: BTreeMap<String, Profile>) -> Value {
    let targets: Vec<_> = profiles.into_iter().map(|(name, profile)| shown(&name, profile)).collect();
    json!({ "targets": targets })
}

/// Returns the members of a profile that its users may see, without hosts, users and secrets.
fn shown(name: &str, profile: Profile) -> Value {
    let broker = profile.target.broker.unwrap_or_default();
    let queue_manager = profile.target.queue_manager.map(String::from);
    let queue_manager = match broker {
        BrokerKind::IbmMq => queue_manager,
        BrokerKind::RabbitMq => {
            queue_manager.filter(|name| !name.is_empty()).or_else(|| Some("/".to_owned()))
        }
    };
    let own = profile.target.queue.map(String::from);
    let others = profile.queues.into_iter().filter(|pattern| Some(pattern) != own.as_ref());
    let queues: Vec<_> = own.iter().cloned().chain(others).collect();
    json!({"name": name, "broker": broker, "queueManager": queue_manager, "queues": queues})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_shown_with_its_queues_and_without_hosts_and_secrets() {
        let profiles: BTreeMap<String, Profile> = serde_json::from_value(json!({
            "stock": {
                "target": {
                    "broker": "rabbitmq", "connName": "mq.example.com:5671", "queue": "STOCK",
                    "auth": {"user": "app", "passwordRef": "secret://mq/stock"},
                },
                "queues": ["STOCK", "STOCK.*"],
            },
            "orders": {"target": {"queueManager": "QM1", "channel": "APP.SVRCONN", "connName": "mq.example.com:1414"}},
            "any": {"target": {"broker": "rabbitmq", "queueManager": "eu"}, "queues": ["*"]},
        }))
        .unwrap();
        let expected = json!({"targets": [
            {"name": "any", "broker": "rabbitmq", "queueManager": "eu", "queues": ["*"]},
            {"name": "orders", "broker": "ibmmq", "queueManager": "QM1", "queues": []},
            {"name": "stock", "broker": "rabbitmq", "queueManager": "/", "queues": ["STOCK", "STOCK.*"]},
        ]});
        assert_eq!(list(profiles), expected);
    }
}
