//! Reason codes of IBM MQ: name, meaning for a caller, and advice.
//!
//! The table is `reason_codes.tsv`, with a line for each code that IBM's headers name: the code,
//! the name, the kind of error, and a text for the caller if a call of the gateway can end with the
//! code. `reason-codes.md` of this crate lists the codes that have a text.

use std::sync::OnceLock;

use libmqm_sys::MQLONG;
use serde::Deserialize;
use serde::de::value::{Error, StrDeserializer};

/// Kind of an IBM MQ reason code, as far as callers distinguish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// The login is wrong, if connecting failed. Otherwise the user may not perform the operation,
    /// for example on a queue.
    Authentication,
    /// The caller's queue does not exist. If another object is missing, the operation is rejected.
    UnknownQueue,
    Full,
    /// No connection can be opened, or the connection is lost.
    Unreachable,
    TooLarge,
    Unsupported,
    Rejected,
    InDoubt,
}

/// Row of the table of reason codes in `reason_codes.tsv`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reason {
    pub(crate) code: MQLONG,
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Text for the caller that says what happened and what to do.
    pub(crate) words: &'static str,
}

/// Text for a code that no MQI call of the gateway is expected to return.
const UNEXPECTED: &str = "The gateway does not expect this code: IBM's list of reason codes explains it.";

impl Reason {
    /// True if an MQI call of the gateway is expected to return this code.
    #[cfg(test)]
    pub(crate) fn is_expected(&self) -> bool {
        self.words != UNEXPECTED
    }

    /// Returns the entry for `code` in the table of reason codes. The entry of an unknown code has
    /// [`Kind::Rejected`].
    pub(crate) fn of(code: MQLONG) -> Self {
        let rows = rows();
        let found = rows.binary_search_by_key(&code, |row| row.code).ok();
        let row = found.and_then(|index| rows.get(index)).copied();
        row.unwrap_or(Self { code, name: "unknown", kind: Kind::Rejected, words: UNEXPECTED })
    }
}

fn rows() -> &'static [Reason] {
    static ROWS: OnceLock<Vec<Reason>> = OnceLock::new();
    ROWS.get_or_init(|| include_str!("reason_codes.tsv").lines().filter_map(row).collect())
}

fn row(line: &'static str) -> Option<Reason> {
    let mut columns = line.split('\t');
    let code = columns.next()?.parse().ok()?;
    let name = columns.next()?;
    let kind = Kind::deserialize(StrDeserializer::<Error>::new(columns.next()?)).ok()?;
    let words = columns.next().filter(|words| !words.is_empty()).unwrap_or(UNEXPECTED);
    Some(Reason { code, name, kind, words })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write as _;

    use libmqm_constants::lookup::ConstLookup as _;
    use libmqm_constants::mapping::MQRC_MAPSTR;

    use super::*;
    use crate::mqi::{Refusal, Verb};

    #[test]
    fn every_line_of_the_table_is_read_and_they_are_in_order() {
        assert_eq!(rows().len(), include_str!("reason_codes.tsv").lines().count());
        assert!(rows().is_sorted_by_key(|row| row.code));
        let codes: BTreeSet<_> = rows().iter().map(|row| row.code).collect();
        assert_eq!(codes.len(), rows().len());
    }

    #[test]
    fn the_table_has_every_code_of_the_bindings_under_a_name_of_ibm_s() {
        let mut count = 0;
        for (code, name) in MQRC_MAPSTR.all() {
            let names: Vec<_> = MQRC_MAPSTR.by_value(code).collect();
            let row = Reason::of(code);
            assert!(names.contains(&row.name), "{code} is {name}, not {}", row.name);
            count += 1;
        }
        assert!(count >= rows().len(), "{count}");
        for row in rows() {
            assert_eq!(MQRC_MAPSTR.by_name(row.name), Some(row.code));
        }
    }

    #[test]
    fn codes_that_a_caller_can_meet_say_what_to_do() {
        let met = [
            2003, 2009, 2016, 2018, 2030, 2031, 2035, 2051, 2053, 2058, 2059, 2079, 2080, 2085, 2087, 2110,
            2119, 2120, 2161, 2162, 2195, 2391, 2393, 2397, 2537, 2538, 2539, 2540, 2549,
        ];
        for code in met {
            let reason = Reason::of(code);
            assert_ne!(reason.words, UNEXPECTED, "{}", reason.name);
        }
        assert_eq!(Reason::of(2053).kind, Kind::Full);
        assert_eq!(Reason::of(2085).kind, Kind::UnknownQueue);
        assert_eq!(Reason::of(2035).kind, Kind::Authentication);
        assert_eq!(Reason::of(2538).kind, Kind::Unreachable);
        assert_eq!(Reason::of(2549).kind, Kind::InDoubt);
        assert_eq!(Reason::of(99_999).kind, Kind::Rejected);
    }

    /// Compares the table in `reason-codes.md`, between its two markers, with the expected codes.
    #[test]
    fn the_documentation_shows_the_codes_that_a_caller_can_meet() {
        let mut table = String::from("| code | name | answer | meaning |\n|---|---|---|---|\n");
        for row in rows().iter().filter(|row| row.is_expected()) {
            let answer = match row.kind {
                Kind::Authentication => "502 `AUTHENTICATION_FAILED`, at a queue 502 `BROKER_REJECTED`",
                Kind::UnknownQueue => "404 `QUEUE_NOT_FOUND`",
                Kind::Full => "502 `QUEUE_FULL`",
                Kind::Unreachable if Refusal::failed(Verb::Commit, row.code).may_have_committed() => {
                    "503 `BROKER_UNREACHABLE`, at a commit 502 `OUTCOME_IN_DOUBT`"
                }
                Kind::Unreachable => "503 `BROKER_UNREACHABLE`",
                Kind::TooLarge => "422 `MESSAGE_TOO_LARGE`",
                Kind::Unsupported => "422 `UNSUPPORTED_BY_BROKER`",
                Kind::Rejected => "502 `BROKER_REJECTED`",
                Kind::InDoubt => "502 `OUTCOME_IN_DOUBT`",
            };
            writeln!(table, "| {} | `{}` | {answer} | {} |", row.code, row.name, row.words).unwrap();
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/reason-codes.md");
        let (begin, end) = ("<!-- reason codes -->\n", "<!-- end of reason codes -->");
        let page = std::fs::read_to_string(path).unwrap();
        let (before, rest) = page.split_once(begin).unwrap();
        let (shown, after) = rest.split_once(end).unwrap();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, format!("{before}{begin}{table}{end}{after}")).unwrap();
            return;
        }
        assert_eq!(shown, table, "run this test with UPDATE_DOCS=1 and commit the page");
    }
}
