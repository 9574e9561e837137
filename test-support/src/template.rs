//! Lambda functions of `template.yaml` with their binaries, limits and variables, so that tests and
//! benches run them as deployments do.

use std::collections::HashMap;
use std::time::Duration;

use serde_norway::Value;

use crate::environment::repository;

/// Lambda function with the settings that `template.yaml` gives it.
#[derive(Clone, Debug)]
pub struct Deployed {
    /// Name of the function's binary.
    pub binary: String,
    pub timeout: Duration,
    pub memory_mb: u64,
    pub variables: Vec<(String, String)>,
}

/// SAM template `template.yaml`, with values for some of its parameters and resources.
#[derive(Debug)]
pub struct Template {
    root: Value,
    references: HashMap<&'static str, String>,
    resources_have_names: bool,
}

impl Template {
    /// Reads the repository's `template.yaml`. `references` gives values to parameters in place of
    /// their defaults, and names to resources.
    pub fn read(references: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        let text = std::fs::read_to_string(repository().join("template.yaml")).unwrap();
        Self::parse(&text, references)
    }

    fn parse(text: &str, references: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        let (root, references) = (serde_norway::from_str(text).unwrap(), references.into_iter().collect());
        Self { root, references, resources_have_names: false }
    }

    /// Makes a resource without a name in `references` resolve to its logical id.
    #[must_use]
    pub fn with_resources_by_name(self) -> Self {
        Self { resources_have_names: true, ..self }
    }

    /// Returns all functions, in the template's order.
    ///
    /// # Panics
    /// If an environment variable has a form that cannot be resolved here.
    pub fn functions(&self) -> Vec<Deployed> {
        let resources = self.root["Resources"].as_mapping().unwrap().iter();
        let functions = resources.filter(|(_, resource)| binary(resource).is_some());
        functions.map(|(id, _)| self.function(id.as_str().unwrap(), |_| true)).collect()
    }

    /// Returns a function with those of its environment variables whose names `is_wanted` accepts.
    ///
    /// # Panics
    /// If there is no such function, or an accepted variable has a form that cannot be resolved
    /// here.
    pub fn function(&self, logical_id: &str, is_wanted: impl Fn(&str) -> bool) -> Deployed {
        let globals = &self.root["Globals"]["Function"];
        let resource = &self.root["Resources"][logical_id];
        let own = &resource["Properties"];
        let number = |name: &str| own[name].as_u64().or_else(|| globals[name].as_u64()).unwrap();
        let variables = [globals, own]
            .into_iter()
            .filter_map(|part| part.get("Environment")?["Variables"].as_mapping())
            .flatten()
            .map(|(name, value)| (name.as_str().unwrap(), value))
            .filter(|(name, _)| is_wanted(name))
            .filter_map(|(name, value)| Some((name.to_owned(), self.resolve(value)?)))
            .collect();
        Deployed {
            binary: binary(resource).unwrap_or_else(|| panic!("{logical_id} has no binary")).to_owned(),
            timeout: Duration::from_secs(number("Timeout")),
            memory_mb: number("MemorySize"),
            variables,
        }
    }

    /// Returns a value of the template as text; `None` for `AWS::NoValue`.
    fn resolve(&self, value: &Value) -> Option<String> {
        match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(flag) => Some(flag.to_string()),
            Value::Tagged(tagged) if tagged.tag == "Ref" => match tagged.value.as_str().unwrap() {
                "AWS::NoValue" => None,
                name => Some(self.reference(name)),
            },
            Value::Tagged(tagged) if tagged.tag == "GetAtt" && self.resources_have_names => {
                Some(tagged.value.as_str().unwrap().to_owned())
            }
            Value::Tagged(tagged) if tagged.tag == "Sub" => {
                Some(self.substitute(tagged.value.as_str().unwrap()))
            }
            Value::Tagged(tagged) if tagged.tag == "If" => {
                let chosen = if self.condition(&tagged.value[0]) { 1 } else { 2 };
                self.resolve(&tagged.value[chosen])
            }
            other => panic!("a variable of the template has an unknown form: {other:?}"),
        }
    }

    /// Returns the text of a `!Sub` that defines no variables of its own.
    fn substitute(&self, text: &str) -> String {
        let mut parts = text.split("${");
        let mut found = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, rest) = part.split_once('}').unwrap();
            found.push_str(&self.reference(name));
            found.push_str(rest);
        }
        found
    }

    fn reference(&self, name: &str) -> String {
        if let Some(value) = self.references.get(name) {
            return value.clone();
        }
        match self.root["Parameters"].get(name).and_then(|parameter| parameter.get("Default")) {
            Some(default) => self.resolve(default).unwrap(),
            // A pseudo parameter, such as `AWS::StackName`, stands for itself.
            None if self.resources_have_names || name.starts_with("AWS::") => name.to_owned(),
            None => panic!("{name} is neither a parameter with a default nor a known resource"),
        }
    }

    fn condition(&self, name: &Value) -> bool {
        self.holds(&self.root["Conditions"][name.as_str().unwrap()])
    }

    fn holds(&self, condition: &Value) -> bool {
        let Value::Tagged(tagged) = condition else { panic!("{condition:?} is no function") };
        let mut parts = tagged.value.as_sequence().into_iter().flatten();
        match tagged.tag.to_string().as_str() {
            "!Condition" => self.condition(&tagged.value),
            "!Equals" => self.resolve(&tagged.value[0]) == self.resolve(&tagged.value[1]),
            "!Not" => !self.holds(&tagged.value[0]),
            "!And" => parts.all(|part| self.holds(part)),
            "!Or" => parts.any(|part| self.holds(part)),
            _ => panic!("a condition of the template has an unknown form: {condition:?}"),
        }
    }
}

fn binary(resource: &Value) -> Option<&str> {
    resource.get("Metadata")?.get("BuildProperties")?.get("Binary")?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_the_variables_that_the_template_gives_them() {
        let functions = Template::read([]).with_resources_by_name().functions();
        let produce = functions.iter().find(|function| function.binary == "produce").unwrap();
        let value = |wanted: &str| {
            produce.variables.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
        };
        assert_eq!(value("LOG_LEVEL"), Some("info"));
        assert_eq!(value("IDEMPOTENCY_EXPIRY_DEFAULT_SECONDS"), Some("86400"));
        assert_eq!(value("ACCESS_TABLE"), Some("AccessTable"));
        assert!(produce.memory_mb > 0 && produce.timeout > Duration::ZERO);
    }

    fn value(text: &str) -> Option<String> {
        let text = format!(
            "Parameters: {{A: {{Default: x}}}}\n\
             Conditions: {{IsX: !Equals [!Ref A, x], None: !Not [!Or [!Condition IsX, !And [!Condition IsX]]]}}\n\
             Globals: {{Function: {{Timeout: 3, MemorySize: 128, Environment: {{Variables: {{V: {text}}}}}}}}}\n\
             Resources: {{F: {{Metadata: {{BuildProperties: {{Binary: f}}}}, Properties: {{}}}}}}\n"
        );
        let template = Template::parse(&text, [("Given", "y".to_owned())]);
        template.functions()[0].variables.first().map(|(_, value)| value.clone())
    }

    #[test]
    fn conditions_are_evaluated() {
        assert_eq!(value("!If [IsX, 1, 2]").as_deref(), Some("1"));
        assert_eq!(value("!If [None, 1, !Ref A]").as_deref(), Some("x"));
        assert_eq!(value("!If [None, 1, !Ref AWS::NoValue]"), None);
        assert_eq!(value("!Ref Given").as_deref(), Some("y"));
        assert_eq!(
            value("!Sub 'https://${Given}.${AWS::Region}/${A}'").as_deref(),
            Some("https://y.AWS::Region/x")
        );
    }

    #[test]
    #[should_panic(expected = "unknown form")]
    fn an_unknown_form_is_no_value() {
        value("!Join [a, [b]]");
    }

    #[test]
    #[should_panic(expected = "Other is neither")]
    fn an_unknown_resource_is_no_value() {
        value("!Ref Other");
    }
}
