//! Tests of payloads with mistakes, and of files of another kind.

use super::*;

fn item(id: u32, title: &str) -> String {
    ITEM.replace("\"PRODUCTID\":\"1\"", &format!("\"PRODUCTID\":\"{id}\"")).replace("Dipirona", title)
}

/// Cuts a payload, and returns the number of items loaded, of items in error, and of items in error
/// whose product cannot be determined.
fn counted(format: Format, payload: &str) -> (u64, u64, u64) {
    let (cut, kept) = cut(format, payload.as_bytes());
    let errors = kept.errors.into_inner().unwrap();
    assert_eq!(cut.items_in_error, u64::try_from(errors.len()).unwrap());
    for error in &errors {
        assert_eq!(error.code, ItemErrorCode::MalformedJson);
        assert!(error.detail.contains("it may hold further products"), "{error}");
    }
    (cut.items_parsed - cut.items_in_error, cut.items_in_error, cut.unreadable_keys)
}

#[test]
fn text_that_is_not_json_decides_nothing_and_costs_no_other_item() {
    let plain = |id: u32| item(id, "AGULHA");
    let inch = |id: u32| item(id, "AGULHA 1\" x");
    let array = |items: &[String]| format!("[{}]", items.join(", "));
    for (format, payload, expected) in [
        (Format::Lines, format!("{}\n{}{}", plain(1), plain(2), plain(3)), (3, 0, 0)),
        (Format::Lines, [1, 2, 3].map(plain).join("\r"), (3, 0, 0)),
        (Format::Lines, [1, 2, 3].map(plain).join(","), (3, 0, 0)),
        (Format::Lines, format!("{}{}{}", plain(1), inch(2), plain(3)), (2, 1, 1)),
        (Format::Lines, format!("{}\n{}\n{}", plain(1), inch(2), plain(3)), (2, 1, 1)),
        (Format::Array, array(&[plain(1), inch(2), plain(3), inch(4), plain(5)]), (3, 2, 2)),
        (Format::Array, array(&[plain(1), inch(2), plain(3)]), (2, 1, 1)),
        (Format::Array, array(&[inch(1), plain(2), plain(3), inch(4)]), (2, 2, 2)),
    ] {
        assert_eq!(counted(format, &payload), expected, "{payload}");
    }
}

#[test]
fn the_order_of_members_does_not_decide_what_a_mistake_means() {
    let members = [r#""CNPJ":"05927228000145""#, r#""SHOPID":1"#, r#""PRODUCTID":"1""#, r#""TITLE":"1" x""#];
    for first in 0..members.len() {
        let mut members = members;
        members.rotate_left(first);
        let payload = format!("{ITEM}\n{{{}}}", members.join(","));
        assert_eq!(counted(Format::Lines, &payload), (1, 1, 1), "{payload}");
    }
}

#[test]
fn a_payload_in_lines_without_an_object_is_another_kind_of_file() {
    let array = format!("[{ITEM},{ITEM}]");
    let wide: Vec<u8> = format!("{ITEM}\n").encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (payload, at) in [
        (&b"<html>\n<body>502</body>\n</html>"[..], 0),
        (b"\n CNPJ;SHOPID;PRODUCTID\n1;2;3", 2),
        (b"<?xml version=\"1.0\"?><a/>", 0),
        (b"PK\x03\x04\x14\0\0\0", 0),
        (b"\xfd7zXZ\0", 0),
        (array.as_bytes(), 0),
        (&wide, 0),
        (b"1\n2\n\"3\"", 0),
        (b"{'CNPJ':1}\n{CNPJ:1}", 0),
        ("<a>x</a>".repeat(40_000).as_bytes(), 0),
        ("1;2;3,4 ".repeat(40_000).as_bytes(), 0),
        ("function(){return 1}".repeat(20_000).as_bytes(), 0),
        (format!("[{}]", [ITEM; 5000].join(",")).as_bytes(), 0),
        (gzip(&gzip(array.as_bytes())).as_slice(), 0),
    ] {
        let expected = (UnusableCode::MalformedJson, Some(at));
        assert_eq!(unusable(Format::Lines, payload), expected, "{}", String::from_utf8_lossy(payload));
    }
    for payload in [
        format!("<html>\n{ITEM}"),
        "{}\nx".to_owned(),
        "{\"products\":[]}".to_owned(),
        ITEM.replace("Dipirona", "5\" x"),
        // The mistake is before the key.
        "{\"CNPJ\":".to_owned(),
        "{\"TITLE\":\"5\" x\",\"CNPJ\":\"05927228000145\"}\n".repeat(3),
        "{ \"PRICE\":NaN,\"SHOPID\":1}".to_owned(),
        format!("{{\"TITLE\":\"{}\"}}", "x".repeat(ITEM_LIMIT)),
    ] {
        assert!(cut(Format::Lines, payload.as_bytes()).0.items_in_error > 0, "{payload}");
    }
    assert_eq!(cut(Format::Array, b"[1,2]").0.items_in_error, 2);
}
