use std::borrow::Cow;

use jiff::Timestamp;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;

fn decimal() -> impl Strategy<Value = Decimal> {
    (any::<i64>(), 0_u8..=38).prop_map(|(units, places)| Decimal::new(i128::from(units), places).unwrap())
}

fn price() -> impl Strategy<Value = Price> {
    (-99_999_999_999_999_i64..=99_999_999_999_999)
        .prop_map(|units| Price::from_ten_thousandths(units).unwrap())
}

fn time() -> impl Strategy<Value = Timestamp> {
    (0_i64..4_000_000_000_000_000).prop_map(|time| Timestamp::from_microsecond(time).unwrap())
}

prop_compose! {
    fn attributes()(
        texts in prop::collection::vec(prop::option::of("\\PC{0,12}"), 9),
        prices in prop::collection::vec(prop::option::of(price()), 3),
        numbers in prop::collection::vec(prop::option::of(decimal()), 4),
        indice in any::<Option<i32>>(),
        times in prop::collection::vec(prop::option::of(time()), 2),
    ) -> Attributes<'static> {
        let text = |index: usize| texts[index].clone().map(Cow::Owned);
        Attributes {
            title: text(0), description: text(1), ean: text(2), brand: text(3), ncm: text(4), category: text(5),
            image_link: text(6), color: text(7), extra: text(8),
            price: prices[0], price_promo: prices[1], wholesale_price: prices[2],
            quantity: numbers[0], size: numbers[1], measure: numbers[2], wholesale_min: numbers[3],
            indice, source_created_at: times[0], source_updated_at: times[1],
        }
    }
}

proptest! {
    #[test]
    fn attributes_survive_their_encoding(attributes in attributes()) {
        let encoded = attributes.encode();
        prop_assert_eq!(encoded.decode(), Ok(attributes));
    }

    #[test]
    fn other_attributes_have_another_hash(left in attributes(), right in attributes()) {
        let same = left.encode().row_hash() == right.encode().row_hash();
        prop_assert_eq!(same, left == right);
    }

    #[test]
    fn damaged_attributes_are_an_error_and_no_panic(attributes in attributes(), cut in any::<prop::sample::Index>()) {
        let bytes = attributes.encode().0;
        let cut = cut.index(bytes.len());
        let part = EncodedAttributes(bytes.slice(..cut));
        prop_assert_eq!(part.decode(), Err(EncodingError));
    }

    #[test]
    fn arbitrary_bytes_are_no_attributes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(attributes) = EncodedAttributes(bytes.into()).decode() {
            // Nothing but flags that say that there is nothing.
            let _ = attributes.encode();
        }
    }

    #[test]
    fn hostile_items_end_without_a_panic(item in prop::collection::vec(any::<u8>(), 0..100)) {
        prop_assert!(parse(&item).is_err());
    }

    #[test]
    fn hostile_members_end_without_a_panic(
        name in prop::sample::select(vec!["CNPJ", "shopid", "PRODUCTID", "PRICE", "SIZE", "INDICE", "DATACADASTROPRODUTO", "x"]),
        value in "[-\\[\\]{}\":,\\\\0-9.eE+/ tTZ]{0,30}",
        quoted: bool,
    ) {
        let value = if quoted { serde_json::to_string(&value).unwrap() } else { value };
        let item = format!(r#"{{"CNPJ":"11222333000181","SHOPID":1,"PRODUCTID":2,"{name}":{value}}}"#);
        if let Ok(product) = parse(item.as_bytes()) {
            let encoded = product.attributes.encode();
            prop_assert_eq!(encoded.decode(), Ok(product.attributes));
        }
    }

    #[test]
    fn a_text_is_the_same_however_it_is_escaped(text in "[a-zA-Z0-9é\u{1f600}\"\\\\/\n\t ]{0,40}") {
        let plain = serde_json::to_string(&text).unwrap();
        let escaped: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        let item = |text: &str| format!(r#"{{"CNPJ":"11222333000181","SHOPID":1,"PRODUCTID":2,"TITLE":{text},"x":{text}}}"#);
        let (plain, escaped) = (item(&plain), item(&format!("\"{escaped}\"")));
        let product = parse(plain.as_bytes()).unwrap();
        prop_assert_eq!(&product, &parse(escaped.as_bytes()).unwrap());
        prop_assert_eq!(product.attributes.title.as_deref(), Some(text.as_str()));
        let extra = serde_json::json!({"x": text}).to_string();
        prop_assert_eq!(product.attributes.extra.as_deref(), Some(extra.as_str()));
    }

    #[test]
    fn a_clock_ahead_does_not_outlive_the_next_batch(ahead in 1_i64..1_000_000, first in time(), later in 1_i64..1_000_000) {
        let at = |by: i64| first.checked_add(jiff::SignedDuration::from_micros(by)).unwrap();
        let earlier = Version::new(Some(at(ahead)), BatchStamp::new(first, Uuid::nil()), 5);
        let next = Version::new(Some(at(ahead)), BatchStamp::new(at(later), Uuid::nil()), 0);
        prop_assert!(earlier < next);
        prop_assert_eq!(earlier.effective_at(), first);
    }
}

#[test]
fn versions_follow_time_then_receipt_then_batch_then_place() {
    let time = |second| Timestamp::from_second(second).unwrap();
    let version = |updated: Option<i64>, received, batch, index| {
        Version::new(updated.map(time), BatchStamp::new(time(received), Uuid::from_u128(batch)), index)
    };
    let ascending = [
        version(Some(10), 100, 9, 9),
        version(Some(20), 90, 9, 9),
        version(Some(20), 100, 1, 9),
        version(Some(20), 100, 2, 0),
        version(Some(20), 100, 2, 1),
        version(None, 100, 2, 0),
        version(Some(999), 100, 2, 1),
    ];
    assert!(ascending.is_sorted());
}

#[test]
fn the_hashes_that_are_stored_stay_as_they_are() {
    let key =
        ProductKey { cnpj: "12ABC34501DE35".parse().unwrap(), shop_id: 3, product_id: "25901".to_owned() };
    let attributes = Attributes {
        title: Some("Dipirona".into()),
        price: Some(Price::from_ten_thousandths(129_000).unwrap()),
        size: Decimal::new(15, 1),
        indice: Some(-1),
        source_updated_at: Some(Timestamp::from_second(1_800_000_000).unwrap()),
        extra: Some("{}".into()),
        ..Attributes::default()
    };
    assert_eq!(hex::encode(KeyHash::of(&key).0), "d3cc5d9b0316d2bddad536c773f5970d");
    assert_eq!(hex::encode(attributes.encode().row_hash().0), "d339d6ee8fbb9f5364060ea58f7d2635");
}
