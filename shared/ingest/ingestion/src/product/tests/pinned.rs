//! Tests of the byte forms that are stored. If one of these tests fails, a stored form has changed.
//!
//! A change of the canonical form or of a number, group or kind of an attribute makes every product
//! look changed once. A change of the encoded form needs a new version of the chunk's format. The
//! values here were made by another program, after the descriptions in `canonical.rs` and
//! `encoding.rs`.

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::canonical::Sections;
use super::*;

fn price(ten_thousandths: i64) -> Option<Price> {
    Some(Price::from_ten_thousandths(ten_thousandths).unwrap())
}

fn second(second: i64) -> Option<Timestamp> {
    Some(Timestamp::from_second(second).unwrap())
}

/// Returns a product's attributes with a value for each attribute of the first release.
#[allow(clippy::needless_update, reason = "later attributes stay absent")]
fn full() -> Attributes<'static> {
    Attributes {
        title: Some("Dipirona".into()),
        description: Some("Com 10 comprimidos de 500 mg".into()),
        ean: Some("7891234567895".into()),
        brand: Some("Medley".into()),
        ncm: Some("30049099".into()),
        category: Some("".into()),
        image_link: Some("https://imagens.example/1.jpg".into()),
        color: Some("azul".into()),
        price: price(129_000),
        price_promo: price(-1),
        wholesale_price: price(99_999_999_999_999),
        quantity: Decimal::new(105, 1),
        size: Decimal::new(15, 1),
        measure: Decimal::new(-12_000_000_000_000_000_000_000_000_000_000_000_007, 38),
        wholesale_min: Decimal::new(6, 0),
        indice: Some(-1),
        source_created_at: second(1_700_000_000),
        source_updated_at: second(1_800_000_000),
        extra: Some(r#"{"REGISTROMS":"1"}"#.into()),
        ..Attributes::default()
    }
}

/// Returns attributes whose groups are all too short to enter the row hash as hashes.
fn short() -> Attributes<'static> {
    Attributes {
        price: price(129_000),
        quantity: Decimal::new(105, 1),
        source_updated_at: second(1_800_000_000),
        ..Attributes::default()
    }
}

fn sections(attributes: &Attributes<'_>) -> [String; 4] {
    let mut sections = Sections::default();
    sections.fill(attributes);
    sections.0.map(hex::encode)
}

#[test]
fn the_canonical_form_of_each_group_stays_as_it_is() {
    assert_eq!(
        sections(&full()),
        [
            "010844697069726f6e61021c436f6d20313020636f6d7072696d69646f7320646520353030206d67030d3738393132333435\
             363738393504064d65646c6579050833303034393039390600071d68747470733a2f2f696d6167656e732e6578616d706c65\
             2f312e6a70670804617a756c0d011e0e268d80808080b0ba8bcf91a8c5adf3d69d8e2410011100401e18240a060013127b22\
             524547495354524f4d53223a2231227d",
            "09d0df0f0a010bfeffd187e2bc2d0f000c",
            "0c01d201",
            "120080982817650600",
        ]
    );
    assert_eq!(sections(&short()), ["", "09d0df0f", "0c01d201", "120080982817650600"]);
}

#[test]
fn the_hashes_that_are_stored_stay_as_they_are() {
    let key =
        ProductKey { cnpj: "12ABC34501DE35".parse().unwrap(), shop_id: 3, product_id: "25901".to_owned() };
    assert_eq!(hex::encode(KeyHash::of(&key).0), "d3cc5d9b0316d2bddad536c773f5970d");
    for (attributes, hash) in [
        (full(), "f00ac1d0a2132d3a9f670b639169e0c1"),
        (short(), "0775f62b9e7b0eefa7707a9b386a6010"),
        (Attributes::default(), "e3b0c44298fc1c149afbf4c8996fb924"),
    ] {
        assert_eq!(hex::encode(RowHash::of(&attributes).0), hash);
    }
}

#[test]
fn the_form_in_chunks_stays_as_it_is() {
    let encoded = full().encode();
    assert_eq!(encoded.size(), 266);
    let hash = hex::encode(Sha256::digest(&encoded.0));
    assert_eq!(hash.get(..32), Some("6900f6d0e2740690aa14462179fbe316"));
}
