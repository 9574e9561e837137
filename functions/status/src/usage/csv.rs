//! Usage report as CSV (RFC 4180): one row for each tenant, API key, period and operation.

use std::fmt::Write as _;

use access::rates::RateCard;

use super::report::{Header, LOAD_TEST, LoadTests, Report, quantities};

/// Media type of the CSV report. The report is CSV if the request's header `Accept` prefers this
/// type.
pub(super) const MEDIA_TYPE: &str = "text/csv";
/// Value of the header `Content-Type` of the CSV report.
pub(super) const CONTENT_TYPE: &str = "text/csv; charset=utf-8";
const COLUMNS: &str = "tenant,key,period,operation,requests,failed,messages,bytes,replays,refused,batches,\
    items_inserted,items_updated,items_unchanged,items_stale,items_failed,stored_byte_days,tests_started,\
    tests_completed,tests_stopped,tests_failed,amount,currency,complete\r\n";

/// Returns the usage report as CSV. Batches and their bytes are in the row of the operation
/// `ingest`, and load tests in the row of `load_test`. Without a rate card, the amounts are empty.
pub(super) fn text(header: &Header<'_>, report: &Report<'_>, card: Option<&RateCard>) -> String {
    let mut text = COLUMNS.to_owned();
    let currency = header.currency.unwrap_or_default();
    for (tenant, period, key, entry) in report.entries() {
        for (operation, counts, ingest) in entry.rows() {
            let priced = quantities(operation, &counts, ingest);
            let amount = card.map(|card| card.amount([priced]).to_string()).unwrap_or_default();
            let ingest = ingest.unwrap_or_default();
            let items = ingest.items;
            let tests = Some(LoadTests::from(&counts)).filter(|_| operation == LOAD_TEST).unwrap_or_default();
            let [tenant, key, operation] = [tenant, key, operation].map(field);
            let numbers = [
                counts.requests,
                counts.failed,
                counts.messages,
                priced.bytes,
                counts.replays,
                counts.refused,
                priced.batches,
                items.inserted,
                items.updated,
                items.unchanged,
                items.stale,
                items.failed,
                ingest.stored_byte_days,
                tests.started,
                tests.completed,
                tests.stopped,
                tests.failed,
            ];
            let numbers = numbers.map(|number| number.to_string()).join(",");
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "{tenant},{key},{period},{operation},{numbers},{amount},{currency},{}\r\n",
                header.complete
            );
        }
    }
    text
}

/// Returns a text as a CSV field, in quotes if needed. A text that spreadsheets would run as a
/// formula gets an apostrophe in front, also if it begins with the full-width form of a sign.
fn field(text: &str) -> String {
    let text = if text.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠', '\t', '\r', '\n']) {
        format!("'{text}")
    } else {
        text.to_owned()
    };
    if text.contains([',', '"', '\r', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::{batch, card, header, line};
    use super::super::usage_query::Group;
    use super::*;

    #[test]
    fn each_operation_has_a_row_and_names_are_quoted() {
        let name = "till \"1\", left";
        let lines = [line(1, "produce", name, 5), line(1, "load_test", name, 0), line(1, "ingest", "", 0)];
        let (ingest, card) = ([batch(1)], card());
        let report = Report::of(Group::Day, &lines, &ingest, Some(&card));
        let rows = text(&header(Group::Day), &report, Some(&card));
        assert_eq!(
            rows.strip_prefix(COLUMNS).unwrap(),
            "acme,,2026-11-01,ingest,2,1,0,500,0,0,1,3,0,0,0,1,700,0,0,0,0,2.000000,USD,false\r\n\
             acme,\"till \"\"1\"\", left\",2026-11-01,load_test,2,1,0,0,0,0,0,0,0,0,0,0,0,1,0,0,0,1.000000,USD,false\r\n\
             acme,\"till \"\"1\"\", left\",2026-11-01,produce,2,1,5,50,0,0,0,0,0,0,0,0,0,0,0,0,0,1.000000,USD,false\r\n"
        );
        assert_eq!(COLUMNS.split(',').count(), 24);
        let unpriced = Report::of(Group::Day, &lines[..1], &[], None);
        let rows = text(&Header { currency: None, ..header(Group::Day) }, &unpriced, None);
        assert!(rows.ends_with(",0,0,0,0,0,0,0,0,0,0,0,0,0,,,false\r\n"), "{rows}");
    }

    #[test]
    fn a_name_is_no_formula() {
        for (name, expected) in [
            ("till 1", "till 1"),
            ("=1+1", "'=1+1"),
            ("@a,b", "\"'@a,b\""),
            ("＝1", "'＝1"),
            ("\t=1", "'\t=1"),
            ("", ""),
        ] {
            assert_eq!(field(name), expected);
        }
    }
}
