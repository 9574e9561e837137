//! The support bundle: a file with the report, the stack with its parameters, and the last errors
//! in the logs of its functions. The file has no secret and no item of a table.

use std::io::{Cursor, Write as _};
use std::path::Path;

use jiff::Timestamp;
use serde_json::{Value, json};
use zip::ZipWriter;
use zip::result::ZipError;
use zip::write::SimpleFileOptions;

use super::report::Known;
use super::stack::Resource;
use crate::aws_query::{AwsError, AwsQuery, Stack};
use crate::context::write_private;
use crate::exit::{Explain as _, Failure};
use crate::member::number;

/// Maximum number of log events in the support bundle.
const MOST: usize = 100;
/// Maximum number of pages that are read of one log group. Pages begin with the oldest events, so
/// the latest errors are missing if a log group has more pages.
const MOST_PAGES: usize = 20;
/// CloudWatch Logs filter pattern of errors: those that a function logs, and executions that AWS
/// ended, such as timeouts.
const ERRORS: &str =
    r#"{ ($.level = "error") || (($.type = "platform.report") && ($.record.status != "success")) }"#;
/// Maximum age of a log event in the support bundle, in milliseconds.
const OLDEST: i64 = 24 * 60 * 60 * 1_000;

/// Returns the latest errors in the log groups of a stack as JSON, at most 100. For each log group
/// that cannot be read, the result has the reason.
pub(crate) async fn errors(client: &AwsQuery, resources: &Known<Vec<Resource>>) -> Vec<Value> {
    let since = Timestamp::now().as_millisecond().saturating_sub(OLDEST);
    let (mut found, mut unread) = (Vec::new(), Vec::new());
    let resources = resources.as_deref().unwrap_or_default();
    for group in resources.iter().filter(|resource| resource.kind == "AWS::Logs::LogGroup") {
        match of_group(client, &group.id, since).await {
            Ok(events) => found.extend(events),
            Err(error) => unread.push(json!({"logGroup": group.id, "unread": error.to_string()})),
        }
    }
    [last(found), unread].concat()
}

/// Returns the latest errors in one log group, at most 100. Errors before `since` (in milliseconds
/// since 1970) are left out. CloudWatch Logs returns the oldest events first.
async fn of_group(client: &AwsQuery, group: &str, since: i64) -> Result<Vec<Value>, AwsError> {
    let mut found = Vec::new();
    let take = |events: &[Value]| {
        found.extend(events.iter().map(|event| {
            json!({"logGroup": group, "timestamp": event.get("timestamp"), "message": event.get("message")})
        }));
        found = last(std::mem::take(&mut found));
    };
    client.log_events(group, since, ERRORS, MOST_PAGES, take).await?;
    Ok(found)
}

/// Returns the latest log events, at most 100, ordered by time.
fn last(mut events: Vec<Value>) -> Vec<Value> {
    events.sort_by_key(|event| number(event, "timestamp"));
    let rest = events.len().saturating_sub(MOST);
    events.split_off(rest)
}

/// Returns a stack's description as JSON for the support bundle; null if there is no stack, or it
/// is unknown.
pub(crate) fn stack(stack: &Known<Option<Stack>>) -> Value {
    match stack {
        Ok(Some(Stack { name, state, reason, parameters, outputs })) => json!({
            "name": name, "state": state, "reason": reason, "parameters": parameters, "outputs": outputs,
        }),
        _ => Value::Null,
    }
}

/// Writes the support bundle as a zip file, which only its owner can read. Each of the `documents`
/// becomes a file of JSON with its name.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn write(path: &Path, documents: &[(&str, Value)]) -> Result<(), Failure> {
    let bytes = packed(documents).or_explain(|| format!("write {}", path.display()))?;
    write_private(path, &bytes)
}

fn packed(documents: &[(&str, Value)]) -> Result<Vec<u8>, ZipError> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, document) in documents {
        zip.start_file(format!("{name}.json"), SimpleFileOptions::default())?;
        zip.write_all(format!("{document:#}\n").as_bytes())?;
    }
    Ok(zip.finish()?.into_inner())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_latest_errors_are_kept_in_their_order() {
        let events = (0..150).rev().map(|time| json!({"timestamp": time})).collect();
        let kept = last(events);
        assert_eq!((kept.len(), &kept[0]["timestamp"]), (MOST, &json!(50)));
        assert_eq!(kept[MOST - 1]["timestamp"], 149);
    }

    #[test]
    fn the_file_has_each_document() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("doctor.zip");
        let parameters = BTreeMap::from([("LogLevel".to_owned(), "info".to_owned())]);
        let described = Stack { name: "dev".to_owned(), parameters, ..Stack::default() };
        let documents = [("report", json!({"checks": []})), ("stack", stack(&Ok(Some(described))))];
        write(&path, &documents).unwrap();
        let mut archive = zip::ZipArchive::new(std::fs::File::open(&path).unwrap()).unwrap();
        assert_eq!(archive.len(), 2);
        let read: Value = serde_json::from_reader(archive.by_name("stack.json").unwrap()).unwrap();
        assert_eq!((&read["name"], &read["parameters"]["LogLevel"]), (&json!("dev"), &json!("info")));
        assert_eq!(stack(&Ok(None)), Value::Null);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;

            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "logs are for nobody else");
        }
        assert!(write(&path.join("below"), &documents).is_err());
    }
}
