//! Rate limits of a tenant by the second, and the text form of rate limits.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ItemError, read};

/// Range of the rate of a limit, in units per second.
const RATES: std::ops::RangeInclusive<f64> = 0.001..=1e9;
/// Highest burst that a rate limit may have.
const HIGHEST_BURST: f64 = 1e9;
/// Maximum seconds in which the burst of a limit is refilled: 30 days.
const LONGEST_WINDOW: f64 = 2_592_000.0;
/// Maximum number of targets for which a tenant has its own limits.
const MOST_TARGETS: usize = 200;

/// Rate limits of a tenant. The deployment's default replaces a limit that is not set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LimitsItem {
    /// Rate limit of all requests of the tenant together; `None` for the deployment's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Rate>,
    /// Rate limits at the tenant's target profiles (stored connection settings), by profile name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub targets: BTreeMap<String, TargetLimits>,
    /// Rate limits at inline targets (which a request names without a profile), by the name of the
    /// queue manager.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub queue_managers: BTreeMap<String, TargetLimits>,
}

/// Rate limits of one tenant at one target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TargetLimits {
    /// Limit of requests per second; `None` if it is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Rate>,
    /// Limit of messages per second; `None` if it is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<Rate>,
    /// Limit of bytes of messages per second; `None` if it is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Rate>,
}

/// Rate limit: units (for example requests) per second, and the burst that is permitted after a
/// pause.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredRate", rename_all = "camelCase")]
pub struct Rate {
    /// Rate of the limit in units (for example requests) per second, from 0.001 to 1,000,000,000.
    pub per_second: f64,
    /// Units that are admitted at once after a pause, from 1 to 1,000,000,000. The burst is at most
    /// the number of units that the rate admits in 30 days.
    pub burst: u64,
}

/// JSON members of a rate limit.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StoredRate {
    per_second: f64,
    #[serde(default)]
    burst: Option<u64>,
}

/// Reason why a rate limit is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// The rate is not a number from 0.001 to 1,000,000,000 units per second.
    #[error("a rate is a number of units a second, from 0.001 to 1000000000")]
    PerSecond,
    /// The burst is not a whole number from 1 to 1,000,000,000.
    #[error("a burst is a whole number from 1 to 1000000000")]
    Burst,
    /// The burst is more than the rate admits in 30 days.
    #[error("a burst is at most what the rate brings in 30 days")]
    Window,
    /// The text does not have the form of limits, such as `requests=100/200`.
    #[error("limits are written as `requests=100/200 messages=500/1000 bytes=1000000`: a rate, and a burst")]
    Form,
    /// The text sets the limit of a unit (for example requests) twice.
    #[error("a limit is written twice")]
    Repeated,
}

impl LimitsItem {
    /// Parses the item of a tenant's limits, given without its partition key.
    ///
    /// # Errors
    /// If the item is malformed, is of a newer version, or has limits for more than 200 targets.
    pub fn read(item: Value) -> Result<Self, ItemError> {
        let limits: Self = read(item)?;
        limits.check()?;
        Ok(limits)
    }

    /// Checks that the number of targets with limits is at most 200.
    ///
    /// # Errors
    /// [`ItemError::LimitedTargets`].
    pub fn check(&self) -> Result<(), ItemError> {
        match self.targets.len() + self.queue_managers.len() {
            0..=MOST_TARGETS => Ok(()),
            _ => Err(ItemError::LimitedTargets),
        }
    }
}

impl TargetLimits {
    /// Returns whether no limit is set.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.requests.is_none() && self.messages.is_none() && self.bytes.is_none()
    }
}

impl Rate {
    /// Creates a rate limit. If `burst` is `None`, it is the number of units of one second, rounded
    /// up.
    ///
    /// # Errors
    /// If a value is out of range.
    pub fn new(per_second: f64, burst: Option<u64>) -> Result<Self, RateError> {
        if !RATES.contains(&per_second) {
            return Err(RateError::PerSecond);
        }
        let burst = burst.unwrap_or_else(|| whole(per_second.ceil().max(1.0)));
        let units = approximate(burst);
        if !(1.0..=HIGHEST_BURST).contains(&units) {
            return Err(RateError::Burst);
        }
        if units / per_second > LONGEST_WINDOW {
            return Err(RateError::Window);
        }
        Ok(Self { per_second, burst })
    }
}

impl TryFrom<StoredRate> for Rate {
    type Error = RateError;

    fn try_from(stored: StoredRate) -> Result<Self, RateError> {
        Self::new(stored.per_second, stored.burst)
    }
}

impl FromStr for Rate {
    type Err = RateError;

    /// Parses a rate limit: rate and burst as `100/200`, or the rate alone as `100`.
    fn from_str(text: &str) -> Result<Self, RateError> {
        let (per_second, burst) = match text.split_once('/') {
            Some((per_second, burst)) => (per_second, Some(burst)),
            None => (text, None),
        };
        let per_second = per_second.parse::<f64>().map_err(|_| RateError::PerSecond)?;
        let burst = burst.map(str::parse::<u64>).transpose().map_err(|_| RateError::Burst)?;
        Self::new(per_second, burst)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.per_second, self.burst)
    }
}

impl FromStr for TargetLimits {
    type Err = RateError;

    /// Parses the limits of a target, such as `requests=100/200 messages=500/1000 bytes=1000000`.
    /// Each of the three parts is optional.
    fn from_str(text: &str) -> Result<Self, RateError> {
        let mut limits = Self::default();
        for part in text.split_whitespace() {
            let (unit, rate) = part.split_once('=').ok_or(RateError::Form)?;
            let limit = match unit {
                "requests" => &mut limits.requests,
                "messages" => &mut limits.messages,
                "bytes" => &mut limits.bytes,
                _ => return Err(RateError::Form),
            };
            if limit.replace(rate.parse()?).is_some() {
                return Err(RateError::Repeated);
            }
        }
        Ok(limits)
    }
}

impl fmt::Display for TargetLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = [("requests", self.requests), ("messages", self.messages), ("bytes", self.bytes)];
        let mut space = "";
        for (unit, rate) in limits.into_iter().filter_map(|(unit, rate)| Some((unit, rate?))) {
            write!(f, "{space}{unit}={rate}")?;
            space = " ";
        }
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a burst of that size is refused anyway")]
const fn approximate(units: u64) -> f64 {
    units as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is between 0.001 and 1,000,000,000"
)]
const fn whole(units: f64) -> u64 {
    units as u64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rate(per_second: f64, burst: u64) -> Rate {
        Rate { per_second, burst }
    }

    #[test]
    fn limits_are_read_as_they_are_written() {
        let item = json!({
            "requests": {"perSecond": 100, "burst": 200},
            "targets": {"local-qm1": {"messages": {"perSecond": 0.5}}},
            "queueManagers": {"QM1": {"bytes": {"perSecond": 1_000_000_000, "burst": 1_000_000_000}}},
        });
        let limits = LimitsItem::read(item).unwrap();
        assert_eq!(limits.requests, Some(rate(100.0, 200)));
        assert_eq!(limits.targets["local-qm1"].messages, Some(rate(0.5, 1)), "at least one at once");
        assert_eq!(limits.queue_managers["QM1"].bytes, Some(rate(1e9, 1_000_000_000)));
        assert_eq!(LimitsItem::read(serde_json::to_value(&limits).unwrap()), Ok(limits));
        assert_eq!(LimitsItem::read(json!({"version": 1})), Ok(LimitsItem::default()));
    }

    #[test]
    fn a_limit_out_of_range_or_misspelt_is_refused() {
        for refused in [
            json!({"requests": {"perSecond": 0}}),
            json!({"requests": {"perSecond": -1}}),
            json!({"requests": {"perSecond": 0.0001}}),
            json!({"requests": {"perSecond": 2e9}}),
            json!({"requests": {"burst": 5}}),
            json!({"requests": {"perSecond": 1, "burst": 0}}),
            json!({"requests": {"perSecond": 1, "burst": 1.5}}),
            json!({"requests": {"perSecond": 1, "burst": 2_000_000_000}}),
            json!({"requests": {"perSecond": 1, "burst": 3_000_000}}),
            json!({"requests": {"perSecond": 1, "brust": 5}}),
            json!({"messages": {"perSecond": 1}}),
            json!({"targets": {"orders": {"perSecond": 1}}}),
        ] {
            assert!(LimitsItem::read(refused.clone()).is_err(), "{refused}");
        }
        let many: BTreeMap<_, _> =
            (0..=MOST_TARGETS).map(|n| (n.to_string(), TargetLimits::default())).collect();
        let item = json!({"targets": many});
        assert_eq!(LimitsItem::read(item), Err(ItemError::LimitedTargets));
    }

    #[test]
    fn the_text_form_has_the_units_in_any_order() {
        let limits: TargetLimits = "bytes=1000000 requests=100/200".parse().unwrap();
        assert_eq!((limits.requests, limits.messages), (Some(rate(100.0, 200)), None));
        assert_eq!(limits.to_string(), "requests=100/200 bytes=1000000/1000000");
        assert_eq!(limits.to_string().parse::<TargetLimits>(), Ok(limits));
        assert_eq!("".parse::<TargetLimits>(), Ok(TargetLimits::default()));
        assert!("".parse::<TargetLimits>().unwrap().is_empty());
        for (text, error) in [
            ("requests", RateError::Form),
            ("request=1", RateError::Form),
            ("requests=1 requests=1", RateError::Repeated),
            ("requests=many", RateError::PerSecond),
            ("requests=NaN", RateError::PerSecond),
            ("requests=1/", RateError::Burst),
            ("requests=1/-1", RateError::Burst),
        ] {
            assert_eq!(text.parse::<TargetLimits>(), Err(error), "{text}");
        }
    }
}
