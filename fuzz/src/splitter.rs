//! The splitter beside `serde_json`, beside a plain reading of lines, and beside itself at other
//! windows; and whether all of a payload is in some piece.

use ingestion::split::{Format, NotJson, PayloadError, PayloadFault, Piece, Splitter};
use serde_json::value::RawValue;

use crate::{without_white_end, without_white_start};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Bytes of the input before the payload: format, limit, and the windows' sizes.
const HEAD: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    Item { index: u64, offset: u64, bytes: Vec<u8> },
    Broken { index: u64, offset: u64, bytes: Vec<u8> },
    TooLarge { index: u64, offset: u64, length: u64 },
}

type Outcome = (Vec<Found>, Result<(), PayloadError>);

/// The input's first byte says by its parity which format the payload has, the second how long an
/// item may be (from 200 on: as long as it likes); six sizes of windows follow, which take turns.
/// The rest is the payload.
pub fn check(input: &[u8]) {
    let Some((head, payload)) = input.split_at_checked(HEAD) else { return };
    let format = if head[0] % 2 == 0 { Format::Array } else { Format::Lines };
    let limit = if head[1] < 200 { usize::from(head[1]) } else { usize::MAX };
    let outcome = split(format, limit, &[payload]);
    assert_eq!(split(format, limit, &windows(payload, &head[2..])), outcome, "windows change the outcome");
    let (found, result) = &outcome;
    in_order(payload, found);
    if let Err(error) = result {
        assert!(error.offset <= length(payload), "{error} is behind the payload");
    }
    match format {
        Format::Array => as_serde_json_reads(payload, limit, found, *result),
        Format::Lines => as_lines_are_read(payload, limit, found, *result),
    }
    if result.is_ok() {
        nothing_is_lost(payload, format, found);
    }
}

fn split(format: Format, limit: usize, windows: &[&[u8]]) -> Outcome {
    let mut found = Vec::new();
    let mut splitter = Splitter::new(format, limit);
    let mut sink = |piece: Piece<'_>| {
        found.push(match piece {
            Piece::Item { bytes, .. } if !is_json(bytes) => return Err(NotJson),
            Piece::Item { index, offset, bytes } => Found::Item { index, offset, bytes: bytes.to_vec() },
            Piece::Broken { index, offset, bytes } => {
                assert!(!is_json(bytes), "JSON is called broken at {offset}");
                Found::Broken { index, offset, bytes: bytes.to_vec() }
            }
            Piece::TooLarge { index, offset, length } => Found::TooLarge { index, offset, length },
        });
        Ok(())
    };
    let fed = windows.iter().try_for_each(|window| splitter.feed(window, &mut sink));
    let result = fed.and_then(|()| splitter.finish(&mut sink));
    (found, result)
}

/// The payload in windows of these sizes in turn; empty ones too, unless all of them are.
fn windows<'p>(payload: &'p [u8], sizes: &[u8]) -> Vec<&'p [u8]> {
    if sizes.iter().all(|size| *size == 0) {
        return payload.chunks(1).collect();
    }
    let (mut windows, mut rest) = (Vec::new(), payload);
    for size in sizes.iter().cycle() {
        let (window, after) = rest.split_at(usize::from(*size).min(rest.len()));
        windows.push(window);
        if after.is_empty() {
            break;
        }
        rest = after;
    }
    windows
}

/// Items are numbered, are where they say, and do not overlap.
fn in_order(payload: &[u8], found: &[Found]) {
    let mut end = 0;
    for (number, found) in found.iter().enumerate() {
        let (index, offset, length) = match found {
            Found::Item { index, offset, bytes } | Found::Broken { index, offset, bytes } => {
                let at = usize::try_from(*offset).expect("an offset within memory");
                assert_eq!(payload.get(at..at + bytes.len()), Some(bytes.as_slice()), "at {offset}");
                assert!(!bytes.is_empty());
                (*index, *offset, length(bytes))
            }
            Found::TooLarge { index, offset, length } => (*index, *offset, *length),
        };
        assert_eq!(index, u64::try_from(number).expect("a number of items"));
        assert!(offset >= end, "an item begins at {offset}, before {end}");
        end = offset + length;
    }
    assert!(end <= self::length(payload));
}

/// Checks that an array for `serde_json` is one here, with the same items; and that what was split
/// well and whose items are JSON is an array.
fn as_serde_json_reads(payload: &[u8], limit: usize, found: &[Found], result: Result<(), PayloadError>) {
    let unmarked = payload.strip_prefix(BYTE_ORDER_MARK).unwrap_or(payload);
    let expected = serde_json::from_slice::<Vec<&RawValue>>(unmarked);
    if let Ok(items) = &expected {
        let place = |item: &RawValue| item.get().as_ptr().addr() - payload.as_ptr().addr();
        let items: Vec<Found> = items
            .iter()
            .enumerate()
            .map(|(index, item)| piece(index, place(item), item.get().as_bytes(), item.get().len(), limit))
            .collect();
        assert_eq!(result, Ok(()));
        assert_eq!(found, items);
    } else if result.is_ok() {
        let is_item = |found| matches!(found, &Found::Item { .. });
        assert!(!found.iter().all(is_item), "serde_json refuses what is an array here");
    }
}

/// Each line that is JSON is an item: between line feeds, without white space around it, blank ones
/// left out.
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

/// Between the pieces there is white space and commas, and around those of an array its brackets.
/// So no item is lost: it is in a piece that is not JSON, or too large, if it is no piece of its
/// own.
fn nothing_is_lost(payload: &[u8], format: Format, found: &[Found]) {
    let mut rest = payload.to_vec();
    for found in found {
        let (offset, length) = match found {
            Found::Item { offset, bytes, .. } | Found::Broken { offset, bytes, .. } => {
                (*offset, length(bytes))
            }
            Found::TooLarge { offset, length, .. } => (*offset, *length),
        };
        let place = |place| usize::try_from(place).expect("a place within memory");
        rest[place(offset)..place(offset + length)].fill(b' ');
    }
    let rest = rest.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&rest);
    let between: Vec<u8> =
        rest.iter().copied().filter(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b',')).collect();
    let expected: &[u8] = if format == Format::Array { b"[]" } else { b"" };
    assert_eq!(between, expected, "something is in no piece");
}

fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<&RawValue>(bytes).is_ok()
}

fn piece(index: usize, offset: usize, bytes: &[u8], counted: usize, limit: usize) -> Found {
    let number = |number| u64::try_from(number).expect("64 bits");
    let (index, offset) = (number(index), number(offset));
    if counted > limit {
        Found::TooLarge { index, offset, length: number(counted) }
    } else {
        Found::Item { index, offset, bytes: bytes.to_vec() }
    }
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).expect("64 bits")
}
