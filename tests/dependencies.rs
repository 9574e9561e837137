//! Tests of the workspace's manifests: which crates may depend on which.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const TEST_SUPPORT: &str = "test-support";
/// Tables of a manifest whose dependencies end up in a binary, unlike `dev-dependencies`.
const SHIPPED: [&str; 2] = ["dependencies", "build-dependencies"];

fn manifest(path: &Path) -> Table {
    std::fs::read_to_string(path).unwrap().parse().unwrap()
}

/// Folders below `shared/` with the crates of each product, and with those that both products use.
const PRODUCTS: [&str; 3] = ["platform", "gateway", "ingest"];

/// Returns the paths of the manifests of all crates directly below a folder of the repository,
/// sorted.
fn manifests(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(format!("{ROOT}/{folder}")).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path().join("Cargo.toml")).collect();
    paths.retain(|path| path.is_file());
    paths.sort();
    assert!(!paths.is_empty(), "{folder}");
    paths
}

/// Returns the paths of the manifests of all functions and of the crates that they share.
fn deployed() -> Vec<PathBuf> {
    let shared = PRODUCTS.iter().map(|product| format!("shared/{product}"));
    let functions = ["functions/gateway", "functions/ingest", "functions"].map(str::to_owned);
    shared.chain(functions).flat_map(|folder| manifests(&folder)).collect()
}

fn name(manifest: &Table) -> String {
    manifest["package"]["name"].as_str().unwrap().to_owned()
}

/// Returns the names of a manifest's dependencies of one kind, including those of single platforms.
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

/// Checks that the crate `test-support` depends on no deployed crate. So any crate may use it in
/// its tests: otherwise a crate and its tests would see two versions of what depends on the crate
/// itself.
#[test]
fn test_support_depends_on_nothing_that_is_deployed() {
    let deployed: Vec<_> = deployed().iter().map(|path| name(&manifest(path))).collect();
    assert!(deployed.contains(&"mq".to_owned()));
    let used = manifest(&Path::new(ROOT).join(TEST_SUPPORT).join("Cargo.toml"));
    for kind in SHIPPED {
        assert!(dependencies(&used, kind).iter().all(|name| !deployed.contains(name)));
    }
}

/// Checks that the crates of `platform` depend on no product, the products not on each other, and
/// no function on another.
#[test]
fn dependencies_stay_within_a_product_and_the_platform() {
    let mut product_of = BTreeMap::new();
    for product in PRODUCTS {
        for path in manifests(&format!("shared/{product}")) {
            product_of.insert(name(&manifest(&path)), product);
        }
    }
    let functions: Vec<String> = ["functions/gateway", "functions/ingest", "functions"]
        .iter()
        .flat_map(|folder| manifests(folder))
        .map(|path| name(&manifest(&path)))
        .collect();
    let folders = PRODUCTS.iter().flat_map(|product| {
        [format!("shared/{product}"), format!("functions/{product}")].map(|folder| (*product, folder))
    });
    for (product, folder) in folders.filter(|(_, folder)| folder != "functions/platform") {
        for path in manifests(&folder) {
            let manifest = manifest(&path);
            let used = SHIPPED.iter().flat_map(|kind| dependencies(&manifest, kind));
            for used in used {
                assert!(!functions.contains(&used), "{} builds on the function {used}", path.display());
                let Some(other) = product_of.get(&used) else { continue };
                let may = *other == "platform" || *other == product;
                assert!(may, "{} builds on {used} of {other}", path.display());
            }
        }
    }
}

#[test]
fn the_table_of_crates_says_what_the_manifests_say() {
    let page = std::fs::read_to_string(format!("{ROOT}/docs/architecture.md")).unwrap();
    let paths = PRODUCTS.map(|product| (product, manifests(&format!("shared/{product}"))));
    let names: Vec<String> =
        paths.iter().flat_map(|(_, paths)| paths).map(|path| name(&manifest(path))).collect();
    let mut rows = String::new();
    for (product, paths) in &paths {
        for path in paths {
            let manifest = manifest(path);
            let subject = manifest["package"]["description"].as_str().unwrap();
            let mut used = dependencies(&manifest, "dependencies");
            used.retain(|used| names.contains(used));
            let used: Vec<_> = used.iter().map(|used| format!("`{used}`")).collect();
            let row = [*product, &format!("`{}`", name(&manifest)), subject, &used.join(", ")].join(" | ");
            rows.push_str(&format!("| {row} |\n"));
        }
    }
    assert!(page.contains(&rows), "the table of crates in docs/architecture.md has to be:\n{rows}");
}
