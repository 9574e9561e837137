//! Ids of load tests: how they are made and parsed.

use api::{Problem, invalid_parameter};
use idempotency::Execution;
use sha2::{Digest as _, Sha256};
use uuid::{Builder, Uuid};

/// Returns the id of the load test that a request starts: a UUID of version 7, made from the
/// tenant, the idempotency key, the request's fingerprint, and the time at which the key was first
/// claimed. A retry of the request gets the same id.
pub(crate) fn of_claim(execution: &Execution) -> Uuid {
    let Execution { tenant, idempotency_key, fingerprint, created_at, .. } = execution;
    let milliseconds = u64::try_from(created_at.as_millisecond()).unwrap_or_default();
    let mut hash = Sha256::new();
    hash.update(b"integrahub.load-test");
    for text in [tenant.as_str(), idempotency_key.as_str(), fingerprint.as_str()] {
        hash.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(text.as_bytes());
    }
    hash.update(milliseconds.to_be_bytes());
    let hash: [u8; 32] = hash.finalize().into();
    let random = hash.first_chunk().copied().unwrap_or_default();
    Builder::from_unix_timestamp_millis(milliseconds, &random).into_uuid()
}

/// Parses the id of a load test in the request parameter with this name.
///
/// # Errors
/// If the text is not a UUID in its form of 36 characters: 400.
pub(crate) fn parse(parameter: &str, text: &str) -> Result<Uuid, Problem> {
    let uuid = if text.len() == 36 { Uuid::try_parse(text).ok() } else { None };
    uuid.ok_or_else(|| invalid_parameter(parameter, "must be a UUID of the 36-character form"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::execution;

    #[test]
    fn every_attempt_makes_the_same_test_and_no_other_claim_does() {
        let first = execution();
        let id = of_claim(&first);
        assert_eq!(of_claim(&execution()), id);
        let (seconds, nanoseconds) = id.get_timestamp().unwrap().to_unix();
        let made = i64::try_from(seconds * 1_000 + u64::from(nanoseconds) / 1_000_000).unwrap();
        assert_eq!((id.get_version_num(), made), (7, first.created_at.as_millisecond()));
        let mut others = [execution(), execution(), execution()];
        others[0].tenant.push('2');
        others[1].idempotency_key.replace_range(..1, "f");
        others[2].created_at = "2026-11-22T10:00:00.001Z".parse().unwrap();
        assert!(others.iter().all(|other| of_claim(other) != id));
    }

    #[test]
    fn only_the_form_of_the_contract_is_an_id() {
        let id = of_claim(&execution());
        assert_eq!(parse("test_id", &id.to_string()), Ok(id));
        for text in [id.simple().to_string(), format!("{{{id}}}"), "1".to_owned(), String::new()] {
            let problem = parse("baseline", &text).unwrap_err();
            assert_eq!(problem.extensions["parameter"], "baseline", "{text}");
        }
    }
}
