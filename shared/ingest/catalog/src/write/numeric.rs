//! Numbers in the format of PostgreSQL's `numeric_send`: digits to the base of 10,000, from the one
//! before the point outwards.

use ingestion::product::Decimal;

const BASE: u128 = 10_000;
const NEGATIVE: u16 = 0x4000;

/// Appends the encoded number.
pub(super) fn encode(number: Decimal, out: &mut Vec<u8>) {
    let Digits { mut digits, mut weight } = Digits::of(number);
    let leading = digits.iter().take_while(|digit| **digit == 0).count();
    digits.drain(..leading);
    weight -= i16::try_from(leading).unwrap_or_default();
    while digits.last() == Some(&0) {
        digits.pop();
    }
    if digits.is_empty() {
        weight = 0;
    }
    let sign = if number.units() < 0 { NEGATIVE } else { 0 };
    out.extend_from_slice(&u16::try_from(digits.len()).unwrap_or_default().to_be_bytes());
    out.extend_from_slice(&weight.to_be_bytes());
    out.extend_from_slice(&sign.to_be_bytes());
    out.extend_from_slice(&u16::from(number.places()).to_be_bytes());
    for digit in digits {
        out.extend_from_slice(&digit.to_be_bytes());
    }
}

/// Digits, and the power of the base that the first one has.
struct Digits {
    digits: Vec<u16>,
    weight: i16,
}

impl Digits {
    fn of(number: Decimal) -> Self {
        let units = number.units().unsigned_abs();
        // At most 38 places, which 128 bits can hold.
        let scale = 10_u128.pow(u32::from(number.places()));
        let (mut whole, mut fraction) = (units / scale, units % scale);
        let mut digits = Vec::with_capacity(20);
        while whole > 0 {
            digits.push(low_digit(whole));
            whole /= BASE;
        }
        digits.reverse();
        let weight = i16::try_from(digits.len()).unwrap_or_default() - 1;
        let mut places = u32::from(number.places());
        while places > 0 {
            // The next four places, padded with zeros if fewer are left.
            let taken = places.min(4);
            let below = 10_u128.pow(places - taken);
            digits.push(low_digit(fraction / below * 10_u128.pow(4 - taken)));
            fraction %= below;
            places -= taken;
        }
        Self { digits, weight }
    }
}

fn low_digit(number: u128) -> u16 {
    u16::try_from(number % BASE).unwrap_or_default()
}

#[cfg(test)]
mod tests {

    use super::*;

    fn encoded(text: &str) -> Vec<i16> {
        let mut out = Vec::new();
        encode(text.parse().unwrap(), &mut out);
        out.chunks(2).map(|pair| i16::from_be_bytes([pair[0], pair[1]])).collect()
    }

    #[test]
    fn numbers_are_encoded_as_the_server_does() {
        for (text, expected) in [
            ("0", &[0, 0, 0, 0][..]),
            ("1", &[1, 0, 0, 0, 1]),
            ("-12.5", &[2, 0, 0x4000, 1, 12, 5000]),
            ("123456789.0012", &[4, 2, 0, 4, 1, 2345, 6789, 12]),
            ("0.00001", &[1, -2, 0, 5, 1000]),
            ("10000", &[1, 1, 0, 0, 1]),
            ("0.00010203", &[2, -1, 0, 8, 1, 203]),
        ] {
            assert_eq!(encoded(text), expected, "{text}");
        }
    }
}
