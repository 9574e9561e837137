//! Present time, in the formats that the stand-in needs.

use jiff::Timestamp;

use crate::protocol::Chars;

/// Returns the present time in milliseconds since 1970.
pub(crate) fn now() -> u64 {
    u64::try_from(Timestamp::now().as_millisecond()).unwrap_or_default()
}

/// Returns the present time in UTC in the format of MQMD's fields PutDate and PutTime: `YYYYMMDD`
/// and `HHMMSSTH`, where `TH` are hundredths of a second.
pub(crate) fn put_date_and_time() -> (Chars, Chars) {
    let now = Timestamp::now();
    let field = |format: &str| Chars::from(now.strftime(format).to_string().as_str());
    (field("%Y%m%d"), field("%H%M%S%2f"))
}
