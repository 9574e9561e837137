//! Conversion and formatting of the numbers in a load test's report.

/// Converts a count to a floating-point number. Above 2^53, which no load test reaches, it is
/// rounded.
#[expect(clippy::cast_precision_loss, reason = "as the comment says")]
pub(crate) const fn float(count: u64) -> f64 {
    count as f64
}

/// Converts the length of a list to a floating-point number.
pub(crate) fn size(length: usize) -> f64 {
    float(u64::try_from(length).unwrap_or(u64::MAX))
}

/// Formats an integer with commas between thousands, such as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number with one decimal place and commas between thousands, such as `12,345.7`.
pub(crate) fn decimal(number: f64) -> String {
    let text = format!("{number:.1}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, "0"));
    match whole.parse() {
        Ok(whole) => format!("{}.{fraction}", grouped(whole)),
        Err(_) => text,
    }
}

/// Formats microseconds in µs, ms or s, whichever leaves one to three digits before the point.
pub(crate) fn duration(microseconds: f64) -> String {
    if microseconds < 1e3 {
        format!("{microseconds:.0} µs")
    } else if microseconds < 1e6 {
        format!("{:.1} ms", microseconds / 1e3)
    } else {
        format!("{:.2} s", microseconds / 1e6)
    }
}

/// Formats a fraction as a percentage with one decimal place, such as `7.3 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Formats a count as `1 message` or `n messages`.
pub(crate) fn messages(count: u64) -> String {
    if count == 1 { "1 message".to_owned() } else { format!("{} messages", grouped(count)) }
}

/// Rounds a number to `digits` decimal places.
pub(crate) fn rounded(number: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (number * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_durations_have_their_unit() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0.04, 999.96, 12_345.67].map(decimal), ["0.0", "1,000.0", "12,345.7"]);
        let durations = [1.0, 999.4, 12_340.0, 1_500_000.0].map(duration);
        assert_eq!(durations, ["1 µs", "999 µs", "12.3 ms", "1.50 s"]);
        assert_eq!([1, 2].map(messages), ["1 message", "2 messages"]);
        assert_eq!(percent(0.0731), "7.3 %");
    }
}
