//! Who starts.

use std::path::{Path, PathBuf};

use tokio::process::Command;

use crate::error::Error;
use crate::function::{Function, Variables, repository};

/// The function that there is in Node.js too.
pub(crate) const PRODUCE: &str = "produce";
pub(crate) const NODE: &str = "produce in Node.js";
pub(crate) const NODE_BUNDLED: &str = "produce in Node.js, bundled";

#[derive(Debug)]
pub(crate) struct Contender {
    name: String,
    program: PathBuf,
    arguments: Vec<PathBuf>,
    variables: Variables,
    deployed: PathBuf,
}

/// Every function of the template, and where Node.js is installed, its equals of `produce`.
pub(crate) fn all(endpoint: &str, node: &Path) -> Result<Vec<Contender>, Error> {
    let mut contenders = Vec::new();
    for mut function in Function::all()? {
        let binary = function.binary()?;
        function.variables.push(("AWS_ENDPOINT_URL".to_owned(), endpoint.to_owned()));
        contenders.push(Contender {
            program: binary.clone(),
            arguments: Vec::new(),
            deployed: binary,
            variables: function.variables,
            name: function.name,
        });
    }
    contenders.sort_by_key(|contender| contender.name != PRODUCE);
    let variables = contenders.first().map(|produce| produce.variables.clone()).unwrap_or_default();
    for (name, directory) in [(NODE, "plain"), (NODE_BUNDLED, "bundled")] {
        let deployed = node.join(directory);
        if !deployed.join("handler.mjs").exists() {
            continue;
        }
        let deployed = deployed.canonicalize()?;
        let mut variables = variables.clone();
        let module = deployed.join("handler.mjs").display().to_string();
        variables.push(("HANDLER_MODULE".to_owned(), module));
        // It would print that the SDK wants a newer Node.js from 2027 on.
        let quiet = "AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED";
        variables.push((quiet.to_owned(), "true".to_owned()));
        contenders.push(Contender {
            name: name.to_owned(),
            program: PathBuf::from("node"),
            arguments: vec![repository().join("benches/node/runtime.mjs")],
            variables,
            deployed,
        });
    }
    Ok(contenders)
}

impl Contender {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn variables(&self) -> &Variables {
        &self.variables
    }

    /// Returns the path of what is uploaded.
    pub(crate) fn deployed(&self) -> &Path {
        &self.deployed
    }

    /// Whether it is `produce`, in whatever language.
    pub(crate) fn parses(&self) -> bool {
        self.name.starts_with(PRODUCE)
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        command
    }
}
