//! What `template.yaml` says of a function: its time-out and its variables, so that they cannot
//! differ here.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use serde_norway::Value;

/// A function as it is deployed.
#[derive(Clone, Debug)]
pub(crate) struct Deployed {
    pub(crate) timeout: Duration,
    pub(crate) memory_mb: u64,
    pub(crate) variables: Vec<(String, String)>,
}

#[derive(Debug)]
pub(crate) struct Template {
    root: Value,
    references: HashMap<&'static str, String>,
}

impl Template {
    /// The repository's, in which `references` say what is otherwise than its parameters' defaults,
    /// and how its resources are named.
    pub(crate) fn read(references: HashMap<&'static str, String>) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../template.yaml");
        let root = serde_norway::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        Self { root, references }
    }

    /// # Panics
    /// When a variable has a form that is not understood here.
    pub(crate) fn function(&self, logical_id: &str) -> Deployed {
        self.function_with(logical_id, &[])
    }

    /// The same where some variables are given and need not be understood.
    pub(crate) fn function_with(&self, logical_id: &str, given: &[(&str, String)]) -> Deployed {
        let globals = &self.root["Globals"]["Function"];
        let properties = &self.root["Resources"][logical_id]["Properties"];
        let number = |name: &str| properties[name].as_u64().or_else(|| globals[name].as_u64()).unwrap();
        let variables = [globals, properties]
            .into_iter()
            .filter_map(|part| part["Environment"]["Variables"].as_mapping())
            .flatten()
            .map(|(name, value)| (name.as_str().unwrap(), value))
            .filter(|(name, _)| {
                !name.starts_with("DATABASE_") && !given.iter().any(|(known, _)| known == name)
            })
            .filter_map(|(name, value)| Some((name.to_owned(), self.resolve(value)?)))
            .collect();
        Deployed {
            timeout: Duration::from_secs(number("Timeout")),
            memory_mb: number("MemorySize"),
            variables,
        }
    }

    /// A value as text; `None` if it is no value.
    fn resolve(&self, value: &Value) -> Option<String> {
        match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Tagged(tagged) if tagged.tag == "Ref" => match tagged.value.as_str().unwrap() {
                "AWS::NoValue" => None,
                "AWS::StackName" => Some("integrahub".to_owned()),
                name => self.references.get(name).cloned().or_else(|| {
                    let default = &self.root["Parameters"][name]["Default"];
                    assert!(!default.is_null(), "{name} is neither a parameter nor a known resource");
                    self.resolve(default)
                }),
            },
            Value::Tagged(tagged) if tagged.tag == "If" => {
                let condition = &self.root["Conditions"][tagged.value[0].as_str().unwrap()];
                self.resolve(&tagged.value[if self.holds(condition) { 1 } else { 2 }])
            }
            other => panic!("a variable of the template is neither text, !Ref nor !If: {other:?}"),
        }
    }

    fn holds(&self, condition: &Value) -> bool {
        match condition {
            Value::Tagged(tagged) if tagged.tag == "Not" => !self.holds(&tagged.value[0]),
            Value::Tagged(tagged) if tagged.tag == "Equals" => {
                self.resolve(&tagged.value[0]) == self.resolve(&tagged.value[1])
            }
            Value::Tagged(tagged) if tagged.tag == "Condition" => {
                self.holds(&self.root["Conditions"][tagged.value.as_str().unwrap()])
            }
            Value::Tagged(tagged) if tagged.tag == "And" => {
                tagged.value.as_sequence().unwrap().iter().all(|condition| self.holds(condition))
            }
            Value::Tagged(tagged) if tagged.tag == "Or" => {
                tagged.value.as_sequence().unwrap().iter().any(|condition| self.holds(condition))
            }
            other => panic!("a condition of the template has an unknown form: {other:?}"),
        }
    }
}
