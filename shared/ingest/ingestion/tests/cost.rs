//! Tests that the cost of splitting a payload and of reading an item grows only with their length,
//! however hostile they are. The cost is counted in allocations and allocated bytes, at one, two
//! and four times the length of the worst shapes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails where it finds itself wrong")]

use allocation_counter::{AllocationInfo, measure};
use ingestion::product::{CnpjAccess, ItemErrorCode, ItemPlace, ItemRules, PartialPolicy, RowHasher};
use ingestion::split::{Format, ITEM_LIMIT, InvalidJson, Piece, Splitter};
use jiff::tz::TimeZone;

const RULES: ItemRules =
    ItemRules { zone: TimeZone::UTC, cnpjs: CnpjAccess::Any, partial: PartialPolicy::Warn };

/// Length in bytes of the shortest of the three payloads or items of each shape.
const LENGTH: usize = 32 * 1024;
/// Maximum number of bytes allocated for each byte of a payload or item. Two contents come closest:
/// lines of two bytes, each of which needs an error, and needs it twice if its items cannot be
/// separated; and members of six bytes, each with an entry in a list that doubles as it grows.
const BYTES_PER_BYTE: u64 = 1024;
/// Maximum cost of a payload that is two or four times as long, in percent of the proportional
/// cost. It exceeds 100 because lists grow in steps.
const SLACK: u64 = 150;
/// Number of allocations, of 64 bytes each, that a payload may cost in addition to those
/// proportional to its length.
const FEW: u64 = 64;

fn item(members: &str) -> String {
    format!(r#"{{"CNPJ":"11222333000181","SHOPID":3,"PRODUCTID":"1",{members}}}"#)
}

/// Returns JSON members or elements, separated by commas: as many results of `each` as fit into
/// `length` bytes.
fn many(length: usize, each: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for number in 0.. {
        let next = each(number);
        if text.len() + next.len() + 1 > length {
            break;
        }
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&next);
    }
    text
}

fn nested(depth: usize, inner: &str) -> String {
    format!("{}{inner}{}", r#"{"a":"#.repeat(depth), "}".repeat(depth))
}

/// Returns an item of about `length` bytes for each shape that is expensive to read, with the
/// shape's name.
fn items(length: usize) -> Vec<(&'static str, String)> {
    let name = |number: usize| format!(r#""k{number}":1"#);
    vec![
        ("a long name", item(&format!(r#""{}":1"#, "a".repeat(length)))),
        ("a long name with escapes", item(&format!(r#""{}":1"#, r"\u0061".repeat(length / 6)))),
        ("a long text", item(&format!(r#""TITLE":"{}""#, "a".repeat(length)))),
        ("a text of escapes", item(&format!(r#""TITLE":"{}""#, r"\n".repeat(length / 2)))),
        ("a text that is kept escaped", item(&format!(r#""LOTE":"{}""#, r"\u0001".repeat(length / 6)))),
        ("a long number", item(&format!(r#""PRICE":{}"#, "9".repeat(length)))),
        ("a long number with an exponent", item(&format!(r#""PRICE":0.{}1e{length}"#, "0".repeat(length)))),
        ("many members", item(&many(length, name))),
        ("many members with escapes", item(&many(length, |number| format!(r#""\u0061{number}":"\n""#)))),
        ("one member again and again", item(&many(length, |_| r#""LOTE":1"#.to_owned()))),
        ("one field again and again", item(&many(length, |_| r#""TITLE":1"#.to_owned()))),
        ("a list", item(&format!(r#""LOTE":[{}]"#, many(length, |_| "1".to_owned())))),
        ("a list of objects", item(&format!(r#""LOTE":[{}]"#, many(length, |_| r#"{"a":1}"#.to_owned())))),
        ("nested members", item(&format!(r#""LOTE":{{{}}}"#, many(length, name)))),
        (
            "deeply nested members",
            item(&format!(r#""LOTE":{}"#, nested(30, &format!("{{{}}}", many(length, name))))),
        ),
        ("nested too deeply", item(&format!(r#""LOTE":{}"#, nested(length / 6, "1")))),
        ("an item that breaks off", item(&many(length, name)).trim_end_matches('}').to_owned()),
        ("a list instead of an item", format!("[{}]", many(length, |_| "1".to_owned()))),
        ("no JSON at all", "x".repeat(length)),
    ]
}

/// Returns payloads of about `length` bytes, each with the name of its shape: with many items, with
/// many items in error, or with one item that is too large.
fn payloads(length: usize) -> Vec<(&'static str, Format, String)> {
    let right = item(r#""TITLE":"a""#);
    let lines = |each: &str| format!("{each}\n").repeat(length / (each.len() + 1));
    vec![
        ("items", Format::Array, format!("[{}]", many(length, |_| right.clone()))),
        ("lines", Format::Lines, lines(&right)),
        ("items in error", Format::Array, format!("[{}]", many(length, |_| "1".to_owned()))),
        ("lines in error", Format::Lines, lines("{")),
        ("empty objects", Format::Array, format!("[{}]", many(length, |_| "{}".to_owned()))),
        ("texts with escapes", Format::Array, format!("[{}]", many(length, |_| r#""\\\"""#.to_owned()))),
        ("one item that never ends", Format::Array, format!("[{}", r#"{"a":["#.repeat(length / 6))),
        ("one text that never ends", Format::Array, format!(r#"["{}"#, r#"\""#.repeat(length / 2))),
        ("one line that never ends", Format::Lines, "{".repeat(length)),
        ("objects of one line", Format::Lines, right.repeat(length / right.len())),
        (
            "items beside mistakes",
            Format::Array,
            format!("[{}]", many(length, |_| r#"{"a":"1" x"}"#.to_owned())),
        ),
        ("white space", Format::Array, " ".repeat(length)),
    ]
}

fn parse(item: &str) -> AllocationInfo {
    measure(|| drop(RULES.parse(ItemPlace { index: 0, offset: 0 }, item.as_bytes())))
}

/// Splits a payload that arrives in pieces of 1,000 bytes, and parses its items. Returns the
/// allocations that this took.
fn split(format: Format, payload: &str) -> AllocationInfo {
    measure(|| {
        let mut splitter = Splitter::new(format, ITEM_LIMIT);
        let mut take = |piece: Piece<'_>| {
            match piece {
                Piece::Item { index, offset, bytes } => {
                    let item = RULES.parse(ItemPlace { index, offset }, bytes);
                    let is_json = !matches!(item, Err(error) if error.code == ItemErrorCode::MalformedJson);
                    return if is_json { Ok(()) } else { Err(InvalidJson) };
                }
                Piece::Broken { index, offset, bytes } => {
                    drop(RULES.broken(ItemPlace { index, offset }, bytes));
                }
                Piece::TooLarge { .. } => {}
            }
            Ok(())
        };
        let fed = payload.as_bytes().chunks(1000).try_for_each(|window| splitter.feed(window, &mut take));
        let _ = fed.and_then(|()| splitter.finish(&mut take));
    })
}

/// Checks that the allocations for one, two and four times the length of a shape grow no faster
/// than the length, and keep within [`BYTES_PER_BYTE`].
fn is_linear(shape: &str, counted: &[(usize, AllocationInfo)]) {
    let [(_, once), rest @ ..] = counted else { panic!() };
    for (length, cost) in counted {
        let bytes = u64::try_from(*length).unwrap() * BYTES_PER_BYTE + 64 * FEW;
        assert!(cost.bytes_total <= bytes, "{shape} of {length} bytes: {cost:?}");
    }
    for ((_, cost), times) in rest.iter().zip([2, 4]) {
        let count = (once.count_total + FEW) * times * SLACK / 100;
        let bytes = (once.bytes_total + 64 * FEW) * times * SLACK / 100;
        assert!(cost.count_total <= count, "{shape}, {times} times as long: {cost:?} after {once:?}");
        assert!(cost.bytes_total <= bytes, "{shape}, {times} times as long: {cost:?} after {once:?}");
    }
}

#[test]
fn reading_an_item_costs_what_its_length_is() {
    let [once, twice, four] = [1, 2, 4].map(|times| items(LENGTH * times));
    for (((shape, once), (_, twice)), (_, four)) in once.iter().zip(&twice).zip(&four) {
        is_linear(shape, &[once, twice, four].map(|item| (item.len(), parse(item))));
    }
}

#[test]
fn splitting_a_payload_costs_what_its_length_is() {
    let [once, twice, four] = [1, 2, 4].map(|times| payloads(LENGTH * times));
    for (((shape, format, once), (_, _, twice)), (_, _, four)) in once.iter().zip(&twice).zip(&four) {
        let counted = [once, twice, four].map(|payload| (payload.len(), split(*format, payload)));
        is_linear(shape, &counted);
    }
}

#[test]
fn hashing_rows_allocates_nothing_once_there_was_one_as_large() {
    let large = item(&format!(r#""TITLE":"{0}","LOTE":"{0}","PRICE":1,"QUANTITY":2"#, "a".repeat(LENGTH)));
    let product = RULES.parse(ItemPlace { index: 0, offset: 0 }, large.as_bytes()).unwrap();
    let mut hasher = RowHasher::default();
    let first = hasher.hash(&product.attributes);
    let cost = measure(|| assert_eq!(hasher.hash(&product.attributes), first));
    assert_eq!(cost.count_total, 0, "{cost:?}");
}
