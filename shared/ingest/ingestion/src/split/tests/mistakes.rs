//! Tests of valid items beside mistakes. Each valid item is found, or is within a piece that is
//! reported as broken or too large, or the payload fails. None is lost silently.

use std::ops::Range;

use super::*;

const LIMIT: usize = 2000;

/// Returns an item without any character that a mistake could confuse with JSON syntax.
fn plain(id: usize) -> String {
    format!(r#"{{"PRODUCTID":"{id}","TITLE":"AGULHA {id}","PRICE":"1.50"}}"#)
}

/// Mistake in one item of a generated payload, or between it and the next item.
#[derive(Clone, Copy, Debug)]
enum Mistake {
    /// A quotation mark within a text.
    InchMark,
    /// A quotation mark before an item's first member.
    EarlyMark,
    MissingMark,
    /// A closing brace that is missing from an item, and follows the last item instead.
    MovedBrace,
    LineFeed,
    Word,
    MissingComma,
    /// The item ends too early, and the next item follows at once.
    CutOff,
}

const MISTAKES: [Mistake; 8] = [
    Mistake::InchMark,
    Mistake::EarlyMark,
    Mistake::MissingMark,
    Mistake::MovedBrace,
    Mistake::LineFeed,
    Mistake::Word,
    Mistake::MissingComma,
    Mistake::CutOff,
];

fn mistaken(item: &str, mistake: Mistake) -> String {
    let title = item.replace("AGULHA", "AGULHA 1\" CURTA");
    match mistake {
        Mistake::InchMark => title,
        Mistake::EarlyMark => item.replacen('{', "{\"", 1),
        Mistake::MissingMark => item.replace("\",\"PRICE", ",\"PRICE"),
        Mistake::MovedBrace => item.trim_end_matches('}').to_owned(),
        Mistake::LineFeed => item.replace("AGULHA", "AGULHA\n"),
        Mistake::Word => item.replace("\"1.50\"", "NaN"),
        Mistake::MissingComma => item.replace(",\"PRICE", "\"PRICE"),
        Mistake::CutOff => item.split_at(item.len() / 2).0.to_owned(),
    }
}

/// Separators between the items of a generated payload.
#[derive(Clone, Copy, Debug)]
enum Join {
    Array(&'static str),
    Lines(&'static str),
}

const JOINS: [Join; 10] = [
    Join::Array(","),
    Join::Array(" ,\n  "),
    Join::Lines("\n"),
    Join::Lines("\r\n"),
    Join::Lines("\r"),
    Join::Lines(""),
    Join::Lines(" "),
    Join::Lines(","),
    Join::Lines(",\n"),
    Join::Lines(", "),
];

impl Join {
    fn payload(self, items: &[String]) -> (Format, String) {
        match self {
            Self::Array(between) => (Format::Array, format!("[{}]", items.join(between))),
            Self::Lines(between) => (Format::Lines, items.join(between)),
        }
    }
}

/// Returns a payload with these mistakes, each at the item with its index, and the valid items with
/// their offsets.
fn with_mistakes(
    join: Join,
    items: &[String],
    mistakes: &[(usize, Mistake)],
) -> (Format, String, Vec<(usize, String)>) {
    let mut texts = items.to_vec();
    let mut valid = vec![true; items.len()];
    for (at, mistake) in mistakes {
        texts[*at] = mistaken(&items[*at], *mistake);
        valid[*at] = false;
        if matches!(mistake, Mistake::MovedBrace) {
            texts.last_mut().unwrap().push('}');
            *valid.last_mut().unwrap() = false;
        }
    }
    let (format, payload) = join.payload(&texts);
    let (mut untouched, mut from) = (Vec::new(), 0);
    for (text, is_valid) in texts.iter().zip(valid) {
        let at = from + payload[from..].find(text.as_str()).unwrap();
        from = at + text.len();
        if is_valid {
            untouched.push((at, text.clone()));
        }
    }
    (format, payload, untouched)
}

fn contains(found: &[Found], at: usize, item: &str) -> bool {
    found.iter().any(|found| {
        matches!(found, Found::Item(_, offset, bytes)
        if usize::try_from(*offset) == Ok(at) && bytes == item.as_bytes())
    })
}

/// True if the item, at the offset `at`, is within a piece that is not JSON or was too large.
fn is_covered(found: &[Found], at: usize, item: &str) -> bool {
    let places: Vec<Range<usize>> = found
        .iter()
        .filter_map(|found| {
            let (offset, length) = match found {
                Found::Item(..) => return None,
                Found::Broken(_, offset, bytes) => (*offset, bytes.len()),
                Found::TooLarge(_, offset, length) => (*offset, usize::try_from(*length).unwrap()),
            };
            let offset = usize::try_from(offset).unwrap();
            Some(offset..offset + length)
        })
        .collect();
    let within = |place| places.iter().any(|piece| piece.contains(&place));
    item.bytes().enumerate().all(|(place, byte)| within(at + place) || byte == b',' || is_white(byte))
}

#[test]
fn a_mistake_costs_no_item_but_its_own() {
    for join in JOINS {
        for mistake in MISTAKES {
            for at in [vec![0], vec![1], vec![3], vec![5], vec![1, 3], vec![0, 2, 4], vec![1, 2]] {
                let items: Vec<String> = (0..6).map(plain).collect();
                let mistakes: Vec<_> = at.iter().map(|at| (*at, mistake)).collect();
                let (format, payload, valid) = with_mistakes(join, &items, &mistakes);
                let (found, result) = every_way(split_json, format, LIMIT, payload.as_bytes());
                // If an item breaks off, the beginning of the next one of its line is unknown.
                let hides_the_next = matches!(mistake, Mistake::CutOff | Mistake::MovedBrace)
                    && matches!(join, Join::Lines(_));
                if result.is_err() {
                    assert!(
                        matches!((mistake, format), (Mistake::MovedBrace | Mistake::CutOff, Format::Array)),
                        "{mistake:?} {join:?} {at:?}: {result:?} for {payload}"
                    );
                    continue;
                }
                for (offset, item) in &valid {
                    let next = hides_the_next && at.iter().any(|at| *item == items[(at + 1).min(5)]);
                    assert!(
                        contains(&found, *offset, item) || (next && is_covered(&found, *offset, item)),
                        "{mistake:?} {join:?} {at:?}: {item} of {payload} is not among {:#?}",
                        texts(&found)
                    );
                }
                // The last item's brace was moved to where it is.
                let is_moved = !(matches!(mistake, Mistake::MovedBrace) && at == [5]);
                let is_broken = found.iter().any(|found| matches!(found, Found::Broken(..)));
                assert_eq!(is_broken, is_moved, "{payload}");
            }
        }
    }
}

#[test]
fn joined_items_without_a_mistake_are_all_there() {
    let items: Vec<String> = (0..5).map(plain).collect();
    for join in JOINS {
        let (format, payload) = join.payload(&items);
        for limit in [LIMIT, items[0].len() + 10] {
            let (found, result) = every_way(split_json, format, limit, payload.as_bytes());
            assert_eq!((texts(&found), result), (items.clone(), Ok(())), "{join:?}");
        }
    }
}

#[test]
fn a_mistake_far_from_the_next_one_costs_no_item_but_its_own() {
    let count = 400;
    for mistakes in [vec![20], vec![20, 250], vec![399]] {
        for join in [Join::Array(","), Join::Array(",\n"), Join::Lines("\r"), Join::Lines("")] {
            let items: Vec<String> = (0..count).map(plain).collect();
            let mistakes: Vec<_> = mistakes.iter().map(|at| (*at, Mistake::InchMark)).collect();
            let (format, payload, valid) = with_mistakes(join, &items, &mistakes);
            let (found, result) = split_json(format, LIMIT, &[payload.as_bytes()]);
            assert_eq!(result, Ok(()));
            let found_items = found.iter().filter(|found| matches!(found, Found::Item(..))).count();
            assert_eq!((found_items, found.len()), (valid.len(), count), "{mistakes:?} {join:?}");
            for (offset, item) in &valid {
                assert!(contains(&found, *offset, item), "{item}");
            }
        }
    }
}

#[test]
fn objects_within_an_item_that_is_not_json_are_no_items() {
    for item in [
        r#"{"PRODUCTID":"1","TITLE":"1" x","KIT":[{"PRODUCTID":"2"},{"PRODUCTID":"3"},{"PRODUCTID":"4"}]}"#,
        r#"{"KIT":[{"PRODUCTID":"2"},{"PRODUCTID":"3"}],"TITLE":"1" x","PRODUCTID":"1"}"#,
        r#"{"TITLE":"1" x","KIT":{"PRODUCTID":"2"}}"#,
    ] {
        for (format, payload) in
            [(Format::Array, format!("[{{}},{item},{{}}]")), (Format::Lines, item.to_owned())]
        {
            let (found, _) = every_way(split_json, format, LIMIT, payload.as_bytes());
            let items =
                found.iter().filter(|found| matches!(found, Found::Item(_, _, bytes) if bytes != b"{}"));
            assert_eq!(items.count(), 0, "{:?}", texts(&found));
        }
    }
}

#[test]
fn an_object_that_something_follows_is_not_read_without_it() {
    for line in
        [r#"{"PRODUCTID":"1"} "PRICE":5}"#, r#"{"PRODUCTID":"1"}}"#, r#"{"PRODUCTID":"1"},"PRICE":5}"#]
    {
        let (found, result) = every_way(split_json, Format::Lines, LIMIT, line.as_bytes());
        assert_eq!((texts(&found), result), (vec![format!("broken: {line}")], Ok(())));
    }
}

#[test]
fn an_array_that_breaks_off_within_an_item_that_is_not_json_breaks_off() {
    let broken = r#"{"PRODUCTID":"1","TITLE":"1" x"}"#;
    for rest in [
        "",
        ",",
        "}",
        r#",{"PRODUCTID":"2"}"#,
        r#",{"PRODUCTID":"2","KIT":[{"a":1}]"#,
        r#",{"PRODUCTID":"x}]"#,
    ] {
        let payload = format!("[{broken}{rest}");
        let (_, result) = every_way(split_json, Format::Array, LIMIT, payload.as_bytes());
        assert!(result.is_err(), "{payload}");
    }
}

#[test]
fn parts_that_one_far_mistake_breaks_are_not_each_read_up_to_it() {
    // Each object seems to begin outside brackets, and is one with all that follow.
    let text = format!("{{x{}x", r#","a":["]",{"a":1"#.repeat(15_000));
    let (found, result) = split_json(Format::Lines, ITEM_LIMIT, &[text.as_bytes()]);
    assert_eq!(result, Ok(()));
    assert!(!found.is_empty());
}

fn any_item() -> impl Strategy<Value = String> {
    prop::collection::vec(("[a-c]{1,2}", json()), 1..4)
        .prop_map(|members| serde_json::Value::Object(members.into_iter().collect()).to_string())
}

proptest! {
    #[test]
    fn no_item_beside_a_mistake_is_lost_without_a_word(
        items in prop::collection::vec(prop_oneof![any_item(), (0_usize..100).prop_map(plain)], 2..7),
        mistaken in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(MISTAKES.to_vec())), 1..3),
        join in prop::sample::select(JOINS.to_vec()),
        limit in prop::sample::select(vec![60, 150, 2000]),
    ) {
        let mut items = items;
        let mistakes: Vec<_> = mistaken.iter().map(|(at, mistake)| (at.index(items.len()), *mistake)).collect();
        for (at, _) in &mistakes {
            items[*at] = plain(*at);
        }
        let (format, payload, valid) = with_mistakes(join, &items, &mistakes);
        let (found, result) = every_way(split_json, format, limit, payload.as_bytes());
        if result.is_ok() {
            for (offset, item) in &valid {
                prop_assert!(
                    contains(&found, *offset, item) || is_covered(&found, *offset, item),
                    "{} of {} is not among {:#?}", item, payload, texts(&found)
                );
            }
        }
    }
}
