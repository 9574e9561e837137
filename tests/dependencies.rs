//! Which crates may depend on which.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const TEST_SUPPORT: &str = "test-support";
/// Kinds of dependencies that end up in a binary.
const SHIPPED: [&str; 2] = ["dependencies", "build-dependencies"];

fn manifest(path: &Path) -> Table {
    std::fs::read_to_string(path).unwrap().parse().unwrap()
}

/// The manifests of the functions and of the crates that they share.
fn deployed() -> Vec<PathBuf> {
    let members = |folder: &str| std::fs::read_dir(format!("{ROOT}/{folder}")).unwrap();
    let crates = ["functions", "shared"].into_iter().flat_map(members);
    crates.map(|entry| entry.unwrap().path().join("Cargo.toml")).collect()
}

/// The names in tables of this kind, those of single platforms too.
fn dependencies(manifest: &Table, kind: &str) -> Vec<String> {
    let platforms = manifest.get("target").and_then(Value::as_table).into_iter().flatten();
    let of_platforms = platforms.filter_map(|(_, platform)| platform.get(kind));
    let tables = manifest.get(kind).into_iter().chain(of_platforms).filter_map(Value::as_table);
    tables.flat_map(Table::keys).cloned().collect()
}

#[test]
fn nothing_that_is_deployed_contains_test_support() {
    let mut used = 0;
    for path in deployed() {
        let manifest = manifest(&path);
        for kind in SHIPPED {
            let names = dependencies(&manifest, kind);
            assert!(!names.iter().any(|name| name == TEST_SUPPORT), "{}: {kind}", path.display());
        }
        used +=
            dependencies(&manifest, "dev-dependencies").iter().filter(|name| *name == TEST_SUPPORT).count();
    }
    assert!(used > 0, "nobody's tests use it");
}

/// So that any crate may use it in its tests: a crate and its tests would see two versions of what
/// depends on the crate itself.
#[test]
fn test_support_depends_on_nothing_that_is_deployed() {
    let deployed: Vec<_> = deployed()
        .iter()
        .map(|path| manifest(path)["package"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert!(deployed.contains(&"mq".to_owned()));
    let used = manifest(&Path::new(ROOT).join(TEST_SUPPORT).join("Cargo.toml"));
    for kind in SHIPPED {
        assert!(dependencies(&used, kind).iter().all(|name| !deployed.contains(name)));
    }
}
