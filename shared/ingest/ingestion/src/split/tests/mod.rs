mod mistakes;

use proptest::prelude::*;
use serde_json::value::RawValue;

use super::*;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    Item(u64, u64, Vec<u8>),
    Broken(u64, u64, Vec<u8>),
    TooLarge(u64, u64, u64),
}

impl From<Piece<'_>> for Found {
    fn from(piece: Piece<'_>) -> Self {
        match piece {
            Piece::Item { index, offset, bytes } => Self::Item(index, offset, bytes.to_vec()),
            Piece::Broken { index, offset, bytes } => Self::Broken(index, offset, bytes.to_vec()),
            Piece::TooLarge { index, offset, length, .. } => Self::TooLarge(index, offset, length),
        }
    }
}

type Outcome = (Vec<Found>, Result<(), PayloadError>);

/// Splits a payload that comes in the parts `windows`, with a sink that accepts every item, JSON or
/// not. `limit` is the maximum size of an item in bytes.
fn split(format: Format, limit: usize, windows: &[&[u8]]) -> Outcome {
    let mut found = Vec::new();
    let result = feed(format, limit, windows, &mut |piece: Piece<'_>| {
        found.push(Found::from(piece));
        Ok(())
    });
    (found, result)
}

/// Splits a payload that comes in the parts `windows`, with a sink that accepts only items that are
/// JSON, as the chunker does. `limit` is the maximum size of an item in bytes.
fn split_json(format: Format, limit: usize, windows: &[&[u8]]) -> Outcome {
    let mut found = Vec::new();
    let result = feed(format, limit, windows, &mut |piece: Piece<'_>| {
        if let Piece::Item { bytes, .. } = piece {
            serde_json::from_slice::<&RawValue>(bytes).map_err(|_| InvalidJson)?;
        }
        found.push(Found::from(piece));
        Ok(())
    });
    (found, result)
}

fn feed(format: Format, limit: usize, windows: &[&[u8]], sink: &mut impl Sink) -> Result<(), PayloadError> {
    let mut splitter = Splitter::new(format, limit);
    windows.iter().try_for_each(|window| splitter.feed(window, sink))?;
    splitter.finish(sink)
}

type Split = fn(Format, usize, &[&[u8]]) -> Outcome;

/// Splits a payload as a whole, and in windows (parts) of every size up to 200 bytes: three blocks
/// of the scanner, beyond which no new case occurs. Checks that all results are equal.
fn every_way(split: Split, format: Format, limit: usize, payload: &[u8]) -> Outcome {
    let at_once = split(format, limit, &[payload]);
    for size in 1..=payload.len().min(200) {
        let windows: Vec<&[u8]> = payload.chunks(size).collect();
        assert_eq!(split(format, limit, &windows), at_once, "windows of {size}");
    }
    at_once
}

fn split_every_way(format: Format, limit: usize, payload: &[u8]) -> Outcome {
    every_way(split, format, limit, payload)
}

fn texts(found: &[Found]) -> Vec<String> {
    found
        .iter()
        .map(|found| match found {
            Found::Item(_, _, bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Found::Broken(_, _, bytes) => format!("broken: {}", String::from_utf8_lossy(bytes)),
            Found::TooLarge(_, _, length) => format!("too large: {length}"),
        })
        .collect()
}

fn array(payload: &str) -> (Vec<String>, Result<(), PayloadError>) {
    let (found, result) = split_every_way(Format::Array, 1000, payload.as_bytes());
    (texts(&found), result)
}

fn lines(payload: &str) -> (Vec<String>, Result<(), PayloadError>) {
    let (found, result) = split_every_way(Format::Lines, 1000, payload.as_bytes());
    (texts(&found), result)
}

#[test]
fn arrays_are_split_whatever_their_layout() {
    for (payload, items) in [
        ("[]", vec![]),
        (" \r\n\t[ \n ] \n", vec![]),
        ("\u{feff}[{}]", vec!["{}"]),
        (r#"[{"a":1},{"b":2}]"#, vec![r#"{"a":1}"#, r#"{"b":2}"#]),
        ("[\n  {\n    \"a\": 1\n  }\n  ,\n  {}\n]\n", vec!["{\n    \"a\": 1\n  }", "{}"]),
        (
            r#"[{"a":"}]\"{[","b":"\\"},{"c":[[{"d":"\\\""}]]}]"#,
            vec![r#"{"a":"}]\"{[","b":"\\"}"#, r#"{"c":[[{"d":"\\\""}]]}"#],
        ),
        (
            r#"[1, -2.5e3 ,"x,]\"",true,null,[[1],[2]],NaN]"#,
            vec!["1", "-2.5e3", r#""x,]\"""#, "true", "null", "[[1],[2]]", "NaN"],
        ),
        (r#"[{"a":[}, {"a":],"b":1}]"#, vec![r#"{"a":[}"#, r#"{"a":],"b":1}"#]),
    ] {
        assert_eq!(array(payload), (items.into_iter().map(str::to_owned).collect(), Ok(())), "{payload}");
    }
}

#[test]
fn a_payload_that_cannot_be_split_says_where() {
    use PayloadFault::*;
    for (payload, items, fault, offset) in [
        ("", 0, Empty, 0),
        (" \n ", 0, Empty, 3),
        ("\u{feff}", 0, Empty, 3),
        ("\u{feff} x", 0, NotAnArray, 4),
        (r#"{"products":[]}"#, 0, NotAnArray, 0),
        (" null", 0, NotAnArray, 1),
        ("[{},]", 1, TrailingComma, 4),
        ("[{},,{}]", 1, MissingItem, 4),
        ("[,{}]", 0, MissingItem, 1),
        ("[{} {}]", 1, Unexpected, 4),
        ("[}", 0, Unexpected, 1),
        ("[{}}", 1, Unexpected, 3),
        (r#"[12"a"]"#, 1, Unexpected, 3),
        ("[", 0, Truncated, 1),
        ("[{},", 1, Truncated, 4),
        ("[{}", 1, Truncated, 3),
        (r#"[{},{"a":"b"#, 1, Truncated, 11),
        (r#"[{},{"a":"b\"#, 1, Truncated, 12),
        ("[{}]]", 1, TrailingContent, 4),
        ("[{}]\n[{}]", 1, TrailingContent, 5),
    ] {
        let (found, result) = array(payload);
        assert_eq!((found.len(), result), (items, Err(PayloadError { fault, offset })), "{payload}");
    }
}

#[test]
fn bytes_that_only_begin_like_a_mark_are_content() {
    let (found, result) = split_every_way(Format::Lines, 10, b"\xef\xbbx\n");
    assert_eq!(found, [Found::Item(0, 0, b"\xef\xbbx".to_vec())]);
    assert_eq!(result, Ok(()));
    let (found, result) = split_every_way(Format::Lines, 10, b"\xef\xbb");
    assert_eq!(found, [Found::Item(0, 0, b"\xef\xbb".to_vec())]);
    assert_eq!(result, Ok(()));
    let (_, result) = split_every_way(Format::Array, 10, b"\xef\xbb");
    assert_eq!(result, Err(PayloadError { fault: PayloadFault::NotAnArray, offset: 0 }));
}

#[test]
fn lines_are_split_at_line_ends_alone() {
    let payload = "\u{feff}{\"a\":1}\r\n\n  \r\n\t{\"b\":\"}{\nnot json [\n{\"c\":3} \t\r\n{\"d\"";
    let (found, result) = split_every_way(Format::Lines, 100, payload.as_bytes());
    assert_eq!(result, Ok(()));
    assert_eq!(texts(&found), ["{\"a\":1}", "{\"b\":\"}{", "not json [", "{\"c\":3}", "{\"d\""]);
    for (index, found) in found.iter().enumerate() {
        let Found::Item(at, offset, bytes) = found else { panic!("{found:?}") };
        let offset = usize::try_from(*offset).unwrap();
        assert_eq!(usize::try_from(*at), Ok(index));
        assert_eq!(&payload.as_bytes()[offset..offset + bytes.len()], bytes);
    }
}

#[test]
fn lines_without_an_item_are_an_empty_payload() {
    for (payload, offset) in [("", 0), ("\n\r\n  ", 5), ("\u{feff}\n", 4)] {
        assert_eq!(
            lines(payload),
            (vec![], Err(PayloadError { fault: PayloadFault::Empty, offset })),
            "{payload:?}"
        );
    }
}

#[test]
fn an_item_beyond_the_limit_is_skipped_and_spoils_no_other() {
    let long = format!(r#"{{"a":"{}\"]"}}"#, "x".repeat(200));
    let limit = 20;
    let length = long.len();
    let expected = vec!["{}".to_owned(), format!("too large: {length}"), r#"{"b":"]"}"#.to_owned()];
    let (found, result) =
        split_every_way(Format::Array, limit, format!(r#"[{{}},{long},{{"b":"]"}}]"#).as_bytes());
    assert_eq!((texts(&found), result), (expected.clone(), Ok(())));
    let (found, result) =
        split_every_way(Format::Lines, limit, format!("{{}}\n{long}\n{{\"b\":\"]\"}}").as_bytes());
    assert_eq!((texts(&found), result), (expected, Ok(())));
}

#[test]
fn the_limit_is_exact_at_every_window_size() {
    for (limit, item) in [(7, r#"{"a":1}"#), (6, "too large: 7")] {
        assert_eq!(texts(&split_every_way(Format::Array, limit, br#"[{"a":1} ,2]"#).0), [item, "2"]);
        assert_eq!(texts(&split_every_way(Format::Lines, limit, b"{\"a\":1}\n2").0), [item, "2"]);
    }
}

#[test]
fn a_failed_splitter_stays_failed() {
    let mut splitter = Splitter::new(Format::Array, 10);
    let mut sink = |piece: Piece<'_>| -> Result<(), InvalidJson> { panic!("{piece:?}") };
    let first = splitter.feed(b"{", &mut sink);
    assert!(first.is_err());
    assert_eq!(splitter.feed(b"[{}]", &mut sink), first);
    assert_eq!(splitter.finish(&mut sink), first);
}

#[test]
fn what_is_held_is_bounded_by_the_limit() {
    let mut splitter = Splitter::new(Format::Array, 4096);
    let mut pieces = Vec::new();
    let mut sink = |piece: Piece<'_>| {
        pieces.push(Found::from(piece));
        Ok(())
    };
    splitter.feed(b"[\"", &mut sink).unwrap();
    for _ in 0..4096 {
        splitter.feed(&[b'x'; 1024], &mut sink).unwrap();
        let Inner::Array(array) = &splitter.inner else { panic!("an array") };
        assert!(array.held() <= 8192);
    }
    splitter.feed(b"\"]", &mut sink).unwrap();
    splitter.finish(&mut sink).unwrap();
    assert_eq!(pieces, [Found::TooLarge(0, 1, 4 * 1024 * 1024 + 2)]);
}

#[test]
fn an_item_beyond_the_limit_comes_with_as_many_of_its_first_bytes() {
    for (format, payload) in [
        (Format::Array, &b"[1, \"0123456789\"]"[..]),
        (Format::Lines, b"1\n\"0123456789\"\n"),
        (Format::Lines, b"1\n\"0123456789\""),
    ] {
        for size in 1..payload.len() {
            let mut splitter = Splitter::new(format, 8);
            let mut beginnings = Vec::new();
            let mut sink = |piece: Piece<'_>| {
                if let Piece::TooLarge { length, beginning, .. } = piece {
                    beginnings.push((length, beginning.to_vec()));
                }
                Ok(())
            };
            for window in payload.chunks(size) {
                splitter.feed(window, &mut sink).unwrap();
            }
            splitter.finish(&mut sink).unwrap();
            assert_eq!(beginnings, [(12, b"\"0123456".to_vec())], "{format:?} by {size}");
        }
    }
}

/// Checks that an item beyond the size limit does not end the array, even if it seems to end with
/// the kept bytes.
#[test]
fn an_item_beyond_the_limit_ends_no_array() {
    let payload = format!("[{{\"a\":\"1\"x \"}}]{}", "y".repeat(20));
    for limit in 4..payload.len() + 4 {
        let found = split_json(Format::Array, limit, &[payload.as_bytes()]);
        assert_eq!(found.1.unwrap_err().fault, PayloadFault::Truncated, "{limit}");
    }
}

#[test]
fn an_object_begins_with_a_member_or_its_end() {
    for text in ["{\"", "{ \n\"CNPJ\":", "{}", "{ }x"] {
        assert!(begins_an_object(text.as_bytes()), "{text}");
    }
    for text in ["", "{", "{'a'", "{a", "[{\"a\"", "<a>", "{{\"", "\"{\""] {
        assert!(!begins_an_object(text.as_bytes()), "{text}");
    }
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        "[a\"\\\\\\[\\]{},:\n é\u{1f600}]{0,8}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::vec(("[a\"\\\\{}\\[\\]]{0,3}", inner), 0..4)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Generates bytes that are nearly JSON, which reach further into the scanner than arbitrary bytes.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let token = prop::sample::select(vec![
        "[", "]", "{", "}", "\"", "\\", ",", ":", " ", "\n", "1", "n", "\u{feff}", "\0",
    ]);
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..60),
        prop::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat().into_bytes()),
        prop::collection::vec(json(), 0..4).prop_flat_map(|items| {
            let text = serde_json::to_vec(&items).unwrap();
            (0..=text.len(), any::<u8>()).prop_map(move |(cut, byte)| {
                let mut text = text.clone();
                text.truncate(cut);
                text.push(byte);
                text
            })
        }),
    ]
}

proptest! {
    #[test]
    fn arrays_are_split_as_serde_json_reads_them(items in prop::collection::vec(json(), 0..6), pretty: bool) {
        let text = if pretty { serde_json::to_string_pretty(&items) } else { serde_json::to_string(&items) }.unwrap();
        let raw: Vec<&RawValue> = serde_json::from_str(&text).unwrap();
        let (found, result) = split_every_way(Format::Array, 10_000, text.as_bytes());
        prop_assert_eq!(result, Ok(()));
        prop_assert_eq!(found.len(), raw.len());
        for (index, (found, raw)) in found.iter().zip(&raw).enumerate() {
            let offset = raw.get().as_ptr() as usize - text.as_ptr() as usize;
            let expected = Found::Item(index as u64, offset as u64, raw.get().as_bytes().to_vec());
            prop_assert_eq!(found, &expected);
        }
    }

    #[test]
    fn lines_are_split_as_they_were_joined(items in prop::collection::vec(json(), 1..6), crlf: bool, last: bool) {
        let lines: Vec<String> = items.iter().map(|item| serde_json::to_string(item).unwrap()).collect();
        let end = if crlf { "\r\n" } else { "\n" };
        let text = lines.join(end) + if last { end } else { "" };
        let (found, result) = split_every_way(Format::Lines, 10_000, text.as_bytes());
        prop_assert_eq!(result, Ok(()));
        prop_assert_eq!(texts(&found), lines);
    }

    #[test]
    fn hostile_bytes_end_the_same_at_every_window_size(payload in hostile(), limit in 0_usize..30) {
        for format in [Format::Array, Format::Lines] {
            for split in [split as Split, split_json] {
                let (found, _) = every_way(split, format, limit, &payload);
                prop_assert!(found.len() <= payload.len());
            }
        }
    }

    #[test]
    fn what_serde_json_takes_for_an_array_never_fails(payload in hostile()) {
        let valid = serde_json::from_slice::<Vec<&RawValue>>(&payload);
        let (found, result) = split_every_way(Format::Array, 10_000, &payload);
        if let Ok(items) = valid {
            prop_assert_eq!(result, Ok(()));
            prop_assert_eq!(texts(&found), items.iter().map(|item| item.get().to_owned()).collect::<Vec<_>>());
        }
        if result.is_ok() {
            // Conversely: a payload that was split without an error and whose items are JSON is an
            // array as a whole.
            let items_valid = found.iter().all(|found| match found {
                Found::Item(_, _, bytes) => serde_json::from_slice::<&RawValue>(bytes).is_ok(),
                Found::Broken(..) | Found::TooLarge(..) => false,
            });
            let unmarked = payload.strip_prefix(&BYTE_ORDER_MARK).unwrap_or(&payload);
            prop_assert_eq!(serde_json::from_slice::<Vec<&RawValue>>(unmarked).is_ok(), items_valid);
        }
    }
}
