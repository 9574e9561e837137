use std::borrow::Cow;
use std::convert::Infallible;

use jiff::Timestamp;
use proptest::prelude::*;
use uuid::Uuid;

use super::canonical::Sections;
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

/// Randomly generated values, for each kind as many as there are attributes.
#[derive(Clone, Debug)]
struct Drawn {
    texts: Vec<Option<String>>,
    prices: Vec<Option<Price>>,
    numbers: Vec<Option<Decimal>>,
    integers: Vec<Option<i32>>,
    times: Vec<Option<Timestamp>>,
    /// Name of the attribute that stays absent; `None` if all have a value.
    without: Option<&'static str>,
}

impl Drawn {
    fn attributes(&self) -> Attributes<'static> {
        let Ok(attributes) = Attributes::read(&mut self.clone());
        attributes
    }

    fn value<T>(&self, attribute: &Attribute, value: Option<Option<T>>) -> Result<Option<T>, Infallible> {
        Ok(value.flatten().filter(|_| self.without != Some(attribute.name)))
    }
}

impl AttributeReader<'static> for Drawn {
    type Error = Infallible;

    fn text(&mut self, attribute: &'static Attribute) -> Result<Option<Cow<'static, str>>, Infallible> {
        let text = self.texts.pop().map(|text| text.map(Cow::Owned));
        self.value(attribute, text)
    }

    fn price(&mut self, attribute: &'static Attribute) -> Result<Option<Price>, Infallible> {
        let price = self.prices.pop();
        self.value(attribute, price)
    }

    fn decimal(&mut self, attribute: &'static Attribute) -> Result<Option<Decimal>, Infallible> {
        let number = self.numbers.pop();
        self.value(attribute, number)
    }

    fn integer(&mut self, attribute: &'static Attribute) -> Result<Option<i32>, Infallible> {
        let number = self.integers.pop();
        self.value(attribute, number)
    }

    fn time(&mut self, attribute: &'static Attribute) -> Result<Option<Timestamp>, Infallible> {
        let time = self.times.pop();
        self.value(attribute, time)
    }

    fn json(&mut self, attribute: &'static Attribute) -> Result<Option<Cow<'static, str>>, Infallible> {
        self.text(attribute)
    }
}

prop_compose! {
    fn drawn()(
        texts in prop::collection::vec(prop::option::of("\\PC{0,12}"), ATTRIBUTES.len()),
        prices in prop::collection::vec(prop::option::of(price()), ATTRIBUTES.len()),
        numbers in prop::collection::vec(prop::option::of(decimal()), ATTRIBUTES.len()),
        integers in prop::collection::vec(any::<Option<i32>>(), ATTRIBUTES.len()),
        times in prop::collection::vec(prop::option::of(time()), ATTRIBUTES.len()),
    ) -> Drawn {
        Drawn { texts, prices, numbers, integers, times, without: None }
    }
}

fn attributes() -> impl Strategy<Value = Attributes<'static>> {
    drawn().prop_map(|drawn| drawn.attributes())
}

proptest! {
    #[test]
    fn attributes_survive_their_encoding(attributes in attributes()) {
        let encoded = attributes.encode();
        prop_assert_eq!(encoded.decode(), Ok(attributes));
    }

    #[test]
    fn other_attributes_have_another_hash(left in attributes(), right in attributes()) {
        let same = RowHash::of(&left) == RowHash::of(&right);
        prop_assert_eq!(same, left == right);
    }

    #[test]
    fn the_hash_of_one_product_is_not_that_of_the_one_before(left in attributes(), right in attributes()) {
        let mut hasher = RowHasher::default();
        prop_assert_eq!(hasher.hash(&left), RowHash::of(&left));
        prop_assert_eq!(hasher.hash(&right), RowHash::of(&right));
    }

    #[test]
    fn an_attribute_changes_the_section_of_its_group_and_no_other(
        drawn in drawn(),
        attribute in prop::sample::select(ATTRIBUTES),
    ) {
        let without = Drawn { without: Some(attribute.name), ..drawn.clone() };
        let is_absent = drawn.attributes() == without.attributes();
        let sections = |drawn: &Drawn| {
            let mut sections = Sections::default();
            sections.fill(&drawn.attributes());
            sections.0
        };
        let (before, after) = (sections(&drawn), sections(&without));
        for (group, (before, after)) in Group::ALL.into_iter().zip(before.into_iter().zip(after)) {
            prop_assert_eq!(before == after, is_absent || group != attribute.group, "{:?}", group);
        }
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
            // Nothing but flags for absent attributes.
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
