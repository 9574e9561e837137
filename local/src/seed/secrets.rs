//! Secrets of the local stack, which `passwordRef` may name.

use aws_sdk_secretsmanager::Client;
use aws_sdk_secretsmanager::primitives::Blob;

use crate::components::postgres::Postgres;
use crate::components::rabbitmq::RabbitMq;
use crate::failure::{Explain as _, Failure};
use crate::targets::{Secret, Targets};

const DATABASE: &str = "local/database";

pub(super) async fn database(secrets: Client, postgres: &Postgres) -> Result<String, Failure> {
    let explain = || format!("store the secret {DATABASE}");
    let value = postgres.secret().to_string();
    let created =
        secrets.create_secret().name(DATABASE).secret_string(value).send().await.or_explain(explain)?;
    created.arn.ok_or_else(|| Failure::new(format!("The secret {DATABASE} has no ARN.")))
}

/// Stores the stack's own secrets and the user's. A secret of the user's replaces one of the
/// stack's with the same name.
pub(super) async fn seed(secrets: Client, rabbitmq: &RabbitMq, targets: &Targets) -> Result<(), Failure> {
    // `mq/app` is the password of the user at both brokers, under a name such as a deployment would
    // have.
    let own = [
        ("local/rabbit", rabbitmq.password.as_str()),
        ("mq/app", rabbitmq.password.as_str()),
        ("local/wrong", "not-the-password"),
    ];
    let mut all = targets.secrets.clone();
    for (name, value) in own {
        all.entry(name.to_owned()).or_insert_with(|| Secret::Text(value.to_owned()));
    }
    for (name, value) in all {
        let create = secrets.create_secret().name(&name);
        let create = match value {
            Secret::Text(text) => create.secret_string(text),
            Secret::Binary(bytes) => create.secret_binary(Blob::new(bytes)),
        };
        create.send().await.or_explain(|| format!("store the secret {name}"))?;
    }
    Ok(())
}
