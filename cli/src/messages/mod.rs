//! Commands about messages: produce, consume, browse, move and depth.

pub(crate) mod browse;
pub(crate) mod consume;
pub(crate) mod depth;
mod format;
pub(crate) mod move_messages;
pub(crate) mod produce;
mod received;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use uuid::{Builder, Uuid};

use crate::args::{SelectArgs, TargetArgs};
use crate::exit::Failure;
use crate::input;
use crate::output::Output;

/// JSON members of a request's body.
type Members = Map<String, Value>;

/// Returns the JSON members of a request that name its target, by `args`. `queue` is the queue that
/// the command line gives; `None` keeps that of the target.
///
/// # Errors
/// If the options name no target, or the file of the target is invalid.
async fn target(args: &TargetArgs, queue: Option<&str>) -> Result<Members, Failure> {
    let mut members = Members::new();
    if let Some(profile) = &args.target {
        members.insert("targetRef".to_owned(), profile.as_str().into());
    }
    let mut inline = match &args.target_file {
        Some(path) => input::document::<Members>(path).await?,
        None => Members::new(),
    };
    // A file may hold the body of a request as well.
    if let Some(Value::Object(target)) = inline.get("target") {
        inline = target.clone();
    }
    if members.is_empty() && inline.is_empty() {
        return Err(Failure::usage("the command names no target")
            .why("neither --target, --target-file nor INTEGRAHUB_TARGET is given")
            .next("`integrahub api GET /targets` lists the target profiles"));
    }
    if let Some(queue) = queue {
        inline.insert("queue".to_owned(), queue.into());
    }
    if !inline.is_empty() {
        members.insert("target".to_owned(), inline.into());
    }
    Ok(members)
}

/// Returns the JSON member `selector` of a consume request; `None` if no option selects messages.
fn selector(args: &SelectArgs) -> Option<Value> {
    let mut members = Members::new();
    let given = [
        ("msgIdBase64", &args.select_id),
        ("correlIdBase64", &args.select_correlation),
        ("expression", &args.r#where),
    ];
    for (name, value) in given {
        if let Some(value) = value {
            members.insert(name.to_owned(), value.as_str().into());
        }
    }
    (!members.is_empty()).then(|| members.into())
}

/// Derives the idempotency key of the request `number` of a command from `command_key`, the key of
/// the whole command. The same command with the same key sends the same keys again.
fn part_key(command_key: Uuid, number: u32) -> Uuid {
    if number == 0 {
        return command_key;
    }
    let hash: [u8; 32] = Sha256::new()
        .chain_update(command_key.as_bytes())
        .chain_update(number.to_be_bytes())
        .finalize()
        .into();
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(hash).for_each(|(byte, hashed)| *byte = hashed);
    Builder::from_random_bytes(bytes).into_uuid()
}

/// Prints the warnings that a response contains.
fn warn(answer: &Value, out: &mut Output) {
    for warning in answer.get("warnings").and_then(Value::as_array).into_iter().flatten() {
        out.note(&format!("warning: {}", warning.as_str().unwrap_or_default()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_target_is_a_profile_a_file_or_both() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("target.yaml");
        std::fs::write(&path, "broker: rabbitmq\nqueue: A\n").unwrap();
        let profile = || Some("orders".to_owned());
        for (args, queue, expected) in [
            (TargetArgs { target: profile(), target_file: None }, None, json!({"targetRef": "orders"})),
            (
                TargetArgs { target: profile(), target_file: None },
                Some("B"),
                json!({"targetRef": "orders", "target": {"queue": "B"}}),
            ),
            (
                TargetArgs { target: None, target_file: Some(path.clone()) },
                Some("B"),
                json!({"target": {"broker": "rabbitmq", "queue": "B"}}),
            ),
        ] {
            assert_eq!(Value::Object(target(&args, queue).await.unwrap()), expected);
        }
        std::fs::write(&path, "{\"target\": {\"queue\": \"A\"}, \"maxMessages\": 1}").unwrap();
        let args = TargetArgs { target: None, target_file: Some(path) };
        assert_eq!(target(&args, None).await.unwrap()["target"], json!({"queue": "A"}));
        let failure = target(&TargetArgs::default(), Some("A")).await.unwrap_err();
        assert!(failure.exit.code() == 2 && failure.next.unwrap().contains("/targets"));
    }

    #[test]
    fn each_request_of_a_run_has_its_own_key_and_another_run_has_others() {
        let command_key = Uuid::new_v4();
        assert_eq!(part_key(command_key, 0), command_key);
        let keys: std::collections::HashSet<Uuid> =
            (0..100).map(|number| part_key(command_key, number)).collect();
        assert_eq!(keys.len(), 100);
        assert_eq!(part_key(command_key, 7), part_key(command_key, 7));
        assert_ne!(part_key(command_key, 7), part_key(Uuid::new_v4(), 7));
        assert!(keys.iter().all(|key| key.get_version_num() == 4));
    }

    #[test]
    fn nothing_selected_is_no_selector() {
        assert_eq!(selector(&SelectArgs::default()), None);
        let args = SelectArgs { r#where: Some("a = 1".to_owned()), ..SelectArgs::default() };
        assert_eq!(selector(&args), Some(json!({"expression": "a = 1"})));
    }
}
