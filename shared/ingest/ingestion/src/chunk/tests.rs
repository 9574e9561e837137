use std::io::Write as _;

use jiff::Timestamp;
use proptest::prelude::*;
use uuid::Uuid;

use super::frame::FrameError;
use super::*;
use crate::Cnpj;
use crate::product::{Attributes, BatchStamp, KeyHash, MemberSet, Product, ProductKey, RowHash};

const BATCH: Uuid = Uuid::from_u128(0x0192_7f3e_0000_7000_8000_0000_0000_0001);

fn stamp() -> BatchStamp {
    BatchStamp::new(Timestamp::from_second(1_800_000_000).unwrap(), BATCH)
}

fn planner() -> Planner {
    let items = ChunkItems::try_from(500).unwrap();
    Planner::new(Plan { items, ..Plan::default() }, stamp(), Generation::FIRST)
}

fn product(id: u32, updated: Option<i64>, title: &str) -> Product<'static> {
    let cnpj = Cnpj::from_base(&format!("{:012}", id % 3 + 1)).unwrap();
    Product {
        key: ProductKey { cnpj, shop_id: 1, product_id: id.to_string() },
        attributes: Attributes {
            title: Some(title.to_owned().into()),
            source_updated_at: updated.map(|second| Timestamp::from_second(second).unwrap()),
            ..Attributes::default()
        },
        members: MemberSet::default(),
    }
}

fn frame(content: &[u8]) -> Vec<u8> {
    let mut file = super::frame::encoder();
    file.write_all(content).unwrap();
    file.finish().unwrap()
}

fn chunks(products: &[Product<'_>]) -> Vec<Chunk> {
    let mut planner = planner();
    let mut chunks: Vec<Chunk> =
        (0_u64..).zip(products).flat_map(|(index, product)| planner.push(product.clone(), index)).collect();
    chunks.extend(planner.finish());
    chunks
}

fn titles(chunk: &Chunk) -> Vec<String> {
    chunk
        .rows()
        .iter()
        .map(|row| row.attributes.decode().unwrap().title.unwrap_or_default().into_owned())
        .collect()
}

#[test]
fn chunk_ids_follow_from_batch_generation_and_index() {
    let id = ChunkId::of(BATCH, Generation::FIRST, 0);
    assert_eq!(id.to_string(), "c8721fff-a908-8a67-a685-a7de15c83ed8");
    assert_eq!(id.uuid().get_version_num(), 8);
    for other in [
        ChunkId::of(BATCH, Generation::FIRST, 1),
        ChunkId::of(BATCH, Generation::FIRST.next(), 0),
        ChunkId::of(Uuid::nil(), Generation::FIRST, 0),
    ] {
        assert_ne!(id, other);
    }
}

#[test]
fn plans_are_pinned_as_json_and_refused_out_of_range() {
    let plan = Plan::default();
    assert_eq!(serde_json::to_string(&plan).unwrap(), r#"{"planner":4,"items":1000}"#);
    assert_eq!(serde_json::from_str::<Plan>(r#"{"planner":4,"items":1000}"#).unwrap(), plan);
    let earlier: Plan = serde_json::from_str(r#"{"planner":3,"items":1000}"#).unwrap();
    assert!(plan.planner.is_current() && !earlier.planner.is_current());
    for json in [
        r#"{"planner":0,"items":1000}"#,
        r#"{"planner":5,"items":1000}"#,
        r#"{"planner":4,"items":499}"#,
        r#"{"planner":4,"items":2001}"#,
    ] {
        assert!(serde_json::from_str::<Plan>(json).is_err(), "{json}");
    }
}

/// Returns the index, the number of items and the number of rows of each chunk.
fn counts(chunks: &[Chunk]) -> Vec<(u32, u32, usize)> {
    chunks.iter().map(|chunk| (chunk.index, chunk.items, chunk.rows().len())).collect()
}

/// Returns products of one establishment with these numbers, by which their keys are ordered.
fn numbered(ids: impl Iterator<Item = u32>, title: &str) -> Vec<Product<'static>> {
    ids.map(|id| product(300_000 + 3 * id, None, title)).collect()
}

#[test]
fn products_in_the_order_of_keys_are_cut_as_they_come() {
    let products = numbered(0..1201, "x");
    assert_eq!(counts(&chunks(&products)), [(0, 500, 500), (1, 500, 500), (2, 201, 201)]);
    let mut planner = planner();
    let completed: Vec<usize> = (0_u64..)
        .zip(&products)
        .filter(|(index, product)| !planner.push((*product).clone(), *index).is_empty())
        .map(|(index, _)| usize::try_from(index).unwrap())
        .collect();
    assert_eq!(completed, [499, 999]);
    assert!(self::planner().finish().is_empty());
}

#[test]
fn other_products_are_sorted_across_chunks() {
    // The ids of 1201 products in the order of numbers, in three establishments by turns.
    let products: Vec<Product<'_>> = (0..1201).map(|id| product(id, None, "x")).collect();
    let chunks = chunks(&products);
    assert_eq!(counts(&chunks), [(0, 500, 500), (1, 500, 500), (2, 201, 201)]);
    let rows: Vec<&Row> = chunks.iter().flat_map(Chunk::rows).collect();
    assert!(rows.is_sorted_by(|left, right| left.key < right.key));
    let cnpjs: Vec<usize> = chunks.iter().map(|chunk| chunk.cnpjs().len()).collect();
    assert_eq!(cnpjs, [2, 2, 1]);
}

#[test]
fn a_key_is_in_one_chunk_with_all_that_it_superseded() {
    // The last key of what would be the first chunk, again and again.
    let products = [numbered(0..600, "x"), numbered([499; 30].into_iter(), "y")].concat();
    assert_eq!(counts(&chunks(&products)), [(0, 500, 500), (1, 130, 101)]);
    let products = [numbered(0..500, "x"), numbered([498; 30].into_iter(), "y")].concat();
    assert_eq!(counts(&chunks(&products)), [(0, 500, 500), (1, 30, 1)]);
    let products = [numbered((0..500).rev(), "x"), numbered([499; 30].into_iter(), "y")].concat();
    assert_eq!(counts(&chunks(&products)), [(0, 530, 500)]);
}

#[test]
fn large_items_are_cut_by_size() {
    let large = "x".repeat(1024 * 1024);
    let sizes = |ids: Vec<u32>| counts(&chunks(&numbered(ids.into_iter(), &large)));
    assert_eq!(sizes((0..20).collect()), [(0, 8, 8), (1, 8, 8), (2, 4, 4)]);
    // In the other order, 40 are sorted at a time.
    let in_windows: Vec<usize> = sizes((0..50).rev().collect()).iter().map(|(.., rows)| *rows).collect();
    assert_eq!(in_windows, [8, 8, 8, 8, 8, 8, 2]);
}

#[test]
fn of_one_key_the_latest_version_is_left() {
    let chunks = chunks(&[
        product(1, Some(20), "newest by its date"),
        product(1, Some(10), "older"),
        product(2, Some(10), "first"),
        product(2, Some(10), "last of equals"),
        product(4, Some(1_900_000_000), "ahead of the clock"),
        product(4, None, "without a date, and later"),
    ]);
    let [chunk] = chunks.as_slice() else { panic!("one chunk") };
    assert_eq!((chunk.items, chunk.duplicates()), (6, 3));
    // The key's CNPJ comes first in the order: 1 and 4 share one.
    assert_eq!(titles(chunk), ["newest by its date", "without a date, and later", "last of equals"]);
}

#[test]
fn the_event_names_its_chunk() {
    let chunk = chunks(&[product(1, None, "x")]).remove(0);
    let event = ChunkReady {
        batch_id: BATCH,
        generation: chunk.generation,
        chunk_index: chunk.index,
        chunk_uri: "s3://chunks/1".to_owned(),
        cnpj: chunk.cnpjs()[0],
        items: chunk.items,
    };
    assert_eq!(event.chunk_id(), chunk.id());
    let mut json = serde_json::to_value(&event).unwrap();
    json["from_a_newer_chunker"] = true.into();
    assert_eq!(json["generation"], 1);
    assert_eq!(json["cnpj"], chunk.cnpjs()[0].as_str());
    assert_eq!(serde_json::from_value::<ChunkReady>(json).unwrap(), event);
}

#[test]
fn a_file_that_is_no_chunk_says_what_is_wrong() {
    assert!(matches!(decode(b""), Err(ChunkFileError::Frame(FrameError::Decompress(_)))));
    assert!(matches!(decode(&frame(b"something")), Err(ChunkFileError::NotAChunk)));
    assert!(matches!(decode(&frame(b"IHCK\x01\0rest")), Err(ChunkFileError::Version(1))));
    assert!(matches!(decode(&frame(b"IHCK\x03\0rest")), Err(ChunkFileError::Version(3))));
    assert!(matches!(decode(&frame(b"IHCK\x02\0rest")), Err(ChunkFileError::Damaged)));
    let mut twice = encode(&chunks(&[product(1, None, "x")])[0]).unwrap();
    twice.extend_from_within(..);
    assert!(matches!(decode(&twice), Err(ChunkFileError::Frame(FrameError::TrailingContent))));
}

prop_compose! {
    fn products()(list in prop::collection::vec((0_u32..40, prop::option::of(0_i64..50), "\\PC{0,8}"), 1..60)) -> Vec<Product<'static>> {
        list.into_iter().map(|(id, updated, title)| product(id, updated, &title)).collect()
    }
}

proptest! {
    #[test]
    fn a_chunk_survives_its_file(products in products()) {
        for chunk in chunks(&products) {
            let file = encode(&chunk).unwrap();
            prop_assert_eq!(&encode(&chunk).unwrap(), &file);
            let read = decode(&file).unwrap();
            for row in read.rows() {
                prop_assert_eq!(row.key_hash, KeyHash::of(&row.key));
                prop_assert_eq!(row.row_hash, RowHash::of(&row.attributes.decode().unwrap()));
            }
            prop_assert_eq!(read, chunk);
        }
    }

    #[test]
    fn each_key_is_left_once_with_its_greatest_version(products in products()) {
        let chunk = chunks(&products).remove(0);
        let mut expected = std::collections::BTreeMap::new();
        for (index, product) in (0_u64..).zip(&products) {
            let version = crate::product::Version::new(product.attributes.source_updated_at, stamp(), index);
            expected.entry(product.key.clone()).and_modify(|known: &mut crate::product::Version| *known = version.max(*known)).or_insert(version);
        }
        let found: Vec<_> = chunk.rows().iter().map(|row| (row.key.clone(), row.version)).collect();
        prop_assert_eq!(chunk.duplicates() as usize, products.len() - expected.len());
        prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn a_damaged_file_is_an_error_and_no_panic(products in products(), at in any::<prop::sample::Index>(), byte: u8, cut: bool) {
        let chunk = chunks(&products).remove(0);
        let mut file = encode(&chunk).unwrap();
        let at = at.index(file.len());
        if cut { file.truncate(at) } else { file[at] = byte }
        // Two forms of a block may mean the same.
        if let Ok(read) = decode(&file) {
            prop_assert_eq!(read, chunk);
        }
    }

    #[test]
    fn arbitrary_content_is_an_error_and_no_panic(content in prop::collection::vec(any::<u8>(), 0..300)) {
        let file = frame(&[b"IHCK\x02\0", content.as_slice()].concat());
        prop_assert!(decode(&file).is_err());
    }
}
