//! Build script: turns `openapi.yaml` into the JSON document that the function serves, and into the
//! table of routes by which it decides between 404 and 405. Also sets the commit of the build.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde_norway::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../..");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let contract = root.join("openapi.yaml");
    rerun_if_changed(&contract);
    // This type, unlike serde_json's, keeps the order in which the contract was written.
    let document: Value = serde_norway::from_str(&fs::read_to_string(&contract)?)?;
    fs::write(out.join("openapi.json"), serde_json::to_string(&document)?)?;
    fs::write(out.join("routes.rs"), routes(&document)?)?;
    set_commit(&root);
    Ok(())
}

/// Returns a Rust expression with all paths of the contract and their methods.
fn routes(document: &Value) -> Result<String, Box<dyn Error>> {
    const METHODS: [&str; 7] = ["get", "head", "post", "put", "patch", "delete", "options"];
    let paths = document.get("paths").and_then(Value::as_mapping).ok_or("openapi.yaml has no paths")?;
    let mut table = String::from("&[\n");
    for (path, operations) in paths {
        let path = path.as_str().ok_or("a path of openapi.yaml is no string")?;
        let methods: Vec<_> = METHODS
            .into_iter()
            .filter(|method| operations.get(method).is_some())
            .map(str::to_ascii_uppercase)
            .collect();
        writeln!(table, "    ({path:?}, &{methods:?}),")?;
    }
    table.push(']');
    Ok(table)
}

/// Sets `COMMIT` for `env!` to the commit of the source, or to `unknown` if the source is not a Git
/// repository.
fn set_commit(root: &Path) {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").current_dir(root).args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        (output.status.success() && !text.is_empty()).then_some(text)
    };
    let commit = git(&["rev-parse", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=COMMIT={commit}");
    // The log of HEAD changes with every commit and every checkout.
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        rerun_if_changed(Path::new(&log));
    }
}

/// Asks cargo to run the build script again when an existing path changes. A missing path would
/// make it run every time.
fn rerun_if_changed(path: &Path) {
    if path.exists() {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}
