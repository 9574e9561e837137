//! The functions of `template.yaml`, with the variables that a deployment with an existing database
//! gives them.

use std::fmt::Display;
use std::path::Path;

use serde_norway::Value;
use serde_norway::value::TaggedValue;

use crate::error::Error;
use crate::function::{Variables, repository};

/// Parameters that a deployment with the ingest cannot leave at their defaults.
const GIVEN: [(&str, &str); 1] =
    [("DatabaseSecretArn", "arn:aws:secretsmanager:us-east-1:000000000000:secret:bench")];

const NO_VALUE: &str = "AWS::NoValue";

#[derive(Debug)]
pub(crate) struct Template(Value);

impl Template {
    /// The repository's.
    pub(crate) fn read() -> Result<Self, Error> {
        Self::at(&repository().join("template.yaml"))
    }

    fn at(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)?;
        Ok(Self(serde_norway::from_str(&text).map_err(|error| unexpected(&error))?))
    }

    /// The binary of every function, and its variables.
    ///
    /// # Errors
    /// A variable has a form that is not resolved here.
    pub(crate) fn functions(&self) -> Result<Vec<(String, Variables)>, Error> {
        let globals = find(&self.0, &["Globals", "Function", "Environment", "Variables"]);
        let mut functions = Vec::new();
        for (_, resource) in members(find(&self.0, &["Resources"])) {
            let binary = find(resource, &["Metadata", "BuildProperties", "Binary"]).and_then(Value::as_str);
            let Some(binary) = binary else { continue };
            let own = find(resource, &["Properties", "Environment", "Variables"]);
            let mut variables = Variables::new();
            for (name, value) in members(globals).chain(members(own)) {
                let name = name.as_str().ok_or_else(|| unexpected(&"a variable's name is no text"))?;
                let resolved =
                    self.resolve(value).map_err(|error| unexpected(&format_args!("{name}: {error}")))?;
                variables.extend(resolved.map(|value| (name.to_owned(), value)));
            }
            functions.push((binary.to_owned(), variables));
        }
        Ok(functions)
    }

    /// References become parameters' values, or the names of resources. `None` for `AWS::NoValue`.
    fn resolve(&self, value: &Value) -> Result<Option<String>, String> {
        Ok(match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(flag) => Some(flag.to_string()),
            Value::Tagged(tagged) => return self.resolve_function(tagged),
            other => return Err(format!("{other:?} is no value of a variable")),
        })
    }

    fn resolve_function(&self, function: &TaggedValue) -> Result<Option<String>, String> {
        let argument = &function.value;
        match (function.tag.to_string().as_str(), argument) {
            ("!Ref", Value::String(name)) if name == NO_VALUE => Ok(None),
            ("!Ref", Value::String(name)) => self.parameter(name),
            ("!GetAtt", Value::String(attribute)) => Ok(Some(attribute.clone())),
            ("!If", Value::Sequence(parts)) => match parts.as_slice() {
                [Value::String(condition), then, otherwise] => {
                    self.resolve(if self.condition(condition)? { then } else { otherwise })
                }
                _ => Err("!If has other arguments than a condition and two values".to_owned()),
            },
            (tag, _) => Err(format!("{tag} is not resolved by benches/src/template.rs")),
        }
    }

    fn parameter(&self, name: &str) -> Result<Option<String>, String> {
        if let Some((_, value)) = GIVEN.iter().find(|(given, _)| *given == name) {
            return Ok(Some((*value).to_owned()));
        }
        match find(&self.0, &["Parameters", name, "Default"]) {
            Some(default) => self.resolve(default),
            None => Ok(Some(name.to_owned())),
        }
    }

    fn condition(&self, name: &str) -> Result<bool, String> {
        match find(&self.0, &["Conditions", name]) {
            Some(condition) => self.holds(condition),
            None => Err(format!("there is no condition {name}")),
        }
    }

    fn holds(&self, condition: &Value) -> Result<bool, String> {
        let Value::Tagged(function) = condition else {
            return Err("a condition is no function".to_owned());
        };
        let all = |parts: &[Value]| parts.iter().map(|part| self.holds(part)).collect::<Result<Vec<_>, _>>();
        match (function.tag.to_string().as_str(), &function.value) {
            ("!Condition", Value::String(name)) => self.condition(name),
            ("!Equals", Value::Sequence(parts)) => match parts.as_slice() {
                [one, other] => Ok(self.resolve(one)? == self.resolve(other)?),
                _ => Err("!Equals compares two values".to_owned()),
            },
            ("!Not", Value::Sequence(parts)) => Ok(!all(parts)?.contains(&true)),
            ("!And", Value::Sequence(parts)) => Ok(!all(parts)?.contains(&false)),
            ("!Or", Value::Sequence(parts)) => Ok(all(parts)?.contains(&true)),
            (tag, _) => Err(format!("{tag} is not evaluated by benches/src/template.rs")),
        }
    }
}

fn find<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| value.get(*name))
}

fn members(value: Option<&Value>) -> impl Iterator<Item = (&Value, &Value)> {
    value.and_then(Value::as_mapping).into_iter().flatten()
}

fn unexpected(what: &dyn Display) -> Error {
    Error::Unexpected(format!("template.yaml: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(function: &str) -> Variables {
        let functions = Template::read().unwrap().functions().unwrap();
        functions.into_iter().find(|(name, _)| name == function).unwrap().1
    }

    #[test]
    fn functions_have_the_variables_that_the_template_gives_them() {
        let produce = variables("produce");
        let value =
            |wanted: &str| produce.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
        assert_eq!(value("LOG_LEVEL"), Some("info"));
        assert_eq!(value("IDEMPOTENCY_EXPIRY_MIN_SECONDS"), Some("7200"));
        assert_eq!(value("ACCESS_TABLE"), Some("AccessTable"));
    }

    #[test]
    fn functions_of_the_ingest_are_those_of_a_deployment_with_an_existing_database() {
        let upsert = variables("upsert");
        let names: Vec<_> = upsert.iter().map(|(name, _)| name.as_str()).collect();
        assert!(upsert.iter().any(|(name, value)| name == "DATABASE_SECRET_ARN" && !value.is_empty()));
        assert!(!names.contains(&"DATABASE_HOST"), "AWS::NoValue leaves the variable out: {names:?}");
    }

    #[test]
    fn conditions_are_evaluated_and_an_unknown_form_is_an_error() {
        let template = |value: &str| {
            let text = format!(
                "Parameters: {{A: {{Default: x}}}}\n\
                 Conditions: {{IsX: !Equals [!Ref A, x], None: !Not [!Or [!Condition IsX, !And [!Condition IsX]]]}}\n\
                 Globals: {{Function: {{Environment: {{Variables: {{V: {value}}}}}}}}}\n\
                 Resources: {{F: {{Metadata: {{BuildProperties: {{Binary: f}}}}}}}}\n"
            );
            Template(serde_norway::from_str(&text).unwrap()).functions()
        };
        let value = |text: &str| template(text).unwrap()[0].1.first().map(|(_, value)| value.clone());
        assert_eq!(value("!If [IsX, 1, 2]").as_deref(), Some("1"));
        assert_eq!(value("!If [None, 1, !Ref A]").as_deref(), Some("x"));
        assert_eq!(value("!If [None, 1, !Ref AWS::NoValue]"), None);
        let error = template("!Sub text").unwrap_err().to_string();
        assert_eq!(error, "template.yaml: V: !Sub is not resolved by benches/src/template.rs");
    }
}
