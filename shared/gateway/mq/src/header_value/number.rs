//! Types of numbers that have no exact form in JSON, and are written as text.

use std::fmt;
use std::num::ParseFloatError;
use std::str::FromStr;

/// Declares a floating-point type that compares by its bits: `-0` differs from `0`, and all NaN are
/// the same.
macro_rules! float {
    ($(#[$doc:meta])* $name:ident: $float:ty, $bits:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub struct $name($bits);

        impl $name {
            /// Returns the value as a primitive number.
            #[must_use]
            pub fn get(self) -> $float {
                <$float>::from_bits(self.0)
            }
        }

        impl From<$float> for $name {
            fn from(value: $float) -> Self {
                Self(if value.is_nan() { <$float>::NAN.to_bits() } else { value.to_bits() })
            }
        }

        impl FromStr for $name {
            type Err = ParseFloatError;

            fn from_str(text: &str) -> Result<Self, ParseFloatError> {
                text.parse::<$float>().map(Self::from)
            }
        }

        impl fmt::Display for $name {
            /// Writes the fewest digits that are parsed as the same number.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let (digits, power) = (self.get().to_string(), format!("{:e}", self.get()));
                f.write_str(if power.len() + 2 < digits.len() { &power } else { &digits })
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.get())
            }
        }
    };
}

float!(
    /// Floating-point number of 32 bits (IEEE 754), compared by its bits.
    Float32: f32, u32
);
float!(
    /// Floating-point number of 64 bits (IEEE 754), compared by its bits.
    Float64: f64, u64
);

/// Decimal of AMQP: an unsigned 32-bit integer, of whose digits up to 255 are decimal places (AMQP
/// 0-9-1, section 4.2.5.5). Its text keeps trailing zeros: `1.50` is not `1.5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    /// Number of decimal places: how many of the digits are after the decimal point.
    pub scale: u8,
    /// All digits of the decimal as an integer: 150 for `1.50`.
    pub digits: u32,
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = usize::from(self.scale);
        if scale == 0 {
            return write!(f, "{}", self.digits);
        }
        let padded = format!("{:0>width$}", self.digits, width = scale + 1);
        let (whole, fraction) = padded.split_at(padded.len() - scale);
        write!(f, "{whole}.{fraction}")
    }
}

impl FromStr for Decimal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || "is not a decimal, as 12.50, of at most 4294967295 without its point".to_owned();
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let ends_well = fraction.is_empty() != text.contains('.');
        if whole.is_empty() || !ends_well || !are_digits(whole) || !are_digits(fraction) {
            return Err(malformed());
        }
        let scale = u8::try_from(fraction.len()).map_err(|_| malformed())?;
        let digits = format!("{whole}{fraction}").parse().map_err(|_| malformed())?;
        Ok(Self { scale, digits })
    }
}
