//! Prices of an operator's rate card, and the amounts that follow from them.
//!
//! An amount is a whole number of micro-units of the card's currency (`"1.234500"` is 1,234,500 of
//! them), so no sum depends on its order. For each price the quantities are added first, then
//! multiplied, divided by `per`, and rounded to a micro-unit once, half of one upwards. Amounts of
//! parts (days of a month, tenants) may therefore differ from the whole's by half a micro-unit for
//! each price and part.

mod amount;

use std::collections::{BTreeMap, BTreeSet};

use attempt::Malformed;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use amount::{Amount, AmountError};

/// Maximum number of prices on a rate card.
const MOST_RATES: usize = 200;
/// Maximum number of characters of an operation's name.
const LONGEST_OPERATION: usize = 64;
/// Operation name of a price that applies to all operations without their own price for the unit.
const ANY: &str = "*";

/// Rate card: the operator's prices, all in one currency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "StoredCard", into = "StoredCard")]
pub struct RateCard {
    currency: String,
    rates: Vec<Rate>,
}

/// Price of one operation for a number of units (for example messages), or of all operations that
/// have no price of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Name of the operation that the price is for, or `*` for any.
    pub operation: String,
    /// Quantity that the price is for, for example messages.
    pub unit: Unit,
    /// Number of units that the price is for, 1 or more.
    pub per: u64,
    /// Price of `per` units.
    pub price: Amount,
}

/// Quantity that a price is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// Requests that ended, including failed ones. Replays and refusals are free.
    Requests,
    /// Messages that were put, received or moved.
    Messages,
    /// Bytes of messages that were put, received or moved, and bytes of catalogues that the ingest
    /// loaded.
    Bytes,
    /// Catalogues that the ingest loaded.
    Batches,
    /// Items of the catalogues that the ingest loaded, whatever their outcome.
    Items,
}

/// Quantities of one operation, as [`RateCard::amount`] bills them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantities<'a> {
    /// Name of the operation, such as `produce`.
    pub operation: &'a str,
    /// Number of requests that ended.
    pub requests: u64,
    /// Number of messages that were put, received or moved.
    pub messages: u64,
    /// Bytes of the messages, and of the catalogues.
    pub bytes: u64,
    /// Number of catalogues, each of which is a batch that has ended.
    pub batches: u64,
    /// Number of items in the catalogues.
    pub items: u64,
}

/// Fault of a rate card. The number of a variant is the position of the faulty price, from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateCardError {
    /// A member of the rate card is missing, unknown, or of the wrong type.
    #[error("it is malformed")]
    Form(#[from] Malformed),
    /// The currency is no code of ISO 4217.
    #[error("the currency is a code of three capital letters, such as USD")]
    Currency,
    /// The rate card has more than 200 prices.
    #[error("a rate card has at most {MOST_RATES} rates")]
    TooMany,
    /// The operation's name in this price is malformed.
    #[error(
        "rate {0}: an operation is * or a name of lower-case letters, digits, hyphens and underscores, such as produce"
    )]
    Operation(usize),
    /// The unit of the price is unknown.
    #[error("rate {0}: a unit is requests, messages, bytes, batches or items")]
    Unit(usize),
    /// The quantity that the price is for is 0.
    #[error("rate {0}: per is the quantity that the price is for, 1 or more")]
    Per(usize),
    /// The price is not an amount.
    #[error("rate {0}: the price cannot be read")]
    Price(usize, #[source] AmountError),
    /// An earlier price has the same operation and unit.
    #[error("rate {0}: an earlier rate has the same operation and unit")]
    Repeated(usize),
}

/// JSON members of a rate card.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredCard {
    currency: String,
    rates: Vec<StoredRate>,
}

/// JSON members of a price on the rate card.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredRate {
    operation: String,
    unit: String,
    per: u64,
    price: String,
}

impl Unit {
    const ALL: [Self; 5] = [Self::Requests, Self::Messages, Self::Bytes, Self::Batches, Self::Items];

    /// Returns the unit's name on a rate card.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Messages => "messages",
            Self::Bytes => "bytes",
            Self::Batches => "batches",
            Self::Items => "items",
        }
    }
}

impl Quantities<'_> {
    const fn of(&self, unit: Unit) -> u64 {
        match unit {
            Unit::Requests => self.requests,
            Unit::Messages => self.messages,
            Unit::Bytes => self.bytes,
            Unit::Batches => self.batches,
            Unit::Items => self.items,
        }
    }
}

impl Rate {
    /// Returns the price of a quantity, rounded to the nearest micro-unit, halves upwards.
    fn of(&self, quantity: u128) -> Amount {
        let per = u128::from(self.per);
        let product = quantity.saturating_mul(self.price.micro_units());
        let rounds_up = product % per >= per.div_ceil(2);
        Amount::of_micro_units((product / per).saturating_add(u128::from(rounds_up)))
    }
}

impl RateCard {
    /// Parses a rate card from JSON.
    ///
    /// # Errors
    /// If the document or its currency is malformed, it has too many prices, or a price is invalid
    /// or given twice.
    pub fn parse(json: &[u8]) -> Result<Self, RateCardError> {
        attempt::malformed::from_slice::<StoredCard>(json)?.try_into()
    }

    /// Parses a rate card from a JSON value.
    ///
    /// # Errors
    /// Returns the errors of [`RateCard::parse()`].
    pub fn from_value(card: Value) -> Result<Self, RateCardError> {
        attempt::malformed::from_value::<StoredCard>(card)?.try_into()
    }

    /// Returns the currency's code in ISO 4217.
    #[must_use]
    pub fn currency(&self) -> &str {
        &self.currency
    }

    /// Returns the prices in the order of the rate card.
    #[must_use]
    pub fn rates(&self) -> &[Rate] {
        &self.rates
    }

    /// Returns the price of all quantities. A quantity has the operation's own price for the unit
    /// or, if there is none, the price of `*` (all operations). A quantity without a price is free.
    #[must_use]
    pub fn amount<'a>(&self, quantities: impl IntoIterator<Item = Quantities<'a>>) -> Amount {
        let mut sums: BTreeMap<(&str, Unit), u128> = BTreeMap::new();
        for of_operation in quantities {
            for unit in Unit::ALL {
                let sum = sums.entry((of_operation.operation, unit)).or_default();
                *sum = sum.saturating_add(u128::from(of_operation.of(unit)));
            }
        }
        let mut due: BTreeMap<(&str, Unit), (&Rate, u128)> = BTreeMap::new();
        for ((operation, unit), quantity) in sums {
            let Some(rate) = self.rate(operation, unit) else { continue };
            let (_, sum) = due.entry((rate.operation.as_str(), unit)).or_insert((rate, 0));
            *sum = sum.saturating_add(quantity);
        }
        due.into_values().fold(Amount::ZERO, |all, (rate, sum)| all.plus(rate.of(sum)))
    }

    /// Returns whether the rate card has a price that applies to an operation's unit.
    #[must_use]
    pub fn prices(&self, operation: &str, unit: Unit) -> bool {
        self.rate(operation, unit).is_some()
    }

    /// Returns the price that applies to an operation's unit: the operation's own price or, if
    /// there is none, that of `*` (all operations). `None` if neither exists.
    fn rate(&self, operation: &str, unit: Unit) -> Option<&Rate> {
        let of = |name: &str| self.rates.iter().find(|rate| rate.unit == unit && rate.operation == name);
        of(operation).or_else(|| of(ANY))
    }
}

impl TryFrom<StoredCard> for RateCard {
    type Error = RateCardError;

    fn try_from(stored: StoredCard) -> Result<Self, RateCardError> {
        let StoredCard { currency, rates } = stored;
        if currency.len() != 3 || !currency.bytes().all(|byte| byte.is_ascii_uppercase()) {
            return Err(RateCardError::Currency);
        }
        if rates.len() > MOST_RATES {
            return Err(RateCardError::TooMany);
        }
        let mut known = BTreeSet::new();
        let mut parsed = Vec::with_capacity(rates.len());
        for (place, rate) in (1..).zip(rates) {
            let rate = rate.parse(place)?;
            if !known.insert((rate.operation.clone(), rate.unit)) {
                return Err(RateCardError::Repeated(place));
            }
            parsed.push(rate);
        }
        Ok(Self { currency, rates: parsed })
    }
}

impl From<RateCard> for StoredCard {
    fn from(card: RateCard) -> Self {
        let rates = card.rates.into_iter().map(|rate| StoredRate {
            operation: rate.operation,
            unit: rate.unit.name().to_owned(),
            per: rate.per,
            price: rate.price.to_string(),
        });
        Self { currency: card.currency, rates: rates.collect() }
    }
}

impl StoredRate {
    fn parse(self, place: usize) -> Result<Rate, RateCardError> {
        if !is_operation(&self.operation) {
            return Err(RateCardError::Operation(place));
        }
        let unit = Unit::ALL.into_iter().find(|unit| unit.name() == self.unit);
        let unit = unit.ok_or(RateCardError::Unit(place))?;
        if self.per == 0 {
            return Err(RateCardError::Per(place));
        }
        let price = self.price.parse().map_err(|error| RateCardError::Price(place, error))?;
        Ok(Rate { operation: self.operation, unit, per: self.per, price })
    }
}

fn is_operation(name: &str) -> bool {
    let is_allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    name == ANY || ((1..=LONGEST_OPERATION).contains(&name.len()) && name.bytes().all(is_allowed))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn card(rates: &Value) -> Result<RateCard, RateCardError> {
        RateCard::from_value(json!({"currency": "USD", "rates": rates}))
    }

    fn one(operation: &str, unit: &str, per: u64, price: &str) -> RateCard {
        card(&json!([{"operation": operation, "unit": unit, "per": per, "price": price}])).unwrap()
    }

    fn requests(operation: &str, requests: u64) -> Quantities<'_> {
        Quantities { operation, requests, ..Quantities::default() }
    }

    #[test]
    fn a_price_is_for_its_quantity() {
        // 1,234,567 / 1,000,000 * 4.50 = 5.5555515, of which half a micro-unit is rounded up.
        let amount = one("produce", "requests", 1_000_000, "4.50").amount([requests("produce", 1_234_567)]);
        assert_eq!(amount.to_string(), "5.555552");
        // 0.09 for each 2^30 bytes: 5 * 2^30 are 0.45.
        let bytes = Quantities { operation: "consume", bytes: 5 << 30, ..Quantities::default() };
        assert_eq!(one("*", "bytes", 1 << 30, "0.09").amount([bytes]).to_string(), "0.450000");
    }

    #[test]
    fn a_price_is_rounded_once_half_a_micro_unit_upwards() {
        // A micro-unit for 3 requests: 1 is 0.33 of one, 2 are 0.67.
        let thirds = one("*", "requests", 3, "0.000001");
        for (quantity, micro_units) in [(0, 0), (1, 0), (2, 1), (3, 1), (4, 1), (5, 2)] {
            assert_eq!(thirds.amount([requests("produce", quantity)]).micro_units(), micro_units);
        }
        let halves = one("*", "requests", 2, "0.000001");
        assert_eq!(halves.amount([requests("produce", 1)]).micro_units(), 1);
        // Two lines of 1 are together 2, and not twice nothing.
        assert_eq!(thirds.amount([requests("produce", 1), requests("move", 1)]).micro_units(), 1);
    }

    #[test]
    fn a_whole_price_is_not_rounded() {
        let each = one("*", "requests", 1, "0.000001");
        assert_eq!(each.amount([requests("produce", 7)]).micro_units(), 7);
    }

    #[test]
    fn an_operation_with_a_price_of_its_own_does_not_pay_the_general_one() {
        let card = card(&json!([
            {"operation": "*", "unit": "requests", "per": 1, "price": "1"},
            {"operation": "produce", "unit": "requests", "per": 1, "price": "10"},
            {"operation": "produce", "unit": "messages", "per": 1, "price": "100"},
            {"operation": "ingest", "unit": "batches", "per": 1, "price": "1000"},
            {"operation": "*", "unit": "items", "per": 10, "price": "10000"},
        ]));
        let usage = [
            Quantities { messages: 2, ..requests("produce", 3) },
            requests("consume", 4),
            Quantities { batches: 5, items: 60, ..requests("ingest", 0) },
        ];
        // 3 * 10 + 2 * 100 + 4 * 1 + 5 * 1000 + 60 / 10 * 10000
        assert_eq!(card.unwrap().amount(usage).to_string(), "65234.000000");
    }

    #[test]
    fn a_quantity_without_a_price_is_free() {
        assert_eq!(card(&json!([])).unwrap().amount([requests("produce", 5)]), Amount::ZERO);
        let other = one("consume", "requests", 1, "1");
        assert_eq!(other.amount([requests("produce", 5)]), Amount::ZERO);
    }

    #[test]
    fn the_largest_quantities_do_not_overflow() {
        let most = one("*", "requests", 1, "999999999999.999999");
        let amount = most.amount([requests("produce", u64::MAX), requests("move", u64::MAX)]);
        assert!(amount >= most.amount([requests("produce", u64::MAX)]));
    }

    #[test]
    fn a_faulty_card_is_refused_with_the_place() {
        let rate = |member: &str, value: Value| {
            let mut rate = json!({"operation": "*", "unit": "requests", "per": 1, "price": "1"});
            rate[member] = value;
            card(&json!([{"operation": "produce", "unit": "items", "per": 1, "price": "1"}, rate]))
        };
        assert_eq!(rate("operation", json!("Produce")), Err(RateCardError::Operation(2)));
        assert_eq!(rate("operation", json!("")), Err(RateCardError::Operation(2)));
        assert_eq!(rate("unit", json!("request")), Err(RateCardError::Unit(2)));
        assert_eq!(rate("per", json!(0)), Err(RateCardError::Per(2)));
        assert_eq!(rate("price", json!("-1")), Err(RateCardError::Price(2, AmountError)));
        assert!(matches!(rate("price", json!(1.5)), Err(RateCardError::Form(_))));
        assert!(matches!(rate("prize", json!("1")), Err(RateCardError::Form(_))));
        let twice = json!({"operation": "*", "unit": "requests", "per": 1, "price": "1"});
        assert_eq!(card(&json!([twice, twice])), Err(RateCardError::Repeated(2)));
        let of = |currency: &str| RateCard::from_value(json!({"currency": currency, "rates": []}));
        assert_eq!(of("usd"), Err(RateCardError::Currency));
        assert_eq!(of("US Dollar"), Err(RateCardError::Currency));
        assert!(matches!(RateCard::parse(b"{"), Err(RateCardError::Form(_))));
    }

    #[test]
    fn a_card_is_written_as_it_is_read() {
        let card = one("produce", "messages", 1_000_000, "4.50");
        let written = serde_json::to_value(&card).unwrap();
        assert_eq!(written["rates"][0]["price"], "4.500000");
        assert_eq!(RateCard::from_value(written), Ok(card));
    }
}
