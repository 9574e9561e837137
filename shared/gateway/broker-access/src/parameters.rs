//! Reads secrets from Parameter Store with a single AWS action, `GetParameter`.

use std::error::Error;

use runtime::{ActionError, Actions};
use secrecy::ExposeSecret as _;
use serde::Deserialize;
use serde_json::json;

use crate::secrets::{Secret, Value};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Found {
    parameter: Parameter,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Parameter {
    value: String,
    version: i64,
}

/// Reads a parameter of Parameter Store, decrypted if it is a `SecureString`.
pub(crate) async fn read(actions: &Actions, name: &str) -> Result<Secret, Box<dyn Error + Send + Sync>> {
    let wanted = json!({"Name": name, "WithDecryption": true});
    let answer = actions.json("ssm", "AmazonSSM.GetParameter", &wanted).await;
    let answer = answer.map_err(|error| match error {
        // The message names the missing right: to the parameter, or to its key.
        ActionError::Refused { code, message, .. } => {
            Box::<dyn Error + Send + Sync>::from(format!("{code} {}", message.expose_secret()).trim_end())
        }
        other => other.into(),
    })?;
    // The parser's error might quote the value.
    let Found { parameter } = serde_json::from_slice(&answer).map_err(|_| "the answer has no parameter")?;
    Ok(Secret { value: Value::Text(parameter.value.into()), version: parameter.version.to_string() })
}

#[cfg(test)]
mod tests {
    use runtime::Sdk;
    use test_support::http_server::{self, Server};

    use super::*;

    /// Reads the parameter `/mq/app` from a server that responds with `status` and `answer`.
    async fn read_from(status: u16, answer: &'static str) -> Result<Secret, String> {
        let server = Server::start(move |request| async move {
            let is_expected = request.headers()["x-amz-target"] == "AmazonSSM.GetParameter"
                && request.body() == r#"{"Name":"/mq/app","WithDecryption":true}"#;
            Some(http_server::response(if is_expected { status } else { 418 }, answer))
        })
        .await;
        let sdk = Sdk::at(&server.url(), "sa-east-1", "AKIDEXAMPLE", "secret").await;
        read(&Actions::new(sdk.standard()), "/mq/app").await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_parameter_has_a_value_and_a_version() {
        let answer = r#"{"Parameter":{"Name":"/mq/app","Type":"SecureString","Value":"s3cret","Version":7}}"#;
        let Secret { value: Value::Text(value), version } = read_from(200, answer).await.unwrap() else {
            panic!("a parameter is text")
        };
        assert_eq!((value.expose_secret(), version.as_str()), ("s3cret", "7"));
    }

    #[tokio::test]
    async fn a_refusal_names_the_right_that_is_missing() {
        let denied =
            r#"{"__type":"AccessDeniedException","message":"not authorized to perform kms:Decrypt"}"#;
        assert_eq!(
            read_from(400, denied).await.unwrap_err(),
            "AccessDeniedException not authorized to perform kms:Decrypt"
        );
        let missing = read_from(400, r#"{"__type":"ParameterNotFound"}"#).await.unwrap_err();
        assert_eq!(missing, "ParameterNotFound");
    }

    #[tokio::test]
    async fn no_error_quotes_a_value() {
        let error = read_from(200, r#"{"Parameter":{"Value":12345,"Version":7}}"#).await.unwrap_err();
        assert_eq!(error, "the answer has no parameter");
    }
}
