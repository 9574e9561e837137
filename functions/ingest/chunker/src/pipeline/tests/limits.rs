//! Tests of payloads that reach a limit of the chunker.

use super::*;

#[test]
fn a_bomb_and_a_payload_over_the_limit_are_cut_off() {
    let bomb = gzip(&vec![b' '; 30_000_000]);
    assert_eq!(unusable(Format::Array, &bomb), (UnusableCode::MaxPayloadExceeded, Some(20_000_000)));
    let exact = |bytes: usize| vec![b' '; bytes - 2].into_iter().chain(*b"[]").collect::<Vec<u8>>();
    assert_eq!(cut(Format::Array, &exact(20_000_000)).0.payload_bytes, 20_000_000);
    assert_eq!(unusable(Format::Array, &exact(20_000_001)).0, UnusableCode::MaxPayloadExceeded);
}

#[test]
fn every_item_in_error_is_reported_however_many_there_are() {
    let (cut, kept) = cut(Format::Lines, "{}\n".repeat(120_000).as_bytes());
    assert_eq!((cut.items_in_error, cut.unreadable_keys), (120_000, 120_000));
    // The database lists the first ones.
    let listed: Vec<u64> = kept.errors.lock().unwrap().iter().map(|error| error.item_index).collect();
    assert_eq!((listed, cut.errors_omitted), ((0..10_000).collect::<Vec<u64>>(), 110_000));
    for (index, line) in kept.reported().iter().enumerate() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!((&line["item_index"], &line["item"]), (&index.into(), &"{}".into()));
    }
}

#[test]
fn more_establishments_than_a_batch_may_have_fail_the_payload() {
    let lines = |count: u64| -> Vec<u8> {
        let cnpj = |number| ingestion::Cnpj::from_base(&format!("{number:012}")).unwrap();
        // Each comes twice, with others between.
        let items = (1..=count).chain(1..=count).map(|number| {
            format!("{{\"CNPJ\":\"{}\",\"SHOPID\":1,\"PRODUCTID\":1}}\n", cnpj(number).as_str())
        });
        items.collect::<String>().into_bytes()
    };
    let bounds = Bounds { cnpjs: 700, ..Bounds::default() };
    let of = |count| run_on(CutSpec { bounds, ..spec(Format::Lines) }, &lines(count), 1000).0;
    let Outcome::Cut(cut) = of(700) else { panic!("700 are allowed") };
    assert_eq!((cut.items_parsed, cut.items_in_error), (1400, 0));
    let Outcome::Unusable { why, .. } = of(701) else { panic!("701 are not") };
    assert_eq!((why.code, why.code.as_str()), (UnusableCode::TooManyCnpjs, "TOO_MANY_CNPJS"));
}

#[test]
fn a_payload_with_more_errors_than_a_catalogue_has_items_is_none() {
    let bounds = Bounds { errors: 700, ..Bounds::default() };
    let of =
        |count| run_on(CutSpec { bounds, ..spec(Format::Lines) }, "{}\n".repeat(count).as_bytes(), 1000).0;
    let Outcome::Cut(cut) = of(700) else { panic!("700 are allowed") };
    assert_eq!(cut.items_in_error, 700);
    let Outcome::Unusable { why, .. } = of(701) else { panic!("701 are not") };
    assert_eq!((why.code, why.code.as_str()), (UnusableCode::TooManyErrors, "TOO_MANY_ERRORS"));
}

#[test]
fn errors_of_a_payload_that_fails_are_listed_or_counted() {
    let broken = |count| format!("[{}", "{\"a\":1},".repeat(count));
    for (count, listed, omitted) in [(1_500, 1_500, 0), (10_000, 10_000, 0), (12_345, 10_000, 2_345)] {
        let (outcome, kept) = run_on(spec(Format::Array), broken(count).as_bytes(), 1000);
        let Outcome::Unusable { errors_omitted, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!((kept.errors.into_inner().unwrap().len(), errors_omitted), (listed, omitted));
    }
}
