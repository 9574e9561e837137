//! Amounts of money as texts and as whole micro-units.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Number of micro-units in one unit of a currency.
const MICRO: u128 = 1_000_000;
/// Maximum number of digits of an amount before its decimal point. A quantity of 64 bits times such
/// an amount stays below 2¹²⁸.
const MOST_DIGITS: usize = 12;
/// Number of decimal places of an amount.
const PLACES: usize = 6;

/// Amount of money without its currency, in whole micro-units: zero or more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Amount(u128);

/// Error for a text that is not an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "an amount is a number like 4.50, zero or more, with at most 12 digits before the point and 6 behind it"
)]
pub struct AmountError;

impl Amount {
    /// An amount of 0.
    pub const ZERO: Self = Self(0);

    /// Creates an amount from micro-units.
    #[must_use]
    pub const fn of_micro_units(micro_units: u128) -> Self {
        Self(micro_units)
    }

    /// Returns the amount in micro-units.
    #[must_use]
    pub const fn micro_units(self) -> u128 {
        self.0
    }

    /// Adds two amounts. A sum that is out of range becomes the highest possible amount.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns true if the amount is at least `percent` per cent of `whole`.
    #[must_use]
    pub fn is_percent_of(self, percent: u32, whole: Self) -> bool {
        self.0.saturating_mul(100) >= whole.0.saturating_mul(u128::from(percent))
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / MICRO, self.0 % MICRO)
    }
}

impl FromStr for Amount {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Self, AmountError> {
        let (whole, places) = text.split_once('.').unwrap_or((text, "0"));
        let is_number = |text: &str, most: usize| {
            (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !is_number(whole, MOST_DIGITS) || !is_number(places, PLACES) {
            return Err(AmountError);
        }
        format!("{whole}{places:0<PLACES$}").parse().map(Self).map_err(|_| AmountError)
    }
}

impl TryFrom<String> for Amount {
    type Error = AmountError;

    fn try_from(text: String) -> Result<Self, AmountError> {
        text.parse()
    }
}

impl From<Amount> for String {
    fn from(amount: Amount) -> Self {
        amount.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_and_written_with_six_places() {
        for (text, written) in [
            ("4.50", "4.500000"),
            ("0", "0.000000"),
            ("007.000001", "7.000001"),
            ("999999999999.999999", "999999999999.999999"),
        ] {
            assert_eq!(text.parse::<Amount>().unwrap().to_string(), written);
        }
        for text in ["", ".5", "5.", "-1", "+1", "1,5", "1e3", "0.0000001", "1000000000000", "1.2.3", " 1"] {
            assert_eq!(text.parse::<Amount>(), Err(AmountError), "{text:?}");
        }
    }

    #[test]
    fn a_percentage_is_reached_at_its_very_amount() {
        let whole: Amount = "100.00".parse().unwrap();
        let reached = |amount: &str| amount.parse::<Amount>().unwrap().is_percent_of(80, whole);
        assert!(reached("80"));
        assert!(!reached("79.999999"));
    }
}
