//! The CNPJ, the number of a Brazilian establishment: the first part of every product's key.
//!
//! A CNPJ has fourteen characters: eight for the company, four for the establishment, two check
//! digits. From July 2026 the first twelve may also be letters (Receita Federal, Instrução
//! Normativa RFB 2.229/2024). The check digits are calculated from the characters' values: a
//! character's value is its ASCII code less 48, which for a digit is the digit itself. So the same
//! rule covers digits and letters.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Number of characters of a CNPJ without punctuation.
const LENGTH: usize = 14;

/// Weights of a CNPJ's characters in the calculation of its first check digit. Those of the second
/// check digit are the same with a 6 in front.
const WEIGHTS: [u32; 12] = [5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2];

/// CNPJ (the number of a Brazilian establishment) with valid check digits, in upper case and
/// without punctuation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cnpj([u8; LENGTH]);

/// Reason why a text is not a CNPJ. The error does not show the text, which may contain anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum CnpjError {
    #[error("a CNPJ has 14 characters")]
    Length,
    #[error("a CNPJ has letters and digits in its first 12 places and digits in the last two")]
    Character,
    #[error("the check digits do not match")]
    CheckDigits,
    /// The check digits are valid, but no establishment has a CNPJ of zeros: programs write it as a
    /// placeholder.
    #[error("a CNPJ of zeros belongs to nobody")]
    Zeros,
    /// The number has a sign, a point, an exponent or more than 14 digits, so it is not a CNPJ.
    #[error("a CNPJ given as a number has up to 14 digits and nothing else")]
    Number,
}

impl Cnpj {
    /// Calculates the two check digits for the first twelve characters, given as their values
    /// (ASCII code less 48).
    fn check_digits(values: impl Iterator<Item = u32> + Clone) -> (u32, u32) {
        let first = digit(values.clone().zip(WEIGHTS));
        let second = digit(values.chain([first]).zip([6].into_iter().chain(WEIGHTS)));
        (first, second)
    }

    /// Returns the fourteen characters of the CNPJ, without punctuation.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // A CNPJ has ASCII characters only.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Returns the fourteen characters of the CNPJ as ASCII bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; LENGTH] {
        &self.0
    }

    /// Parses a CNPJ that was sent as a JSON number, which has no leading zeros. The check digits
    /// show if any other digit is missing.
    ///
    /// # Errors
    /// If the number has other characters than digits, has more than 14 digits, or is not a CNPJ.
    pub fn from_number(number: &str) -> Result<Self, CnpjError> {
        if number.len() > LENGTH || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(CnpjError::Number);
        }
        format!("{number:0>LENGTH$}").parse()
    }

    /// Completes the first twelve characters of a CNPJ with their check digits.
    ///
    /// # Errors
    /// If `base` is not twelve letters and digits, or only zeros.
    pub fn from_base(base: &str) -> Result<Self, CnpjError> {
        let base: [u8; 12] = base.as_bytes().try_into().map_err(|_| CnpjError::Length)?;
        if !base.iter().all(u8::is_ascii_alphanumeric) {
            return Err(CnpjError::Character);
        }
        let upper = base.map(|byte| byte.to_ascii_uppercase());
        let (first, second) = Self::check_digits(upper.iter().map(|byte| value(*byte)));
        let text = String::from_utf8_lossy(&upper).into_owned();
        format!("{text}{first}{second}").parse()
    }
}

fn value(byte: u8) -> u32 {
    u32::from(byte.saturating_sub(b'0'))
}

fn digit(weighted: impl Iterator<Item = (u32, u32)>) -> u32 {
    let remainder = weighted.map(|(value, weight)| value * weight).sum::<u32>() % 11;
    if remainder < 2 { 0 } else { 11 - remainder }
}

impl FromStr for Cnpj {
    type Err = CnpjError;

    /// Parses a CNPJ. Punctuation (`12.ABC.345/01DE-35`), lower case and surrounding white space
    /// are accepted.
    fn from_str(text: &str) -> Result<Self, CnpjError> {
        let mut characters = [0_u8; LENGTH];
        let mut places = characters.iter_mut();
        for byte in text.trim().bytes().filter(|byte| !matches!(byte, b'.' | b'/' | b'-')) {
            *places.next().ok_or(CnpjError::Length)? = byte.to_ascii_uppercase();
        }
        if places.next().is_some() {
            return Err(CnpjError::Length);
        }
        let [base @ .., first, second] = characters;
        if !base.iter().all(u8::is_ascii_alphanumeric) || !first.is_ascii_digit() || !second.is_ascii_digit()
        {
            return Err(CnpjError::Character);
        }
        if Self::check_digits(base.iter().map(|byte| value(*byte))) != (value(first), value(second)) {
            return Err(CnpjError::CheckDigits);
        }
        if characters.iter().all(|byte| *byte == b'0') {
            return Err(CnpjError::Zeros);
        }
        Ok(Self(characters))
    }
}

impl TryFrom<String> for Cnpj {
    type Error = CnpjError;

    fn try_from(text: String) -> Result<Self, CnpjError> {
        text.parse()
    }
}

impl From<Cnpj> for String {
    fn from(cnpj: Cnpj) -> Self {
        cnpj.as_str().to_owned()
    }
}

impl fmt::Display for Cnpj {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl fmt::Debug for Cnpj {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Cnpj({})", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn published_numbers_are_accepted() {
        // The alphanumeric one is Receita Federal's and Serpro's example, the others are well-known
        // establishments.
        for (text, plain) in [
            ("12.ABC.345/01DE-35", "12ABC34501DE35"),
            ("12abc34501de35", "12ABC34501DE35"),
            (" 00.000.000/0001-91 ", "00000000000191"),
            ("33.000.167/0001-01", "33000167000101"),
            ("11.222.333/0001-81", "11222333000181"),
        ] {
            assert_eq!(text.parse::<Cnpj>().map(String::from), Ok(plain.to_owned()));
        }
    }

    #[test]
    fn each_fault_has_its_name() {
        for (text, error) in [
            ("", CnpjError::Length),
            ("1222333000181", CnpjError::Length),
            ("112223330001811", CnpjError::Length),
            ("12ABC34501DE3X", CnpjError::Character),
            ("11 22333000181", CnpjError::Character),
            ("11222333000182", CnpjError::CheckDigits),
            ("12ABC34501DE53", CnpjError::CheckDigits),
            ("00000000000000", CnpjError::Zeros),
            ("1122233300018é", CnpjError::Length),
            ("112223330001é", CnpjError::Character),
        ] {
            assert_eq!(text.parse::<Cnpj>(), Err(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_completed_base_is_valid_in_every_spelling(base in "[0-9A-Z]{12}") {
            prop_assume!(base != "000000000000");
            let cnpj = Cnpj::from_base(&base).unwrap();
            let text = cnpj.to_string();
            let punctuated =
                format!("{}.{}.{}/{}-{}", &text[..2], &text[2..5], &text[5..8], &text[8..12], &text[12..]);
            prop_assert_eq!(punctuated.parse(), Ok(cnpj));
            prop_assert_eq!(text.to_lowercase().parse(), Ok(cnpj));
        }

        #[test]
        fn a_number_is_digits_only(number in "-?[0-9]{0,15}([.][0-9]{1,8})?([eE][-+]?[0-9]{1,3})?") {
            if let Ok(cnpj) = Cnpj::from_number(&number) {
                prop_assert_eq!(cnpj.to_string(), format!("{number:0>14}"));
            }
        }

        #[test]
        fn one_digit_mistyped_is_seen(base in "[0-9]{12}", place in 0_usize..14, by in 1_u8..10) {
            prop_assume!(base != "000000000000");
            let right = Cnpj::from_base(&base).unwrap();
            let mut bytes = *right.as_bytes();
            bytes[place] = b'0' + (bytes[place] - b'0' + by) % 10;
            // Remainders 0 and 1 share the check digit 0, so the numbering itself cannot see every
            // slip in the base.
            if place >= 12 {
                prop_assert_eq!(std::str::from_utf8(&bytes).unwrap().parse::<Cnpj>(), Err(CnpjError::CheckDigits));
            }
        }

        #[test]
        fn anything_else_is_an_error_and_no_panic(text in "\\PC{0,20}") {
            if let Ok(cnpj) = text.parse::<Cnpj>() {
                prop_assert_eq!(cnpj.as_str().len(), LENGTH);
            }
        }
    }
}
