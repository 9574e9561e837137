//! Numbers in the format of PostgreSQL's `numeric_send`: digits to the base of 10,000, grouped from
//! the decimal point outwards.

/// Base of PostgreSQL's `numeric` digits, each of which stands for four decimal digits.
const BASE: u64 = 10_000;
const NEGATIVE: u16 = 0x4000;

/// Appends the number `units / 10^places` in the binary format of PostgreSQL's `numeric`.
pub(super) fn encode(units: i128, places: u8, out: &mut Vec<u8>) {
    let start = out.len();
    let (mut count, mut kept) = (0_i16, 0_u16);
    // From its end to its beginning, with the low byte of each value first, and turned around then:
    // the number of digits, which comes first, is known last.
    each_digit(units.unsigned_abs(), places, |digit| {
        count += 1;
        // Zeros at the end are left out.
        if digit > 0 || kept > 0 {
            kept += 1;
            out.extend_from_slice(&digit.to_le_bytes());
        }
    });
    let behind_the_point = i16::from(places.div_ceil(4));
    let weight = if kept > 0 { count - 1 - behind_the_point } else { 0 };
    let sign = if units < 0 { NEGATIVE } else { 0 };
    out.extend_from_slice(&u16::from(places).to_le_bytes());
    out.extend_from_slice(&sign.to_le_bytes());
    out.extend_from_slice(&weight.to_le_bytes());
    out.extend_from_slice(&kept.to_le_bytes());
    if let Some(encoded) = out.get_mut(start..) {
        encoded.reverse();
    }
}

/// Calls `pass` with each digit to the base of 10,000 of the number `units / 10^places`, the last
/// digit first, without leading zeros.
fn each_digit(mut units: u128, places: u8, mut pass: impl FnMut(u16)) {
    let base = u128::from(BASE);
    // The last digit has the one to three decimal places that are left over.
    let left_over = places % 4;
    if left_over > 0 {
        let scale = 10_u128.pow(left_over.into());
        pass(digit(units % scale * (base / scale)));
        units /= scale;
    }
    // Nearly all numbers fit into 64 bits, whose division takes a fraction of the time.
    let mut short = loop {
        match u64::try_from(units) {
            Ok(short) => break short,
            Err(_) => {
                pass(digit(units % base));
                units /= base;
            }
        }
    };
    while short > 0 {
        pass(digit(short % BASE));
        short /= BASE;
    }
}

fn digit(below_base: impl TryInto<u16>) -> u16 {
    below_base.try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use ingestion::product::Decimal;

    use super::*;

    fn encoded(text: &str) -> Vec<i16> {
        let number: Decimal = text.parse().unwrap();
        encoded_units(number.units(), number.places())
    }

    fn encoded_units(units: i128, places: u8) -> Vec<i16> {
        let mut out = Vec::new();
        encode(units, places, &mut out);
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
            ("12345678901234567890.5", &[6, 4, 0, 1, 1234, 5678, 9012, 3456, 7890, 5000]),
            (
                "-99999999999999999999999999999999999999",
                &[10, 9, 0x4000, 0, 99, 9999, 9999, 9999, 9999, 9999, 9999, 9999, 9999, 9999],
            ),
            ("0.00000000000000000000000000000000000001", &[1, -10, 0, 38, 100]),
        ] {
            assert_eq!(encoded(text), expected, "{text}");
        }
    }

    #[test]
    fn a_price_keeps_the_places_of_its_column() {
        for (ten_thousandths, expected) in [
            (0, &[0, 0, 0, 4][..]),
            (120_000, &[1, 0, 0, 4, 12]),
            (129_000, &[2, 0, 0, 4, 12, 9000]),
            (-1, &[1, -1, 0x4000, 4, 1]),
            (100_000_000, &[1, 1, 0, 4, 1]),
        ] {
            assert_eq!(encoded_units(ten_thousandths, 4), expected, "{ten_thousandths}");
        }
    }
}
