use std::borrow::Cow;
use std::collections::BTreeSet;

use super::*;

const KEY: &str = r#""CNPJ":"11.222.333/0001-81","SHOPID":3,"PRODUCTID":"25901""#;

/// Returns the JSON of an item with the usual key and these members.
fn with(members: &str) -> String {
    format!("{{{KEY},{members}}}")
}

fn extra(members: &str) -> Result<Option<String>, (ItemErrorCode, Option<String>)> {
    parse(with(members).as_bytes())
        .map(|product| product.attributes.extra.map(Cow::into_owned))
        .map_err(|error| (error.code, error.field.map(String::from)))
}

fn failure(item: &[u8]) -> (ItemErrorCode, Option<String>) {
    let error = parse(item).expect_err("an item in error");
    assert_eq!((error.item_index, error.byte_offset), (17, 10_993));
    (error.code, error.field.map(String::from))
}

#[test]
fn a_fault_of_the_syntax_is_found_at_its_byte_whatever_the_layout() {
    for item in [with(r#""PRICE": 5,}"#), with("\n  \"PRICE\": 5,\n\n }"), with("\"PRICE\":5,\r\n}\n")] {
        let error = parse(item.as_bytes()).unwrap_err();
        assert_eq!(error.code, ItemErrorCode::MalformedJson);
        let place = item.find('}').unwrap();
        assert!(error.detail.ends_with(&format!(" at byte {place} of the item")), "{item}: {}", error.detail);
        assert!(!error.detail.contains("line"), "{}", error.detail);
    }
}

#[test]
fn a_name_that_is_given_twice_is_named_itself() {
    let long = "x".repeat(500);
    for (members, field, name) in [
        (r#""ATTRS":1,"ATTRS":2"#.to_owned(), "ATTRS", "it is given"),
        (r#""ATTRS":{"cor":1,"cor":2}"#.to_owned(), "ATTRS", "its member `cor` is given"),
        (r#""ATTRS":[{"a":{"b":1,"b":2}}]"#.to_owned(), "ATTRS", "its member `b` is given"),
        (format!(r#""ATTRS":{{"{long}":1,"{long}":2}}"#), "ATTRS", &long[..100]),
    ] {
        let error = parse(with(&members).as_bytes()).unwrap_err();
        assert_eq!((error.code, error.field.as_deref()), (ItemErrorCode::FieldInvalid, Some(field)));
        assert!(error.detail.contains(name) && error.detail.len() < 200, "{}", error.detail);
    }
}

#[test]
fn an_item_that_lacks_members_is_refused_if_the_load_says_so() {
    let refuse = ItemRules { partial: PartialPolicy::Refuse, ..rules() };
    let place = ItemPlace { index: 0, offset: 0 };
    let key = r#""CNPJ":"11222333000181","SHOPID":1,"PRODUCTID":"1""#;
    let names: Vec<&str> =
        known_members().filter(|name| !["CNPJ", "SHOPID", "PRODUCTID"].contains(name)).collect();
    let item = |names: &[&str]| {
        let members: String = names.iter().map(|name| format!(r#","{name}":null"#)).collect();
        format!("{{{key}{members}}}")
    };
    assert!(refuse.parse(place, item(&names).as_bytes()).is_ok());
    for (lacking, name) in names.iter().enumerate() {
        let mut others = names.clone();
        others.remove(lacking);
        let item = item(&others);
        let error = refuse.parse(place, item.as_bytes()).unwrap_err();
        assert_eq!((error.code, error.field.as_deref()), (ItemErrorCode::FieldRequired, Some(*name)));
        assert!(error.settled_key().is_some() && error.detail.contains(name), "{error}");
        assert!(rules().parse(place, item.as_bytes()).is_ok());
    }
    let none = refuse.parse(place, item(&[]).as_bytes()).unwrap_err();
    assert!(names.iter().all(|name| none.detail.contains(name)), "{none}");
    // Another fault of the item comes first.
    let wrong = format!(r#"{{{key},"PRICE":"x"}}"#);
    assert_eq!(refuse.parse(place, wrong.as_bytes()).unwrap_err().code, ItemErrorCode::FieldInvalid);
}

#[test]
fn an_item_of_the_source_is_read_whole() {
    let item = with(
        r#""TITLE":"Água oxigenada 10 vol.","DESCRIPTION":null,"EAN":7891234567895,"BRAND":"Farmax","NCM":"28470000",
        "CATEGORY":"Higiene","IMAGELINK":"https://example.com/1.png","COLOR":"","PRICE":"12.90","PRICEPROMO":9.9,
        "WHOLESALEPRICE":"","QUANTITY":10.500,"SIZE":"100","MEASURE":1e2,"WHOLESALEMIN":null,"INDICE":"7",
        "DATACADASTROPRODUTO":"2024-01-02 03:04:05","DATAATUALIZACAOPRODUTO":"2026-05-01 10:00:00",
        "DATAATUALIZACAOESTOQUE":"02/05/2026 10:00","LOTE":{"b":1.0,"a":[true,"x"]},"Ativo":true"#,
    );
    let Product { key, attributes, .. } = parse(item.as_bytes()).unwrap();
    assert_eq!((key.cnpj.as_str(), key.shop_id, key.product_id.as_str()), ("11222333000181", 3, "25901"));
    assert_eq!(attributes.title.as_deref(), Some("Água oxigenada 10 vol."));
    assert_eq!(attributes.description, None);
    assert_eq!(attributes.ean.as_deref(), Some("7891234567895"));
    assert_eq!(attributes.color.as_deref(), Some(""));
    assert_eq!(attributes.price.map(|price| price.to_string()).as_deref(), Some("12.9000"));
    assert_eq!(attributes.price_promo.map(Price::ten_thousandths), Some(99_000));
    assert_eq!(attributes.wholesale_price, None);
    assert_eq!(attributes.quantity.map(|number| number.to_string()).as_deref(), Some("10.5"));
    assert_eq!(attributes.size, attributes.measure);
    assert_eq!(attributes.wholesale_min, None);
    assert_eq!(attributes.indice, Some(7));
    assert_eq!(attributes.source_created_at, Some("2024-01-02T06:04:05Z".parse().unwrap()));
    assert_eq!(attributes.source_updated_at, Some("2026-05-02T13:00:00Z".parse().unwrap()));
    assert_eq!(attributes.extra.as_deref(), Some(r#"{"Ativo":true,"LOTE":{"a":[true,"x"],"b":1}}"#));
}

#[test]
fn spelling_and_order_make_no_difference() {
    let upper = br#"{"CNPJ":"12ABC34501DE35","SHOPID":1,"PRODUCTID":25901,"PRICEPROMO":"1.50","IMAGELINK":"a","x":1,"y":[1e1]}"#;
    let camel = br#"{"y":[10.0],"x":1.0,"imageLink":"\u0061","pricePromo":1.5,"productId":"25901","shopId":"1","cnpj":"12.abc.345/01de-35"}"#;
    let (upper, camel) = (parse(upper).unwrap(), parse(camel).unwrap());
    assert_eq!(upper, camel);
    assert_eq!(RowHash::of(&upper.attributes), RowHash::of(&camel.attributes));
    assert_eq!(KeyHash::of(&upper.key), KeyHash::of(&camel.key));
}

#[test]
fn a_cnpj_may_come_as_a_number_without_its_leading_zeros() {
    let product = parse(br#"{"CNPJ":191,"SHOPID":1,"PRODUCTID":1}"#).unwrap();
    assert_eq!(product.key.cnpj.as_str(), "00000000000191");
    assert_eq!(failure(br#"{"CNPJ":192,"SHOPID":1,"PRODUCTID":1}"#).0, ItemErrorCode::CnpjInvalid);
}

#[test]
fn a_number_with_a_sign_a_point_or_an_exponent_is_no_cnpj() {
    for number in [
        "11222333.000181",
        "-11222333000181",
        "1.1222333000181",
        "11222333000181.0",
        "11222333000181e0",
        "1.1222333000181e13",
        "1e13",
        "111222333000181",
        "-191",
        "0.191",
    ] {
        let item = format!(r#"{{"CNPJ":{number},"SHOPID":1,"PRODUCTID":1}}"#);
        let expected = (ItemErrorCode::CnpjInvalid, Some("CNPJ".to_owned()));
        assert_eq!(failure(item.as_bytes()), expected, "{number}");
    }
}

/// Checks that a number in place of a text becomes the number's plain form.
#[test]
fn a_number_for_a_text_is_kept_in_its_plain_form() {
    for (number, text) in [
        ("7891234567895", "7891234567895"),
        ("7.891234567895e12", "7891234567895"),
        ("25901.0", "25901"),
        ("-5", "-5"),
        ("1e-2", "0.01"),
    ] {
        let item = format!(r#"{{"CNPJ":191,"SHOPID":1,"PRODUCTID":{number},"EAN":{number},"NCM":{number}}}"#);
        let product = parse(item.as_bytes()).unwrap();
        assert_eq!(product.key.product_id, text, "{number}");
        assert_eq!(product.attributes.ean.as_deref(), Some(text), "{number}");
        assert_eq!(product.attributes.ncm.as_deref(), Some(text), "{number}");
    }
}

#[test]
fn each_fault_of_an_item_has_its_code_and_field() {
    use ItemErrorCode::*;
    for (item, code, field) in [
        ("[1]", NotAnObject, None),
        ("null", NotAnObject, None),
        (r#""x""#, NotAnObject, None),
        ("NaN", MalformedJson, None),
        ("{", MalformedJson, None),
        (r#"{"CNPJ":NaN}"#, MalformedJson, None),
        (r#"{"CNPJ":"1",}"#, MalformedJson, None),
        (r#"{"CNPJ":"1"} {}"#, MalformedJson, None),
        ("{\"TITLE\":\"a\0b\"}", MalformedJson, None),
        (r#"{"\ud800":1}"#, MalformedJson, None),
        ("{}", FieldRequired, Some("CNPJ")),
        (r#"{"CNPJ":" "}"#, FieldRequired, Some("CNPJ")),
        (r#"{"CNPJ":true}"#, FieldInvalid, Some("CNPJ")),
        (r#"{"CNPJ":"11222333000182"}"#, CnpjInvalid, Some("CNPJ")),
        (r#"{"CNPJ":"11222333000181"}"#, FieldRequired, Some("SHOPID")),
        (r#"{"CNPJ":"11222333000181","SHOPID":1.5}"#, FieldInvalid, Some("SHOPID")),
        (r#"{"CNPJ":"11222333000181","SHOPID":2147483648}"#, FieldInvalid, Some("SHOPID")),
        (r#"{"CNPJ":"11222333000181","SHOPID":1,"PRODUCTID":"  "}"#, FieldRequired, Some("PRODUCTID")),
        (r#"{"CNPJ":"11222333000181","SHOPID":1,"PRODUCTID":[]}"#, FieldInvalid, Some("PRODUCTID")),
    ] {
        assert_eq!(failure(item.as_bytes()), (code, field.map(str::to_owned)), "{item}");
    }
    for (members, field) in [
        (r#""PRICE":"NaN""#, "PRICE"),
        (r#""PRICE":"1,50""#, "PRICE"),
        (r#""PRICE":1234567890123456789012345678901234567890"#, "PRICE"),
        (r#""PRICE":12345678901"#, "PRICE"),
        (r#""QUANTITY":1e400"#, "QUANTITY"),
        (r#""QUANTITY":{}"#, "QUANTITY"),
        (r#""TITLE":"a\u0000b""#, "TITLE"),
        (r#""TITLE":"\ud800""#, "TITLE"),
        (r#""TITLE":true"#, "TITLE"),
        (r#""TITLE":"a","TITLE":"a""#, "TITLE"),
        (r#""TITLE":"a","title":"b""#, "TITLE"),
        (r#""INDICE":1e10"#, "INDICE"),
        (r#""DATACADASTROPRODUTO":"2026-02-30""#, "DATACADASTROPRODUTO"),
        (r#""DATAATUALIZACAOESTOQUE":1750000000"#, "DATAATUALIZACAOESTOQUE"),
        (r#""LOTE":1,"LOTE":1"#, "LOTE"),
        (r#""LOTE":{"a":[{"b":1,"b":2}]}"#, "LOTE"),
        (r#""LOTE":["\u0000"]"#, "LOTE"),
        (r#""LOTE":{"\u0000":1}"#, "LOTE"),
        (r#""LOTE":["\udc00"]"#, "LOTE"),
        (r#""LOTE":1e99999"#, "LOTE"),
    ] {
        let expected = (FieldInvalid, Some(field.to_owned()));
        assert_eq!(failure(with(members).as_bytes()), expected, "{members}");
    }
    assert_eq!(failure(b"{\"TITLE\":\"\xff\"}").0, MalformedJson);
    assert_eq!(failure(with(&format!(r#""PRODUCTIDX":{}"#, "9".repeat(201))).as_bytes()).0, FieldInvalid);
}

#[test]
fn a_price_of_forty_digits_is_named_and_a_long_fraction_is_rounded() {
    let item = with(r#""PRICE":1.0000500000000000000000000000000000000"#);
    let product = parse(item.as_bytes()).unwrap();
    assert_eq!(product.attributes.price.map(Price::ten_thousandths), Some(10_001));
    let error = parse(with(r#""PRICE":1234567890123456789012345678901234567890"#).as_bytes()).unwrap_err();
    assert_eq!(error.detail, "the number has more than 38 digits");
}

#[test]
fn nesting_ends_at_its_limit_and_not_in_the_stack() {
    let nested = |levels: usize| format!(r#""LOTE":{}1{}"#, "[".repeat(levels), "]".repeat(levels));
    assert!(extra(&nested(32)).unwrap().is_some());
    for levels in [33, 1000, 100_000] {
        assert_eq!(extra(&nested(levels)), Err((ItemErrorCode::FieldInvalid, Some("LOTE".to_owned()))));
        let known = nested(levels).replace("LOTE", "TITLE");
        assert_eq!(extra(&known), Err((ItemErrorCode::FieldInvalid, Some("TITLE".to_owned()))));
    }
}

#[test]
fn other_members_lose_nothing() {
    assert_eq!(
        extra(r#""a":null,"é":"\"\\\n/","n":123456789012345678901234567890123456789012345"#)
            .unwrap()
            .unwrap(),
        r#"{"a":null,"n":123456789012345678901234567890123456789012345,"é":"\"\\\n/"}"#
    );
    assert_eq!(extra(r#""z":[],"o":{},"n":-0.0"#).unwrap().unwrap(), r#"{"n":0,"o":{},"z":[]}"#);
    assert_eq!(parse(format!("{{{KEY}}}").as_bytes()).unwrap().attributes, Attributes::default());
}

#[test]
fn an_error_carries_the_key_as_far_as_it_could_be_read() {
    let key = |item: &str| parse(item.as_bytes()).unwrap_err().key;
    let whole = key(&with(r#""PRICE":"x""#)).complete().unwrap();
    assert_eq!(whole, parse(format!("{{{KEY}}}").as_bytes()).unwrap().key);
    // Broken off after the key: the error has the key, but it does not count as settled.
    let broken = with(r#""PRICE":"#);
    let error = parse(broken.as_bytes()).unwrap_err();
    assert_eq!((error.key.complete().as_ref(), error.settled_key()), (Some(&whole), None));
    let reported = rules().broken(ItemPlace { index: 17, offset: 10_993 }, broken.as_bytes());
    assert_eq!((reported.key, reported.code), (error.key, error.code));
    assert!(reported.detail.starts_with(&*error.detail) && reported.detail.contains("further products"));
    let part = key(r#"{"CNPJ":"1","SHOPID":"5","PRODUCTID":9}"#);
    assert_eq!(part, PartialKey { cnpj: None, shop_id: Some(5), product_id: Some("9".to_owned()) });
    assert_eq!(part.complete(), None);
    // A member that is given twice gives no value to the key.
    assert_eq!(key(&with(r#""SHOPID":4"#)).shop_id, None);
    assert_eq!(key(&with(r#""SHOPID":4,"shopid":5"#)).shop_id, None);
}

#[test]
fn a_limited_api_key_loads_only_its_own_establishments() {
    let item = format!("{{{KEY}}}");
    let place = ItemPlace { index: 0, offset: 0 };
    let only = |cnpj: &str| CnpjAccess::Only(BTreeSet::from([cnpj.parse().unwrap()]));
    let own = ItemRules { cnpjs: only("11222333000181"), ..rules() };
    assert!(own.parse(place, item.as_bytes()).is_ok());
    let other = ItemRules { cnpjs: only("12ABC34501DE35"), ..rules() };
    let error = other.parse(place, item.as_bytes()).unwrap_err();
    assert_eq!(error.code, ItemErrorCode::CnpjNotAllowed);
    assert!(error.key.complete().is_some());
}

#[test]
fn an_error_is_reported_as_the_contract_says() {
    let error = parse(br#"{"CNPJ":"11222333000182","SHOPID":1,"PRODUCTID":2}"#).unwrap_err();
    assert_eq!(
        serde_json::to_value(&error).unwrap(),
        serde_json::json!({
            "item_index": 17, "byte_offset": 10993, "code": "CNPJ_INVALID", "field": "CNPJ",
            "detail": "`11222333000182`: the check digits do not match; correct it where it comes from, and send \
                the item again", "key": {"shopid": 1, "productid": "2"}
        })
    );
    let large = ItemError::too_large(1, 2, 3, 2);
    assert_eq!(serde_json::to_value(large.code).unwrap(), "ITEM_TOO_LARGE");
}
