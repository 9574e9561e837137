//! Property tests: all spellings of a body have one fingerprint, and a body with any change has
//! another.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::spelling::{Choices, spell, spell_number};
use super::{canonical_text, of, parsed};

const MAX_INTEGER: i64 = 9_007_199_254_740_991;

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        (-MAX_INTEGER..=MAX_INTEGER).prop_map(Value::from),
        (-20..=20i64).prop_map(Value::from),
        prop::sample::select(vec![0, MAX_INTEGER, -MAX_INTEGER]).prop_map(Value::from),
        prop::num::f64::NORMAL.prop_map(Value::from),
        prop::num::f64::SUBNORMAL.prop_map(Value::from),
        (-2000..=2000i32).prop_map(|cents| Value::from(f64::from(cents) / 100.0)),
    ]
}

/// Generates strings. Some of them sort differently by UTF-16 and by UTF-8, need escapes, or look
/// like each other.
fn text() -> impl Strategy<Value = String> {
    let character = prop_oneof![
        4 => any::<char>(),
        2 => prop::char::range(' ', '~'),
        1 => prop::char::range('\0', '\u{1f}'),
        1 => prop::char::range('\u{d7f0}', '\u{e010}'),
        1 => prop::char::range('\u{fff0}', '\u{1000f}'),
        1 => prop::sample::select(vec!['"', '\\', '/', '\u{7f}', '\u{2028}', '\u{feff}', 'é', '\u{301}']),
    ];
    prop::collection::vec(character, 0..8).prop_map(|characters| characters.into_iter().collect())
}

fn body() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        3 => number(),
        3 => text().prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(6, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..6).prop_map(|members| members.into_iter().collect()),
        ]
    });
    // Six levels at most so far; 57 more make 64 of them with the leaf, which is as deep as a body
    // may be.
    (value, prop_oneof![3 => Just(0), 1 => 0..=57usize], any::<bool>()).prop_map(|(value, levels, named)| {
        (0..levels).fold(value, |inner, _| if named { json!({ "a": inner }) } else { json!([inner]) })
    })
}

/// Returns whether two JSON values are equal if their numbers are read as doubles.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, value)| other.get(name).is_some_and(|other| same(value, other)))
        }
        (one, other) => one == other,
    }
}

/// Returns a copy of a JSON value with one change, which `choices` select.
fn changed(value: &Value, choices: &mut Choices) -> Value {
    let deeper = choices.of(3) > 0;
    match value {
        Value::Array(items) if deeper && !items.is_empty() => {
            let mut items = items.clone();
            let item = choices.of(items.len());
            items[item] = changed(&items[item], choices);
            Value::Array(items)
        }
        Value::Object(members) if deeper && !members.is_empty() => {
            let mut members = members.clone();
            let member = members.values_mut().nth(choices.of(value.as_object().unwrap().len())).unwrap();
            *member = changed(member, choices);
            Value::Object(members)
        }
        Value::Null => [json!(false), json!(0), json!(""), json!([]), json!({})][choices.of(5)].clone(),
        Value::Bool(value) => [json!(!value), json!(null), json!(i32::from(*value))][choices.of(3)].clone(),
        Value::Number(number) => changed_number(number.as_f64().unwrap(), choices),
        Value::String(text) => changed_text(text, choices),
        Value::Array(items) => changed_items(items, choices),
        Value::Object(members) => changed_members(members, choices),
    }
}

/// Returns another value in place of a number: another number, sometimes the next double, or the
/// same number as a string.
fn changed_number(number: f64, choices: &mut Choices) -> Value {
    let neighbour = if number >= f64::MAX { number.next_down() } else { number.next_up() };
    match choices.of(4) {
        1 if number != 0.0 => json!(-number),
        2 => json!(spell_number(number, choices)),
        3 if number.abs() < 1e15 => json!(number + 1.0),
        _ => json!(neighbour),
    }
}

fn changed_text(text: &str, choices: &mut Choices) -> Value {
    let mut shorter = text.to_owned();
    match (choices.of(4), shorter.pop()) {
        (0, Some(_)) => json!(shorter),
        (1, Some(last)) => json!(format!("{shorter}{}", if last == 'x' { 'y' } else { 'x' })),
        (2, _) => json!([text]),
        _ => json!(format!("{text}{}", if choices.of(2) == 0 { '\0' } else { '\u{301}' })),
    }
}

fn changed_items(items: &[Value], choices: &mut Choices) -> Value {
    let mut items = items.to_vec();
    let (one, other) = (choices.of(items.len()), choices.of(items.len()));
    match choices.of(4) {
        0 if !items.is_empty() => drop(items.remove(one)),
        1 if !items.is_empty() && !same(&items[one], &items[other]) => items.swap(one, other),
        2 => return json!([items]),
        _ => items.push(Value::Null),
    }
    Value::Array(items)
}

fn changed_members(members: &Map<String, Value>, choices: &mut Choices) -> Value {
    let mut members = members.clone();
    let name = members.keys().nth(choices.of(members.len())).cloned();
    let new = "x".repeat(members.keys().map(String::len).max().unwrap_or(0) + 1);
    match (choices.of(4), name) {
        (0, Some(name)) => drop(members.remove(&name)),
        (1, Some(name)) => {
            let value = members.remove(&name).unwrap();
            members.insert(new, value);
        }
        (2, _) => return json!([members]),
        // A null member differs from an absent one.
        _ => drop(members.insert(new, Value::Null)),
    }
    Value::Object(members)
}

proptest! {
    #[test]
    fn every_spelling_of_a_body_has_one_fingerprint(body in body(), mut one in Choices::any(), mut other in Choices::any()) {
        let (one, other) = (spell(&body, &mut one), spell(&body, &mut other));
        prop_assert_eq!(of(&one), of(&other), "{} {}", one, other);
        prop_assert_eq!(of(&one), of(&body.to_string()));
    }

    #[test]
    fn every_change_of_a_body_has_another_fingerprint(
        body in body(), mut change in Choices::any(), mut one in Choices::any(), mut other in Choices::any(),
    ) {
        let changed = changed(&body, &mut change);
        prop_assert!(!same(&body, &changed), "the change changes nothing: {} {}", body, changed);
        let (one, other) = (spell(&body, &mut one), spell(&changed, &mut other));
        prop_assert_ne!(of(&one), of(&other), "{} {}", one, other);
    }

    /// Checks that the canonical form contains all of the body: parsing it returns the same body,
    /// so different bodies have different canonical forms.
    #[test]
    fn the_canonical_form_says_all_of_the_body_and_is_its_own(body in body()) {
        let canonical_form = canonical_text(&body);
        let read = parsed(&canonical_form);
        prop_assert!(same(&read, &body), "{} {}", read, body);
        // Not by `canonical`, which refuses large integers: without a fraction, that is what large
        // doubles look like.
        prop_assert_eq!(serde_json_canonicalizer::to_string(&read).unwrap(), canonical_form);
    }

    #[test]
    fn the_canonical_form_is_what_another_implementation_writes(body in body()) {
        prop_assert_eq!(canonical_text(&body), serde_json_canonicalizer::to_string(&body).unwrap());
    }

    #[test]
    fn a_number_is_the_double_that_its_text_is_nearest_to(
        bits in any::<u64>().prop_map(f64::from_bits).prop_filter("finite", |number| number.is_finite()), mut choices in Choices::any(),
    ) {
        let text = spell_number(bits, &mut choices);
        prop_assert_eq!(parsed(&text).as_f64(), Some(bits), "{}", text);
        prop_assert_eq!(canonical_text(&parsed(&text)), canonical_text(&Value::from(bits)), "{}", text);
    }

    #[test]
    fn members_stand_in_the_order_of_their_utf_16_units(names in prop::collection::vec(text(), 0..10)) {
        let by_units: BTreeMap<Vec<u16>, &String> =
            names.iter().map(|name| (name.encode_utf16().collect(), name)).collect();
        let members: Vec<String> = by_units.values().map(|name| format!("{}:null", json!(name))).collect();
        let object: Value = names.iter().map(|name| (name.clone(), Value::Null)).collect();
        prop_assert_eq!(canonical_text(&object), format!("{{{}}}", members.join(",")));
    }
}
