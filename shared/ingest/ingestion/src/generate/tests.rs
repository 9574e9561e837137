use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};
use uuid::Uuid;

use super::*;
use crate::chunk::{Generation, Plan, Planner, encode};
use crate::product::{
    BatchStamp, CnpjAccess, ItemErrorCode, ItemPlace, ItemRules, PartialPolicy, ProductKey, RowHash,
    known_members,
};
use crate::split::{Format, ITEM_LIMIT, InvalidJson, Piece, Splitter};

type Loaded = (BTreeMap<ProductKey, RowHash>, Vec<ItemErrorCode>, u32);

/// Splits and parses a payload as the chunker does, in parts of 64 KiB. Returns the hash of each
/// product's content, the codes of the items in error, and the number of duplicates.
fn load(payload: &[u8], format: Format, cnpjs: CnpjAccess) -> Loaded {
    let rules =
        ItemRules { zone: TimeZone::fixed(Offset::constant(-3)), cnpjs, partial: PartialPolicy::Warn };
    let batch = BatchStamp::new(Timestamp::from_second(1_800_000_000).unwrap(), Uuid::nil());
    let mut planner = Planner::new(Plan::default(), batch, Generation::FIRST);
    let (mut chunks, mut errors) = (Vec::new(), Vec::new());
    let mut splitter = Splitter::new(format, ITEM_LIMIT);
    let mut sink = |piece: Piece<'_>| {
        let parsed = match piece {
            Piece::Item { index, offset, bytes } => {
                rules.parse(ItemPlace { index, offset }, bytes).map(|product| (product, index))
            }
            Piece::Broken { index, offset, bytes } => {
                errors.push(rules.broken(ItemPlace { index, offset }, bytes).code);
                return Ok(());
            }
            Piece::TooLarge { .. } => panic!("{piece:?}"),
        };
        match parsed {
            Ok((product, index)) => chunks.extend(planner.push(product, index)),
            Err(error) if error.code == ItemErrorCode::MalformedJson => return Err(InvalidJson),
            Err(error) => errors.push(error.code),
        }
        Ok(())
    };
    payload.chunks(65_536).for_each(|window| splitter.feed(window, &mut sink).unwrap());
    splitter.finish(&mut sink).unwrap();
    chunks.extend(planner.finish());
    let rows = chunks.iter().flat_map(|chunk| chunk.rows().iter().map(|row| (row.key.clone(), row.row_hash)));
    let duplicates = chunks.iter().map(crate::chunk::Chunk::duplicates).sum();
    (rows.collect(), errors, duplicates)
}

fn only(catalogue: &Catalogue) -> CnpjAccess {
    CnpjAccess::Only(catalogue.cnpjs().into_iter().collect())
}

#[test]
fn every_layout_holds_the_same_catalogue() {
    let catalogue = Catalogue { items: 1500, establishments: 7, ..Catalogue::default() };
    let of = |layout, format| load(&catalogue.payload(layout), format, only(&catalogue));
    let array = of(Layout::Array, Format::Array);
    assert_eq!((array.0.len(), array.1.len(), array.2), (1500, 0, 0));
    assert_eq!(of(Layout::Pretty, Format::Array), array);
    assert_eq!(of(Layout::Lines, Format::Lines), array);
    assert_eq!(array.0.keys().map(|key| key.cnpj).collect::<std::collections::BTreeSet<_>>().len(), 7);
    assert!(catalogue.cnpjs().iter().any(|cnpj| cnpj.as_str().bytes().any(|byte| byte.is_ascii_uppercase())));
}

#[test]
fn shares_come_out_as_they_were_asked_for() {
    let catalogue = Catalogue { items: 4000, bad: 50, duplicate: 100, ..Catalogue::default() };
    for (layout, format) in [(Layout::Array, Format::Array), (Layout::Lines, Format::Lines)] {
        let (rows, errors, duplicates) = load(&catalogue.payload(layout), format, CnpjAccess::Any);
        assert!((120..280).contains(&errors.len()), "{} errors", errors.len());
        assert!(rows.len() + errors.len() < 3750 && rows.len() > 3200, "{} rows", rows.len());
        assert!(duplicates > 0);
        for code in [ItemErrorCode::FieldInvalid, ItemErrorCode::FieldRequired, ItemErrorCode::CnpjInvalid] {
            assert!(errors.contains(&code), "{code:?}");
        }
        assert_eq!(errors.contains(&ItemErrorCode::MalformedJson), layout == Layout::Lines);
    }
}

#[test]
fn a_later_edition_changes_its_share_and_nothing_else() {
    let first = Catalogue { items: 2000, ..Catalogue::default() };
    let second = Catalogue { edition: 1, ..first };
    let of = |catalogue: &Catalogue| load(&catalogue.payload(Layout::Lines), Format::Lines, only(&first)).0;
    let (before, after) = (of(&first), of(&second));
    assert!(before.keys().eq(after.keys()));
    let changed = before.values().zip(after.values()).filter(|(before, after)| before != after).count();
    assert!((140..260).contains(&changed), "{changed} changed");
}

#[test]
fn an_item_has_every_member_that_has_a_column() {
    let members = Catalogue::default().members(1);
    for known in known_members() {
        assert_eq!(members.iter().filter(|(name, _)| *name == known).count(), 1, "{known}");
    }
}

#[test]
fn eans_have_their_check_digit() {
    assert_eq!(ean("789123456789"), "7891234567895");
    assert_eq!(ean("400638133393"), "4006381333931");
}

#[test]
fn chunks_of_a_catalogue_are_the_same_in_every_run() {
    let catalogue = Catalogue { items: 700, ..Catalogue::default() };
    let file = || {
        let rules = ItemRules { zone: TimeZone::UTC, cnpjs: CnpjAccess::Any, partial: PartialPolicy::Warn };
        let batch = BatchStamp::new(Timestamp::UNIX_EPOCH, Uuid::nil());
        let mut planner = Planner::new(Plan::default(), batch, Generation::FIRST);
        for index in 0..catalogue.items {
            let place = ItemPlace { index: u64::from(index), offset: 0 };
            let item = catalogue.item(index, Layout::Array);
            let product = rules.parse(place, item.as_bytes()).unwrap();
            assert!(planner.push(product, u64::from(index)).is_empty());
        }
        encode(&planner.finish().remove(0)).unwrap()
    };
    assert_eq!(file(), file());
}
