//! What `passwordRef` may name.

use aws_sdk_secretsmanager::Client;

use crate::components::postgres::Postgres;
use crate::components::rabbitmq::RabbitMq;
use crate::failure::{Explain as _, Failure};

const DATABASE: &str = "local/database";

pub(super) async fn database(secrets: Client, postgres: &Postgres) -> Result<String, Failure> {
    let explain = || format!("store the secret {DATABASE}");
    let value = postgres.secret().to_string();
    let created =
        secrets.create_secret().name(DATABASE).secret_string(value).send().await.or_explain(explain)?;
    created.arn.ok_or_else(|| Failure::new(format!("The secret {DATABASE} has no ARN.")))
}

pub(super) async fn seed(secrets: Client, rabbitmq: &RabbitMq) -> Result<(), Failure> {
    // `mq/app` is the password of the user at both brokers, under a name such as a deployment would
    // have.
    let values = [
        ("local/rabbit", rabbitmq.password()),
        ("mq/app", rabbitmq.password()),
        ("local/wrong", "not-the-password"),
    ];
    for (name, value) in values {
        secrets
            .create_secret()
            .name(name)
            .secret_string(value)
            .send()
            .await
            .or_explain(|| format!("store the secret {name}"))?;
    }
    Ok(())
}
