//! Oracle for the splitter, which divides a payload into items. It must agree with `serde_json` and
//! with a plain reading of lines. Its result must not depend on the blocks in which it gets the
//! payload, and no item may be lost.

use std::ops::Range;

use ingestion::split::{Format, InvalidJson, PayloadError, PayloadFault, Piece, Splitter};
use serde_json::value::RawValue;

use crate::{is_white, windows, without_white_end, without_white_start};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Number of bytes of a fuzz input before the payload: one for the format, one for the limit of an
/// item, six for the sizes of the blocks in which the splitter gets the payload.
const HEAD: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    Item { index: u64, offset: u64, bytes: Vec<u8> },
    Broken { index: u64, offset: u64, bytes: Vec<u8> },
    TooLarge { index: u64, offset: u64, length: u64, beginning: Vec<u8> },
}

impl Found {
    /// Returns the range of the payload's bytes that the piece covers.
    fn place(&self) -> Range<usize> {
        let (offset, length) = match self {
            Self::Item { offset, bytes, .. } | Self::Broken { offset, bytes, .. } => (*offset, length(bytes)),
            Self::TooLarge { offset, length, .. } => (*offset, *length),
        };
        let place = |place| usize::try_from(place).expect("a place within memory");
        place(offset)..place(offset + length)
    }
}

type Outcome = (Vec<Found>, Result<(), PayloadError>);

/// Valid items that are put before and after a fuzzed payload. No text between them makes one JSON
/// value of both.
const NEIGHBOURS: [&[u8]; 2] = [br#"{"PRODUCTID":"1"}"#, br#"{"PRODUCTID":"2"}"#];

/// Checks the splitter with a fuzz input. The first byte chooses the format, and whether the
/// payload is put between two valid items. The second byte is the limit of an item's bytes (from
/// 200 on: none), six more are the sizes of the blocks in which the splitter gets the payload. The
/// rest is the payload.
pub(crate) fn check(input: &[u8]) {
    let Some((head, payload)) = input.split_at_checked(HEAD) else { return };
    let format = if head[0] % 2 == 0 { Format::Array } else { Format::Lines };
    let limit = if head[1] < 200 { usize::from(head[1]) } else { usize::MAX };
    let sizes: Vec<usize> = head[2..].iter().copied().map(usize::from).collect();
    let [first, last] = NEIGHBOURS;
    let around: [&[u8]; 3] = match head[0] / 2 % 4 {
        1 if format == Format::Array => [b"[", b",", b"]"],
        1 => [b"", b"\r", b""],
        2 if format == Format::Lines => [b"", b"", b""],
        3 if format == Format::Lines => [b"", b"\n", b""],
        _ => {
            check_payload(payload, format, limit, &sizes);
            return;
        }
    };
    let [start, between, end] = around;
    let payload = [start, first, between, payload, between, last, end].concat();
    if let Some(found) = check_payload(&payload, format, limit, &sizes) {
        no_neighbour_is_lost(&found, start.len(), first);
        no_neighbour_is_lost(&found, payload.len() - end.len() - last.len(), last);
    }
}

/// Splits a payload and checks the pieces: items, broken items and items above the limit. Returns
/// them if the payload could be split to its end.
fn check_payload(payload: &[u8], format: Format, limit: usize, sizes: &[usize]) -> Option<Vec<Found>> {
    let outcome = split(format, limit, &[payload]);
    assert_eq!(split(format, limit, &windows(payload, sizes)), outcome, "windows change the outcome");
    let (found, result) = outcome;
    in_order(payload, limit, &found);
    if let Err(error) = result {
        assert!(error.offset <= length(payload), "{error} is behind the payload");
    }
    match format {
        Format::Array => as_serde_json_reads(payload, limit, &found, result),
        Format::Lines => as_lines_are_read(payload, limit, &found, result),
    }
    result.ok()?;
    nothing_is_lost(payload, format, &found);
    Some(found)
}

fn split(format: Format, limit: usize, windows: &[&[u8]]) -> Outcome {
    let mut found = Vec::new();
    let mut splitter = Splitter::new(format, limit);
    let mut sink = |piece: Piece<'_>| {
        found.push(match piece {
            Piece::Item { bytes, .. } if !is_json(bytes) => return Err(InvalidJson),
            Piece::Item { index, offset, bytes } => Found::Item { index, offset, bytes: bytes.to_vec() },
            Piece::Broken { index, offset, bytes } => {
                assert!(!is_json(bytes), "JSON is called broken at {offset}");
                Found::Broken { index, offset, bytes: bytes.to_vec() }
            }
            Piece::TooLarge { index, offset, length, beginning } => {
                Found::TooLarge { index, offset, length, beginning: beginning.to_vec() }
            }
        });
        Ok(())
    };
    let fed = windows.iter().try_for_each(|window| splitter.feed(window, &mut sink));
    let result = fed.and_then(|()| splitter.finish(&mut sink));
    (found, result)
}

/// Checks that the splitter's pieces have ascending indexes, contain the payload's bytes at their
/// offsets, do not overlap, and keep to the limit.
fn in_order(payload: &[u8], limit: usize, found: &[Found]) {
    let mut end = 0;
    for (number, found) in found.iter().enumerate() {
        let place = found.place();
        let (index, bytes) = match found {
            Found::Item { index, bytes, .. } | Found::Broken { index, bytes, .. } => {
                assert!(!bytes.is_empty());
                (*index, bytes)
            }
            Found::TooLarge { index, beginning, .. } => {
                assert!(place.len() > limit, "{} bytes at {place:?} are too large", place.len());
                (*index, beginning)
            }
        };
        assert!(bytes.len() <= limit, "{} bytes at {place:?}", bytes.len());
        assert!(payload[place.clone()].starts_with(bytes), "other bytes are at {place:?}");
        assert_eq!(index, u64::try_from(number).expect("a number of items"));
        assert!(place.start >= end, "{place:?} begins before {end}");
        end = place.end;
    }
}

/// Checks that the splitter agrees with `serde_json` about arrays: an array has the same items for
/// both, and a payload that was split into items only is an array for `serde_json`.
fn as_serde_json_reads(payload: &[u8], limit: usize, found: &[Found], result: Result<(), PayloadError>) {
    let unmarked = payload.strip_prefix(BYTE_ORDER_MARK).unwrap_or(payload);
    let expected = serde_json::from_slice::<Vec<&RawValue>>(unmarked);
    if let Ok(items) = &expected {
        let place = |item: &RawValue| item.get().as_ptr().addr() - payload.as_ptr().addr();
        let items: Vec<Found> = items
            .iter()
            .enumerate()
            .map(|(index, item)| piece(index, place(item), item.get().as_bytes(), limit))
            .collect();
        assert_eq!(result, Ok(()));
        assert_eq!(found, items);
    } else if result.is_ok() {
        let is_item = |found| matches!(found, &Found::Item { .. });
        assert!(!found.iter().all(is_item), "serde_json refuses what is an array here");
    }
}

/// Checks that each line that is JSON and within the limit is an item without the white space
/// around it. Also checks that the split fails if all lines are blank, and only then.
fn as_lines_are_read(payload: &[u8], limit: usize, found: &[Found], result: Result<(), PayloadError>) {
    let unmarked = payload.strip_prefix(BYTE_ORDER_MARK).unwrap_or(payload);
    let mut at = payload.len() - unmarked.len();
    let mut is_empty = true;
    for line in unmarked.split(|byte| *byte == b'\n') {
        let content = without_white_start(line);
        let offset = at + line.len() - content.len();
        is_empty &= content.is_empty();
        // White space behind an item counts towards its limit.
        if is_json(content) && content.len() <= limit {
            let item = without_white_end(content);
            assert!(
                found.iter().any(|found| matches!(found, Found::Item { offset: at, bytes, .. }
                    if usize::try_from(*at) == Ok(offset) && bytes == item)),
                "the line at {offset} is no item"
            );
        }
        at += line.len() + 1;
    }
    let empty = PayloadError { fault: PayloadFault::Empty, offset: length(payload) };
    assert_eq!(result, if is_empty { Err(empty) } else { Ok(()) });
}

/// Checks that only white space, commas and the brackets of an array are outside of the splitter's
/// pieces. So every item is a piece, or part of a piece that is reported as broken or too large.
fn nothing_is_lost(payload: &[u8], format: Format, found: &[Found]) {
    let mut rest = payload.to_vec();
    for found in found {
        rest[found.place()].fill(b' ');
    }
    let rest = rest.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&rest);
    let between: Vec<u8> = rest.iter().copied().filter(|byte| !is_white(*byte) && *byte != b',').collect();
    let expected: &[u8] = if format == Format::Array { b"[]" } else { b"" };
    assert_eq!(between, expected, "something is in no piece");
}

/// Checks that the valid item which was put at `offset` is a piece, or part of a piece that is
/// reported as broken or too large.
fn no_neighbour_is_lost(found: &[Found], offset: usize, item: &[u8]) {
    let place = offset..offset + item.len();
    let holds = |found: &&Found| found.place().start <= place.start && found.place().end >= place.end;
    match found.iter().find(holds) {
        Some(Found::Item { bytes, .. }) => assert_eq!(bytes, item, "an item holds its neighbour"),
        Some(Found::Broken { .. } | Found::TooLarge { .. }) => {}
        None => panic!("the item at {offset} is in no piece, or in several"),
    }
}

fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<&RawValue>(bytes).is_ok()
}

fn piece(index: usize, offset: usize, bytes: &[u8], limit: usize) -> Found {
    let number = |number| u64::try_from(number).expect("64 bits");
    let (index, offset) = (number(index), number(offset));
    match bytes.get(..limit) {
        Some(beginning) if bytes.len() > limit => {
            Found::TooLarge { index, offset, length: length(bytes), beginning: beginning.to_vec() }
        }
        _ => Found::Item { index, offset, bytes: bytes.to_vec() },
    }
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).expect("64 bits")
}
