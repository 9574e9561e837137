//! Values of a deployment's template parameters: from its stack, or from the file that the next
//! deployment reads.

use std::collections::BTreeMap;

use toml::{Table, Value};

use crate::exit::Failure;

/// Default value of the template parameter `SecretNamePrefix`.
const SECRET_PREFIX: &str = "mq/";

/// Values of the template's parameters, by name. A parameter that is absent has the default value
/// of the template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parameters(pub(crate) BTreeMap<String, String>);

/// Settings in SAM CLI's file `samconfig.toml` that a deployment uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Name of the CloudFormation stack that a deployment updates; `None` if the file has none.
    pub(crate) stack: Option<String>,
    /// AWS region of the stack; `None` if the file has none.
    pub(crate) region: Option<String>,
    /// Values of the template's parameters.
    pub(crate) parameters: Parameters,
}

impl Parameters {
    /// Returns the value of a parameter; empty if it is not set.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", |value| value.trim())
    }

    /// Returns the elements of a parameter that is a list separated by commas.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        let members = self.get(name).split(',').map(str::trim);
        members.filter(|member| !member.is_empty()).map(str::to_owned).collect()
    }

    /// Returns the value of a numeric parameter; 0 if it is not set or not a number.
    pub(crate) fn number(&self, name: &str) -> i64 {
        self.get(name).parse().unwrap_or_default()
    }

    /// Returns whether a deployment with these parameters has the ingest.
    pub(crate) fn has_ingest(&self) -> bool {
        let has_database = !self.get("DatabaseSecretArn").is_empty()
            || ["true", "with-reader"].contains(&self.get("CreateDatabase"));
        has_database && self.get("IngestEnabled") != "false"
    }

    /// Returns the prefix of the secret names that target profiles may use.
    pub(crate) fn secret_prefix(&self) -> &str {
        match self.get("SecretNamePrefix") {
            "" => SECRET_PREFIX,
            prefix => prefix,
        }
    }
}

impl Settings {
    /// Parses one environment of `samconfig.toml`. As in SAM CLI, the settings of `deploy` take
    /// precedence over those of `global`, and `parameter_overrides` of `deploy` replaces that of
    /// `global` as a whole.
    ///
    /// # Errors
    /// If the text is not TOML, or has no such environment.
    pub(crate) fn parse(text: &str, environment: &str) -> Result<Self, Failure> {
        let document: Table = text.parse().map_err(|error: toml::de::Error| {
            Failure::usage("the settings cannot be read").why(error.to_string())
        })?;
        let found = document.get(environment).and_then(Value::as_table).ok_or_else(|| {
            Failure::usage(format!("the settings have no environment `{environment}`"))
                .next("name another one: --config-env NAME")
        })?;
        let mut settings = Self::default();
        for command in ["global", "deploy"] {
            let section = found.get(command).and_then(|command| command.get("parameters"));
            let Some(section) = section.and_then(Value::as_table) else { continue };
            let text = |name: &str| section.get(name).and_then(Value::as_str).map(str::to_owned);
            settings.stack = text("stack_name").or(settings.stack);
            settings.region = text("region").or(settings.region);
            if let Some(value) = section.get("parameter_overrides") {
                settings.parameters = Parameters(overrides(value));
            }
        }
        Ok(settings)
    }
}

/// Parses `parameter_overrides`, which is a list of `Name=value`, or a string with several of them.
/// Returns the values by name.
fn overrides(value: &Value) -> BTreeMap<String, String> {
    let texts = match value {
        Value::Array(entries) => entries.iter().filter_map(Value::as_str).flat_map(words).collect(),
        Value::String(text) => words(text),
        _ => Vec::new(),
    };
    texts.iter().filter_map(|text| pair(text)).collect()
}

/// Parses `Name=value`, or the form of AWS CLI, `ParameterKey=Name,ParameterValue=value`.
fn pair(text: &str) -> Option<(String, String)> {
    let long = text.strip_prefix("ParameterKey=").and_then(|rest| rest.split_once(",ParameterValue="));
    let (name, value) = long.or_else(|| text.split_once('='))?;
    Some((name.to_owned(), value.to_owned()))
}

/// Splits a text at spaces outside of quotes, and removes the quotes.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for character in text.chars() {
        match (character, quote) {
            ('"' | '\'', None) => quote = Some(character),
            (_, Some(open)) if open == character => quote = None,
            (_, None) if character.is_whitespace() => {
                words.push(std::mem::take(&mut word));
            }
            _ => word.push(character),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn parameters(pairs: &[(&str, &str)]) -> Parameters {
        let own = pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        Parameters(own.collect())
    }

    #[test]
    fn the_settings_of_this_repository_are_read() {
        let text = include_str!("../../../samconfig.toml");
        let production = Settings::parse(text, "production").unwrap();
        assert_eq!(production.stack.as_deref(), Some("integrahub"));
        assert_eq!(production.parameters.secret_prefix(), "production/mq/");
        assert_eq!(production.parameters.number("UpsertConcurrency"), 10);
        assert!(!production.parameters.has_ingest());
        assert!(Settings::parse(text, "staging").unwrap_err().what.contains("staging"));
        assert!(Settings::parse("a = ", "default").is_err());
    }

    #[test]
    fn parameters_of_deploy_replace_all_others_and_quotes_hold_values_together() {
        let text = r#"
            [default.global.parameters]
            stack_name = "one"
            parameter_overrides = ["A=1", 'B="x y"', "D=3"]
            [default.deploy.parameters]
            region = "sa-east-1"
            parameter_overrides = 'A=2 C="p,q , r" ParameterKey=CreateDatabase,ParameterValue=true'
            [other.global.parameters]
            parameter_overrides = ["A=1", 'B="x y"']
        "#;
        let settings = Settings::parse(text, "default").unwrap();
        let Settings { stack, region, parameters } = settings;
        assert_eq!((stack.as_deref(), region.as_deref()), (Some("one"), Some("sa-east-1")));
        assert_eq!(["A", "B", "D"].map(|name| parameters.get(name)), ["2", "", ""]);
        assert_eq!(parameters.list("C"), ["p", "q", "r"]);
        assert!(parameters.has_ingest());
        assert_eq!(parameters.secret_prefix(), "mq/");
        assert_eq!(Settings::parse(text, "other").unwrap().parameters.get("B"), "x y");
    }
}
