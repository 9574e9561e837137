//! Test that no log of the stack contains a secret.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use aws_sdk_secretsmanager::Client;
use aws_sdk_secretsmanager::types::SecretListEntry;
use end_to_end::leaks;
use serde_json::Value;

/// Minimum length of a secret to search for, in bytes. Shorter ones are words that may occur
/// anywhere.
const SHORTEST: usize = 8;

/// Secrets that are recognized by their form, each with a name and a regular expression: API keys,
/// tokens, and signatures of presigned URLs.
const FORMS: [(&str, &str); 3] = [
    ("an API key", "ihub_[0-9A-Za-z]{49}"),
    ("a token", r"eyJ[0-9A-Za-z_-]{16,}[.]eyJ[0-9A-Za-z_-]{16,}[.][0-9A-Za-z_-]{16,}"),
    ("a presigned URL", "X-Amz-Signature=[0-9a-f]{64}"),
];

/// Runs `grep` over the logs. Returns each match as `file:line` with the matched text.
fn found(options: [&str; 2], logs: &[PathBuf]) -> Vec<(String, String)> {
    let output = Command::new("grep")
        .env("LC_ALL", "C")
        .args(["--text", "--with-filename", "--line-number", "--only-matching"])
        .args(options)
        .arg("--")
        .args(logs)
        .output()
        .unwrap();
    // 1 says that there is nothing.
    assert!(output.status.code().is_some_and(|code| code < 2), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let places = text.lines().filter_map(|line| {
        let (file, rest) = line.split_once(':')?;
        let (number, matched) = rest.split_once(':')?;
        Some((format!("{file}:{number}"), matched.to_owned()))
    });
    places.collect()
}

/// Returns the places where logs contain secrets, each with the name of the secret in place of its
/// value, since failures are printed. `secrets` has the name of each value.
fn leaked(secrets: &BTreeMap<String, String>, logs: &[PathBuf]) -> Vec<String> {
    let patterns = tempfile::NamedTempFile::new().unwrap();
    let lines: String = secrets.keys().map(|secret| secret.clone() + "\n").collect();
    std::fs::write(patterns.path(), lines).unwrap();
    let file = format!("--file={}", patterns.path().display());
    let known = found(["--fixed-strings", &file], logs).into_iter().map(|(place, text)| {
        let name = secrets.get(&text).cloned();
        (place, name.unwrap_or_else(|| "a secret".to_owned()))
    });
    let by_form = FORMS.into_iter().flat_map(|(name, form)| {
        let places = found(["--extended-regexp", &format!("--regexp={form}")], logs);
        places.into_iter().map(move |(place, _)| (place, name.to_owned()))
    });
    known.chain(by_form).map(|(place, name)| format!("{place}: {name}")).collect()
}

/// Returns the parts of a secret that no log may contain: the password if it is a login, otherwise
/// each line.
fn texts(secret: &str) -> Vec<String> {
    let parsed: Option<Value> = serde_json::from_str(secret).ok();
    let lines: Vec<&str> = match &parsed {
        Some(Value::Object(login)) => login.get("password").and_then(Value::as_str).into_iter().collect(),
        _ => secret.lines().collect(),
    };
    let long = lines.into_iter().filter(|line| line.len() >= SHORTEST && !line.starts_with("-----"));
    long.map(str::to_owned).collect()
}

/// Returns all values in Secrets Manager and the API keys that tests made, each with a name.
async fn secrets() -> BTreeMap<String, String> {
    let sdk = runtime::Sdk::from_environment().await.single_attempt(Duration::from_secs(20));
    let client = Client::new(&sdk);
    let keys = leaks::noted().into_iter().map(|key| (key, "an API key of a test".to_owned()));
    let mut found: BTreeMap<_, _> = keys.collect();
    let mut next = None;
    loop {
        let page = client.list_secrets().set_next_token(next).send().await.unwrap();
        for name in page.secret_list().iter().filter_map(SecretListEntry::name) {
            // Some tests delete theirs.
            let Ok(value) = client.get_secret_value().secret_id(name).send().await else { continue };
            let texts = value.secret_string().map(texts).unwrap_or_default();
            found.extend(texts.into_iter().map(|text| (text, format!("`{name}`"))));
        }
        next = page.next_token;
        if next.is_none() {
            return found;
        }
    }
}

fn logs(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "log")).collect()
}

#[test]
fn a_secret_in_a_log_is_found_and_not_printed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("functions.log");
    let key = format!("ihub_{}", "0".repeat(49));
    let part = format!("eyJ{}", "a".repeat(20));
    let token = format!("{part}.{part}.{}", "b".repeat(40));
    let signed = format!("http://b/k?X-Amz-Signature={}", "0".repeat(64));
    let lines = ["nothing", "password=correct horse", &key, &token, &signed, "\0correct horse"];
    std::fs::write(&path, lines.join("\n")).unwrap();
    let secrets = BTreeMap::from([("correct horse".to_owned(), "`mq/app`".to_owned())]);
    let mut found = leaked(&secrets, &logs(directory.path()));
    found.sort();
    let names = [(2, "`mq/app`"), (3, "an API key"), (4, "a token"), (5, "a presigned URL"), (6, "`mq/app`")];
    assert_eq!(found, names.map(|(line, name)| format!("{}:{line}: {name}", path.display())));
}

#[test]
fn of_a_login_the_password_is_secret_and_of_a_text_each_line() {
    assert_eq!(texts(r#"{"username": "postgres-user", "password": "long-enough"}"#), ["long-enough"]);
    assert_eq!(texts(r#"{"password": "short"}"#), [""; 0]);
    assert_eq!(texts("-----BEGIN KEY-----\nabcdefghij\n-----END KEY-----\n"), ["abcdefghij"]);
}

#[tokio::test]
#[ignore = "`make test` runs it after all others, whose logs it reads"]
async fn no_log_has_a_secret() {
    let directory = leaks::logs().unwrap_or_else(|| panic!("tests run by `make test`"));
    let (secrets, logs) = (secrets().await, logs(&directory));
    assert!(secrets.len() > 10 && logs.iter().any(|log| log.ends_with("functions.log")), "{logs:?}");
    assert_eq!(leaked(&secrets, &logs), [""; 0]);
}
