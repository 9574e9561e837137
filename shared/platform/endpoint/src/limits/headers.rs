//! Header fields of the draft "RateLimit header fields for HTTP" of the IETF
//! (draft-ietf-httpapi-ratelimit-headers).
//!
//! The draft has units for requests and bytes, and none for messages, so limits of messages are in
//! no field.

use crate::limits::gcra::SECOND;
use crate::limits::policy::{Policy, Unit};

const POLICY: &str = "ratelimit-policy";
const LEFT: &str = "ratelimit";
/// Maximum number of seconds in a header field: a day.
const LONGEST: i64 = 86_400;

/// Returns the header fields `ratelimit-policy` and `ratelimit` for limits. Each limit comes with
/// the units that are left, and the time in nanoseconds until its bucket is full.
pub(crate) fn fields<'a>(
    limits: impl Iterator<Item = (&'a Policy, u64, i64)>,
) -> Vec<(&'static str, String)> {
    let (mut policies, mut left) = (Vec::new(), Vec::new());
    for (policy, remaining, time) in limits {
        let Some((name, unit)) = published(policy) else { continue };
        let burst = policy.rate.burst;
        let window = seconds(policy.pace().capacity());
        policies.push(format!("\"{name}\";q={burst};w={window}{unit}"));
        left.push(format!("\"{name}\";r={};t={}", remaining.min(burst), seconds(time)));
    }
    if policies.is_empty() {
        return Vec::new();
    }
    vec![(POLICY, policies.join(", ")), (LEFT, left.join(", "))]
}

/// Converts nanoseconds to whole seconds, rounded up, from 1 to a day.
pub(crate) fn seconds(time: i64) -> i64 {
    ((time + SECOND - 1) / SECOND).clamp(1, LONGEST)
}

/// Returns the name of a limit in the header fields, and the parameter for its unit; `None` for
/// limits of messages, which the header fields do not contain.
fn published(policy: &Policy) -> Option<(&'static str, &'static str)> {
    let unit = match policy.unit {
        Unit::Requests => "",
        Unit::Bytes => ";qu=\"content-bytes\"",
        Unit::Messages => return None,
    };
    Some((policy.name(), unit))
}
