//! Exact decimal numbers, read from the text of a JSON number or string, never through floating
//! point.

use std::fmt;
use std::str::FromStr;

/// Maximum number of digits of a decimal number, before and after the point together, so that they
/// fit into an `i128`.
const MAX_DIGITS: usize = 38;

/// Number of decimal places of a price, as in its column.
const PRICE_PLACES: u32 = 4;
/// Exclusive upper limit of a price in ten-thousandths: its column `numeric(14,4)` has ten digits
/// before the point.
const PRICE_LIMIT: i128 = 100_000_000_000_000;

/// Decimal number `units / 10^places` of up to 38 digits.
///
/// Equal numbers have one representation, however they were written: without trailing zeros in the
/// fraction, and without a minus sign for zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Decimal {
    units: i128,
    places: u8,
}

/// Reason why a text is not a number that can be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum DecimalError {
    #[error("not a number; a point separates the fraction, and nothing separates thousands")]
    Syntax,
    /// The number has a comma, so that it is ambiguous: `1,234` may be a little more than one, or
    /// more than a thousand.
    #[error("a number has no comma, since 1,234 may mean two numbers: write 6.50 for 6,50")]
    Comma,
    #[error("the number has more than 38 digits")]
    TooManyDigits,
    #[error("the price has more than 10 digits before the point")]
    PriceTooLarge,
}

impl Decimal {
    /// Returns the digits of the number as an integer, without the decimal point.
    #[must_use]
    pub const fn units(self) -> i128 {
        self.units
    }

    /// Returns the number of decimal places.
    #[must_use]
    pub const fn places(self) -> u8 {
        self.places
    }

    /// Creates the number `units / 10^places`; `None` if it has more than 38 places.
    #[must_use]
    pub fn new(units: i128, places: u8) -> Option<Self> {
        (usize::from(places) <= MAX_DIGITS).then(|| Self { units, places }.normal())
    }

    /// Returns the number as an integer; `None` if it has a fraction.
    #[must_use]
    pub const fn integer(self) -> Option<i128> {
        if self.places == 0 { Some(self.units) } else { None }
    }

    const fn normal(mut self) -> Self {
        while self.places > 0 && self.units % 10 == 0 {
            self.units /= 10;
            self.places -= 1;
        }
        self
    }
}

/// Parts of a number's text, in the form of JSON, with an optional plus sign and leading zeros.
struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    exponent: i64,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, Self::exponent(exponent)?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
            Some(_) => return None,
            None => (mantissa, ""),
        };
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        (!whole.is_empty() && digits(whole) && digits(fraction)).then_some(Self {
            negative,
            whole,
            fraction,
            exponent,
        })
    }

    fn exponent(text: &str) -> Option<i64> {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        // Beyond any number of 38 digits whatever its mantissa, since an item is shorter than this.
        let far = i64::from(i32::MAX);
        Some(
            text.parse::<i64>()
                .map_or(if text.starts_with('-') { -far } else { far }, |value| value.clamp(-far, far)),
        )
    }

    fn decimal(&self) -> Result<Decimal, DecimalError> {
        let whole = self.whole.trim_start_matches('0');
        let fraction = self.fraction.trim_end_matches('0');
        let significant = || whole.bytes().chain(fraction.bytes()).skip_while(|digit| *digit == b'0');
        if significant().next().is_none() {
            return Ok(Decimal::default());
        }
        let trailing = if fraction.is_empty() { whole.len() - whole.trim_end_matches('0').len() } else { 0 };
        let kept = significant().count() - trailing;
        if kept > MAX_DIGITS {
            return Err(DecimalError::TooManyDigits);
        }
        let magnitude = significant()
            .take(kept)
            .fold(0_i128, |units, digit| units * 10 + i128::from(digit.saturating_sub(b'0')));
        // The place of the last kept digit: after the point if positive.
        let places = signed(fraction.len()) - signed(trailing) - self.exponent;
        let (places, zeros) = (places.max(0), (-places).max(0));
        if places.max(signed(kept) + zeros) > signed(MAX_DIGITS) {
            return Err(DecimalError::TooManyDigits);
        }
        let too_many = |_| DecimalError::TooManyDigits;
        let factor = 10_i128.pow(u32::try_from(zeros).map_err(too_many)?);
        let units = factor * if self.negative { -magnitude } else { magnitude };
        Ok(Decimal { units, places: u8::try_from(places).map_err(too_many)? })
    }
}

/// Parses a number of the usual form, with few digits and without an exponent; `None` if the text
/// has another form.
fn short(text: &str) -> Option<Decimal> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    if digits.len() > 18 || !is_digit(digits.as_bytes().first()) || !is_digit(digits.as_bytes().last()) {
        return None;
    }
    let (mut units, mut places) = (0_i64, None);
    for byte in digits.bytes() {
        match (byte, places) {
            (b'0'..=b'9', _) => {
                units = units * 10 + i64::from(byte - b'0');
                places = places.map(|places| places + 1);
            }
            (b'.', None) => places = Some(0_u8),
            _ => return None,
        }
    }
    let mut places = places.unwrap_or(0);
    while places > 0 && units % 10 == 0 {
        units /= 10;
        places -= 1;
    }
    Some(Decimal { units: i128::from(if negative { -units } else { units }), places })
}

fn signed(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

impl FromStr for Decimal {
    type Err = DecimalError;

    /// Parses a number in the form of JSON, with an exponent if it has one. A comma is refused,
    /// since `1,234` is ambiguous.
    fn from_str(text: &str) -> Result<Self, DecimalError> {
        match short(text) {
            Some(number) => Ok(number),
            None if text.contains(',') => Err(DecimalError::Comma),
            None => Parts::of(text).ok_or(DecimalError::Syntax)?.decimal(),
        }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.units < 0 { "-" } else { "" };
        let places = usize::from(self.places);
        let digits = format!("{:0>width$}", self.units.unsigned_abs(), width = places + 1);
        let (whole, fraction) = digits.split_at_checked(digits.len() - places).unwrap_or((&digits, ""));
        if fraction.is_empty() {
            write!(formatter, "{sign}{whole}")
        } else {
            write!(formatter, "{sign}{whole}.{fraction}")
        }
    }
}

/// Price in ten-thousandths that fits the column type `numeric(14,4)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(i64);

impl Price {
    /// Returns the price in ten-thousandths.
    #[must_use]
    pub const fn ten_thousandths(self) -> i64 {
        self.0
    }

    /// Creates a price from a number of ten-thousandths.
    ///
    /// # Errors
    /// If the price has more than ten digits before the point.
    pub fn from_ten_thousandths(units: i64) -> Result<Self, DecimalError> {
        if i128::from(units.unsigned_abs()) < PRICE_LIMIT {
            Ok(Self(units))
        } else {
            Err(DecimalError::PriceTooLarge)
        }
    }
}

impl TryFrom<Decimal> for Price {
    type Error = DecimalError;

    /// Rounds a number to four decimal places, halves away from zero as PostgreSQL does. Sources
    /// that keep prices in floating point send numbers such as `19.989999999999998`.
    fn try_from(number: Decimal) -> Result<Self, DecimalError> {
        // At most 38 places, so 128 bits can hold either power.
        let places = u32::from(number.places);
        let units = if places > PRICE_PLACES {
            let divisor = 10_i128.pow(places - PRICE_PLACES);
            let (quotient, remainder) = (number.units / divisor, number.units % divisor);
            let up = i128::from(remainder.abs() >= divisor / 2);
            quotient + up * number.units.signum()
        } else {
            let factor = 10_i128.pow(PRICE_PLACES - places);
            number.units.checked_mul(factor).ok_or(DecimalError::PriceTooLarge)?
        };
        i64::try_from(units).map_err(|_| DecimalError::PriceTooLarge).and_then(Self::from_ten_thousandths)
    }
}

impl fmt::Display for Price {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        Decimal { units: i128::from(self.0), places: 4 }.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_number_has_one_form() {
        for (text, plain) in [
            ("0", "0"),
            ("-0.00", "0"),
            ("0e999999999999", "0"),
            ("1.50", "1.5"),
            ("+01.5", "1.5"),
            ("15e-1", "1.5"),
            ("0.015E+2", "1.5"),
            ("100", "100"),
            ("1e2", "100"),
            ("1200e-3", "1.2"),
            ("-12.0340", "-12.034"),
            ("0.0001", "0.0001"),
            ("99999999999999999999999999999999999999", "99999999999999999999999999999999999999"),
            ("1e37", "10000000000000000000000000000000000000"),
            ("1e-38", "0.00000000000000000000000000000000000001"),
        ] {
            assert_eq!(
                text.parse::<Decimal>().map(|number| number.to_string()),
                Ok(plain.to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_number_or_too_long_is_refused() {
        for text in ["", "-", ".5", "5.", "1e", "1e+", "1 000", "NaN", "Infinity", "0x1", "1.2.3", "--1"] {
            assert_eq!(text.parse::<Decimal>(), Err(DecimalError::Syntax), "{text}");
        }
        for text in ["1,5", "6,50", "1,234", "1.234,56", "1,234.56", ","] {
            assert_eq!(text.parse::<Decimal>(), Err(DecimalError::Comma), "{text}");
        }
        let forty = "1234567890".repeat(4);
        for text in [
            &forty[..39],
            "1e38",
            "1e-39",
            "1e99999999999999999999",
            "1e-99999999999999999999",
            &format!("0.{forty}1"),
        ] {
            assert_eq!(text.parse::<Decimal>(), Err(DecimalError::TooManyDigits), "{text}");
        }
    }

    #[test]
    fn prices_are_rounded_as_their_column_would() {
        for (text, price) in [
            ("12.9", "12.9000"),
            ("19.989999999999998", "19.9900"),
            ("0.00005", "0.0001"),
            ("-0.00005", "-0.0001"),
            ("0.00004999", "0.0000"),
            ("9999999999.9999", "9999999999.9999"),
        ] {
            let number: Decimal = text.parse().unwrap();
            assert_eq!(
                Price::try_from(number).map(|price| price.to_string()),
                Ok(price.to_owned()),
                "{text}"
            );
        }
        for text in ["10000000000", "9999999999.99995", "-1e30"] {
            assert_eq!(
                Price::try_from(text.parse::<Decimal>().unwrap()),
                Err(DecimalError::PriceTooLarge),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn text_and_number_are_the_same(units in any::<i64>(), places in 0_u8..=38) {
            let number = Decimal::new(i128::from(units), places).unwrap();
            prop_assert_eq!(number.to_string().parse(), Ok(number));
            prop_assert_eq!(format!("{units}e-{places}").parse(), Ok(number));
        }

        #[test]
        fn the_short_way_and_the_long_one_agree(text in "-?[0-9]{0,10}[.]?[0-9]{0,9}") {
            if let Some(number) = short(&text) {
                prop_assert_eq!(Parts::of(&text).map(|parts| parts.decimal()), Some(Ok(number)));
            }
        }

        #[test]
        fn anything_ends_without_a_panic(text in "[-+0-9.eE,]{0,60}") {
            if let Ok(number) = text.parse::<Decimal>() {
                prop_assert_eq!(number.to_string().parse(), Ok(number));
                let _ = Price::try_from(number);
            }
        }
    }
}
