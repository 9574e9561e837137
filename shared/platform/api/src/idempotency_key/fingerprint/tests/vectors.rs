//! Tests with the examples of RFC 8785, the standard for canonical JSON.

use serde_json::Value;

use super::{canonical, canonical_text, parsed};

/// Numbers of appendix B of RFC 8785: the bits of each double, and its canonical text.
const NUMBERS: [(u64, &str); 24] = [
    (0x0000_0000_0000_0000, "0"),
    (0x8000_0000_0000_0000, "0"),
    (0x0000_0000_0000_0001, "5e-324"),
    (0x8000_0000_0000_0001, "-5e-324"),
    (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
    (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
    (0x4340_0000_0000_0000, "9007199254740992"),
    (0xc340_0000_0000_0000, "-9007199254740992"),
    (0x4430_0000_0000_0000, "295147905179352830000"),
    (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
    (0x44b5_2d02_c7e1_4af6, "1e+23"),
    (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
    (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
    (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
    (0x444b_1ae4_d6e2_ef50, "1e+21"),
    (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
    (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
    (0x41b3_de43_5555_5553, "333333333.3333332"),
    (0x41b3_de43_5555_5554, "333333333.33333325"),
    (0x41b3_de43_5555_5555, "333333333.3333333"),
    (0x41b3_de43_5555_5556, "333333333.3333334"),
    (0x41b3_de43_5555_5557, "333333333.33333343"),
    (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
    (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
];

#[test]
fn numbers_have_the_text_of_appendix_b() {
    for (bits, text) in NUMBERS {
        assert_eq!(canonical_text(&Value::from(f64::from_bits(bits))), text, "{bits:016x}");
    }
}

/// Parses the text of each double in appendix B of RFC 8785, and writes it again. Large integers
/// are parsed with a fraction, because a body must not contain them without.
#[test]
fn numbers_are_read_as_the_doubles_of_appendix_b() {
    for (bits, text) in NUMBERS {
        let spelled = if text.contains(['.', 'e']) { text.to_owned() } else { format!("{text}.0") };
        let read = parsed(&spelled);
        let expected = if text == "0" { 0.0 } else { f64::from_bits(bits) };
        assert_eq!(read.as_f64().map(f64::to_bits), Some(expected.to_bits()), "{text}");
        assert_eq!(canonical_text(&read), text);
    }
}

/// Checks that the JSON parser refuses NaN and the infinities, which are the last rows of RFC
/// 8785's appendix B, and numbers beyond the range of a double.
#[test]
fn what_is_no_finite_number_is_no_json() {
    for text in ["NaN", "Infinity", "-Infinity", "1e309", "-1e309"] {
        assert!(serde_json::from_str::<Value>(text).is_err(), "{text}");
    }
}

/// Covers the example in section 3.2.2 of RFC 8785, whose bytes section 3.2.4 lists.
#[test]
fn the_example_has_the_bytes_that_the_standard_gives() {
    let input = r#"{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }"#;
    let bytes = "7b 22 6c 69 74 65 72 61 6c 73 22 3a 5b 6e 75 6c 6c 2c 74 72
                 75 65 2c 66 61 6c 73 65 5d 2c 22 6e 75 6d 62 65 72 73 22 3a
                 5b 33 33 33 33 33 33 33 33 33 2e 33 33 33 33 33 33 33 2c 31
                 65 2b 33 30 2c 34 2e 35 2c 30 2e 30 30 32 2c 31 65 2d 32 37
                 5d 2c 22 73 74 72 69 6e 67 22 3a 22 e2 82 ac 24 5c 75 30 30
                 30 66 5c 6e 41 27 42 5c 22 5c 5c 5c 5c 5c 22 2f 22 7d";
    let expected: Vec<u8> =
        bytes.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    assert_eq!(canonical(&parsed(input)).unwrap(), expected);
}

/// Covers section 3.2.3 of RFC 8785: names are sorted by UTF-16 code units. By these, the emoji
/// (first unit D83D) precedes the Hebrew letter (FB33), unlike by code points or UTF-8 bytes.
#[test]
fn members_are_sorted_by_the_utf_16_units_of_their_names() {
    let input = r#"{
      "\u20ac": "Euro Sign",
      "\r": "Carriage Return",
      "\ufb33": "Hebrew Letter Dalet With Dagesh",
      "1": "One",
      "\ud83d\ude00": "Emoji: Grinning Face",
      "\u0080": "Control",
      "\u00f6": "Latin Small Letter O With Diaeresis"
    }"#;
    let expected = "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":\"Control\",\
                    \"\u{f6}\":\"Latin Small Letter O With Diaeresis\",\"\u{20ac}\":\"Euro Sign\",\
                    \"\u{1f600}\":\"Emoji: Grinning Face\",\"\u{fb33}\":\"Hebrew Letter Dalet With Dagesh\"}";
    assert_eq!(canonical_text(&parsed(input)), expected);
}

/// Covers section 3.2.3 of RFC 8785: a prefix of a name precedes it, digits are compared as text,
/// members are sorted at every level, and array items keep their order.
#[test]
fn members_are_sorted_at_every_level_and_items_at_none() {
    for (input, expected) in [
        (r#"{"aa":1,"a":2,"":3}"#, r#"{"":3,"a":2,"aa":1}"#),
        (r#"{"10":0,"9":0,"1":0}"#, r#"{"1":0,"10":0,"9":0}"#),
        (r#"{"b":0,"B":0,"a":0}"#, r#"{"B":0,"a":0,"b":0}"#),
        (r#"[{"b":[{"d":0,"c":0}],"a":0}]"#, r#"[{"a":0,"b":[{"c":0,"d":0}]}]"#),
        ("[56,{\"d\":true,\"10\":null,\"1\":[]}]", "[56,{\"1\":[],\"10\":null,\"d\":true}]"),
        (
            "{\"\u{e000}\":0,\"\u{10000}\":0,\"\u{ffff}\":0}",
            "{\"\u{10000}\":0,\"\u{e000}\":0,\"\u{ffff}\":0}",
        ),
    ] {
        assert_eq!(canonical_text(&parsed(input)), expected);
    }
}

/// Covers section 3.2.2.2 of RFC 8785: seven characters have escapes of two characters, other
/// control characters have `\u00xx` in lower case, and the rest is not escaped.
#[test]
fn text_has_one_spelling() {
    for code in 0..=0x1f {
        let control = char::from_u32(code).unwrap();
        let expected = match control {
            '\u{8}' => r#""\b""#.to_owned(),
            '\t' => r#""\t""#.to_owned(),
            '\n' => r#""\n""#.to_owned(),
            '\u{c}' => r#""\f""#.to_owned(),
            '\r' => r#""\r""#.to_owned(),
            _ => format!("\"\\u{code:04x}\""),
        };
        assert_eq!(canonical_text(&parsed(&format!("\"\\u{code:04X}\""))), expected);
    }
    for (input, expected) in [
        (r#""\u0022\u005C\u002f\/""#, r#""\"\\//""#),
        ("\"\\u007F\\u0080\\u2028\\ufeff\"", "\"\u{7f}\u{80}\u{2028}\u{feff}\""),
        (r#""\uD83D\uDE00\u00e9""#, "\"\u{1f600}\u{e9}\""),
        (r#""<>&'""#, r#""<>&'""#),
    ] {
        assert_eq!(canonical_text(&parsed(input)), expected, "{input}");
    }
    assert_ne!(parsed(r#""\u00e9""#), parsed(r#""e\u0301""#), "text is not normalized");
}
