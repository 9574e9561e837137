//! Safe functions around the calls of IBM MQ's client library. Everything `unsafe` in this crate is
//! in this module.
//!
//! Invariants of every call: a connection handle, and every handle made with it, is used by the
//! thread that made it and by no other ([`Connection`] is not `Send`). Structures come from
//! [`structures`], so they carry the version that determines their length. Buffers are passed with
//! their own length. Memory that a structure points to outlives the call.

mod connection;
mod library;
mod object;
mod properties;
mod structures;
mod verb;

pub(crate) use self::connection::{ChannelTls, Connection, Login, Occupied, Route};
pub(crate) use self::library::{Library, LoadError};
pub(crate) use self::object::{Got, LONGEST_WAIT, Object, Take};
pub(crate) use self::properties::{Properties, check_type};
pub(crate) use self::structures::{UTF_8, descriptor, fill, text_in};
pub(crate) use self::verb::Verb;

use libmqm_sys::{self as mq, MQLONG};

/// MQI call that failed, or ended with a warning that counts as a failure, with its reason code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} ended with reason {reason}", .verb.name())]
pub(crate) struct Refusal {
    pub(crate) verb: Verb,
    pub(crate) reason: MQLONG,
    pub(crate) effect: Effect,
}

/// Effect of an MQI call that failed or ended with a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Nothing,
    /// The call ended with a warning, so it had an effect: for example, the message may be in the
    /// unit of work.
    Something,
}

impl Refusal {
    /// Creates the refusal of a call that failed without effect.
    pub(crate) fn failed(verb: Verb, reason: MQLONG) -> Self {
        Self { verb, reason, effect: Effect::Nothing }
    }
}

/// Completion code and reason code of an MQI call, which the library sets.
#[derive(Clone, Copy, Debug)]
struct Codes {
    completion: MQLONG,
    reason: MQLONG,
}

impl Codes {
    /// Codes before an MQI call. They remain if the library does not set them, and then count as a
    /// failure.
    const UNSET: Self = Self { completion: mq::MQCC_UNKNOWN, reason: mq::MQRC_UNEXPECTED_ERROR };

    /// Checks the codes of a call. Returns the reason code of a harmless warning, or `None` without
    /// a warning.
    ///
    /// # Errors
    /// If the call failed, or ended with a warning that is not known to be harmless for this call.
    fn check(self, verb: Verb) -> Result<Option<MQLONG>, Refusal> {
        match self.completion {
            mq::MQCC_OK => Ok(None),
            mq::MQCC_WARNING if verb.harmless_warnings().contains(&self.reason) => Ok(Some(self.reason)),
            mq::MQCC_WARNING => Err(Refusal { verb, reason: self.reason, effect: Effect::Something }),
            _ => Err(Refusal::failed(verb, self.reason)),
        }
    }
}

/// Converts the length of a buffer to the type of the MQI. Buffers have at most 100 MB, the limit
/// of IBM MQ.
fn length_of(bytes: &[u8]) -> MQLONG {
    MQLONG::try_from(bytes.len()).unwrap_or(MQLONG::MAX)
}

#[cfg(test)]
mod tests {
    use libmqm_constants::lookup::ConstLookup as _;
    use libmqm_constants::mapping::MQRC_MAPSTR;

    use super::*;
    use crate::errors::During;
    use crate::reason::Reason;

    #[test]
    fn a_warning_is_a_refusal_of_its_reason_s_kind_unless_it_is_harmless_for_the_call() {
        for &verb in Verb::ALL {
            let harmless = verb.harmless_warnings();
            let mut accepted = Vec::new();
            for (reason, name) in MQRC_MAPSTR.all() {
                match (Codes { completion: mq::MQCC_WARNING, reason }).check(verb) {
                    Ok(Some(warned)) if warned == reason => accepted.push(reason),
                    Err(refusal) => {
                        assert_eq!(refusal, Refusal { verb, reason, effect: Effect::Something });
                        let failed = (Codes { completion: mq::MQCC_FAILED, reason }).check(verb).unwrap_err();
                        let during = During::LogIn { queue_manager: "QM1" };
                        let (warning, error) = (refusal.into_error(during), failed.into_error(during));
                        assert_eq!(warning.to_string(), error.to_string(), "{name}");
                    }
                    other => panic!("{}: {name}: {other:?}", verb.name()),
                }
            }
            accepted.sort_unstable();
            accepted.dedup();
            let mut listed = harmless.to_vec();
            listed.sort_unstable();
            assert_eq!(accepted, listed, "{}", verb.name());
        }
    }

    #[test]
    fn a_harmless_warning_has_words_for_the_caller_who_may_see_it() {
        for verb in [Verb::Put, Verb::Get, Verb::InquireProperty] {
            for code in verb.harmless_warnings() {
                assert!(Reason::of(*code).is_expected(), "{code}");
            }
        }
    }

    #[test]
    fn no_warning_of_a_commit_is_harmless_and_a_pending_one_is_in_doubt() {
        let pending = Codes { completion: mq::MQCC_WARNING, reason: mq::MQRC_OUTCOME_PENDING };
        assert!(pending.check(Verb::Commit).unwrap_err().may_have_committed());
        let backed_out = Codes { completion: mq::MQCC_WARNING, reason: mq::MQRC_BACKED_OUT };
        assert!(!backed_out.check(Verb::Commit).unwrap_err().may_have_committed());
    }
}
