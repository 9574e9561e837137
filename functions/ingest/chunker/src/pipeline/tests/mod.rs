mod limits;
mod mistakes;

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read as _, Write as _};
use std::sync::{Arc, Mutex};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use ingestion::chunk::{Generation, Plan, decode};
use ingestion::generate::{Catalogue, Layout};
use ingestion::product::{BatchStamp, CnpjAccess, ItemErrorCode, ItemRules, PartialPolicy};
use ingestion::split::{Format, ITEM_LIMIT};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::*;
use crate::{Bounds, UnusableCode};

const ITEM: &str = r#"{"CNPJ":"05927228000145","SHOPID":1,"PRODUCTID":"1","TITLE":"Dipirona"}"#;

struct Frames(VecDeque<Bytes>);

impl Frames {
    fn of(payload: &[u8], size: usize) -> Self {
        Self(payload.chunks(size).map(Bytes::copy_from_slice).collect())
    }
}

impl Source for Frames {
    async fn next(&mut self) -> Result<Option<Bytes>, RunError> {
        Ok(self.0.pop_front())
    }
}

/// Output that keeps chunks, errors and the report in memory. Storing the chunk with the index
/// `broken` fails.
#[derive(Default)]
struct Kept {
    files: Arc<Mutex<BTreeMap<u32, Vec<u8>>>>,
    errors: Mutex<Vec<ItemError>>,
    report: Arc<Mutex<Option<Vec<u8>>>>,
    broken: Option<u32>,
}

/// Report file in memory, which is put into `kept` once it is finished.
struct KeptReport {
    parts: Vec<u8>,
    kept: Arc<Mutex<Option<Vec<u8>>>>,
}

impl ReportFile for KeptReport {
    async fn add(&mut self, part: Vec<u8>) -> Result<(), RunError> {
        assert!(part.len() >= objects::PART);
        self.parts.extend(part);
        Ok(())
    }

    async fn finish(mut self, last: Vec<u8>) -> Result<(), RunError> {
        self.parts.extend(last);
        *self.kept.lock().unwrap() = Some(self.parts);
        Ok(())
    }

    async fn abandon(self) {}
}

impl Kept {
    /// Returns the lines of the error report; none if there is no report.
    fn reported(&self) -> Vec<String> {
        let report = self.report.lock().unwrap();
        let Some(report) = report.as_deref() else { return Vec::new() };
        let mut text = String::new();
        #[expect(clippy::disallowed_methods, reason = "the test made it itself")]
        GzDecoder::new(report).read_to_string(&mut text).unwrap();
        assert!(text.ends_with('\n'));
        text.lines().map(str::to_owned).collect()
    }
}

impl Output for Kept {
    type Report = KeptReport;

    fn report(&self) -> KeptReport {
        KeptReport { parts: Vec::new(), kept: Arc::clone(&self.report) }
    }

    fn uri(&self, index: u32) -> String {
        format!("s3://kept/{index}")
    }

    fn store(&self, index: u32, file: Vec<u8>) -> BoxFuture<'static, Result<(), RunError>> {
        let (files, broken) = (self.files.clone(), self.broken);
        Box::pin(async move {
            tokio::task::yield_now().await;
            if broken == Some(index) {
                return Err("storage is away".into());
            }
            files.lock().unwrap().insert(index, file);
            Ok(())
        })
    }

    async fn record(&self, errors: &[ItemError]) -> Result<(), RunError> {
        assert!((1..=ERROR_PAGE).contains(&errors.len()));
        self.errors.lock().unwrap().extend_from_slice(errors);
        Ok(())
    }
}

fn spec(format: Format) -> CutSpec {
    CutSpec {
        format,
        rules: ItemRules { zone: TimeZone::UTC, cnpjs: CnpjAccess::Any, partial: PartialPolicy::Warn },
        plan: Plan::default(),
        batch: BatchStamp::new(Timestamp::from_second(1_800_000_000).unwrap(), uuid::Uuid::from_u128(7)),
        generation: Generation::FIRST,
        max_bytes: 20_000_000,
        bounds: Bounds::default(),
        checksum: None,
    }
}

fn run_on(spec: CutSpec, payload: &[u8], frame: usize) -> (Outcome, Kept) {
    let kept = Kept::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let outcome = runtime.block_on(run(spec, &mut Frames::of(payload, frame), &kept)).unwrap();
    (outcome, kept)
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn cut(format: Format, payload: &[u8]) -> (Seal, Kept) {
    match run_on(spec(format), payload, 1000) {
        (Outcome::Cut(cut), kept) => {
            reports_each(&cut, &kept, payload);
            (cut, kept)
        }
        (unusable, _) => panic!("{unusable:?}"),
    }
}

/// Checks that the report has each item in error once, with the item's text.
fn reports_each(cut: &Seal, kept: &Kept, payload: &[u8]) {
    let lines = kept.reported();
    assert_eq!(u64::try_from(lines.len()).unwrap(), cut.items_in_error);
    assert_eq!(kept.report.lock().unwrap().is_some(), cut.items_in_error > 0);
    let listed = kept.errors.lock().unwrap();
    for (place, line) in lines.iter().enumerate() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        if let Some(listed) = listed.get(place) {
            assert_eq!(&serde_json::from_value::<ItemError>(line.clone()).unwrap(), listed);
        }
        let offset = usize::try_from(line["byte_offset"].as_u64().unwrap()).unwrap();
        if let Some(item) = line["item"].as_str().filter(|_| !payload.starts_with(&[0x1f, 0x8b])) {
            assert!(payload[offset..].starts_with(item.as_bytes()), "{line}");
        }
    }
}

fn unusable(format: Format, payload: &[u8]) -> (UnusableCode, Option<u64>) {
    match run_on(spec(format), payload, 1000) {
        (Outcome::Unusable { why, .. }, kept) => {
            assert_eq!(*kept.report.lock().unwrap(), None);
            (why.code, why.byte_offset)
        }
        (cut, _) => panic!("{cut:?}"),
    }
}

/// Cuts a payload, and returns the index, byte offset and code of each item in error.
fn errors(format: Format, payload: &[u8]) -> Vec<(u64, u64, ItemErrorCode)> {
    let (cut, kept) = cut(format, payload);
    let errors = kept.errors.into_inner().unwrap();
    assert_eq!(cut.items_in_error, u64::try_from(errors.len()).unwrap());
    errors.iter().map(|error| (error.item_index, error.byte_offset, error.code)).collect()
}

#[test]
fn a_payload_is_cut_and_every_item_accounted_for() {
    let catalogue =
        Catalogue { items: 3500, establishments: 5, bad: 40, duplicate: 30, ..Catalogue::default() };
    for (layout, format) in
        [(Layout::Array, Format::Array), (Layout::Pretty, Format::Array), (Layout::Lines, Format::Lines)]
    {
        let payload = catalogue.payload(layout);
        let (cut, kept) = cut(format, &payload);
        assert_eq!((cut.items_parsed, cut.payload_bytes), (3500, u64::try_from(payload.len()).unwrap()));
        assert_eq!(cut.checksum, hex::encode(<sha2::Sha256 as sha2::Digest>::digest(&payload)));
        assert!(
            cut.items_in_error > 50 && cut.unreadable_keys > 0 && cut.unreadable_keys < cut.items_in_error
        );
        let in_chunks: u64 = cut.chunks.iter().map(|chunk| u64::from(chunk.items)).sum();
        assert_eq!(in_chunks + cut.items_in_error, 3500);
        let files = kept.files.lock().unwrap();
        assert!(files.keys().copied().eq(0..4) && cut.chunks.iter().map(|chunk| chunk.index).eq(0..4));
        for (summary, file) in cut.chunks.iter().zip(files.values()) {
            let chunk = decode(file).unwrap();
            assert_eq!((chunk.items, chunk.cnpjs()), (summary.items, summary.cnpjs.clone()));
        }
    }
}

#[test]
fn items_that_lack_members_which_others_have_are_counted() {
    let with = |members: &str| ITEM.replace("\"TITLE\":\"Dipirona\"", members);
    let stock = with(r#""PRICE":1,"QUANTITY":2"#);
    let null = with(r#""TITLE":null,"PRICE":null,"QUANTITY":null"#);
    let whole = with(r#""QUANTITY":1,"TITLE":"a","PRICE":1,"LOTE":7"#);
    for (items, partial) in [
        (vec![&stock, &stock], 0),
        (vec![&stock, &null], 1),
        (vec![&whole, &null, &whole], 0),
        (vec![&stock, &stock, &whole], 2),
        (vec![&whole, &stock], 1),
    ] {
        let items: Vec<&str> = items.into_iter().map(String::as_str).collect();
        let (cut, _) = cut(Format::Array, format!("[{}]", items.join(",")).as_bytes());
        assert_eq!((cut.items_in_error, cut.items_partial), (0, partial), "{items:?}");
    }
}

#[test]
fn a_payload_compressed_otherwise_makes_the_same_chunks() {
    let payload = Catalogue { items: 2300, ..Catalogue::default() }.payload(Layout::Array);
    let (plain, plain_kept) = cut(Format::Array, &payload);
    let (first, second) = payload.split_at(payload.len() / 3);
    for stored in [gzip(&payload), [gzip(first), gzip(second), gzip(b"")].concat()] {
        let (inflated, kept) = cut(Format::Array, &stored);
        assert_eq!(inflated, plain);
        assert_eq!(*kept.files.lock().unwrap(), *plain_kept.files.lock().unwrap());
    }
}

#[test]
fn what_is_no_list_of_items_fails_as_a_whole_and_says_where() {
    use UnusableCode::MalformedJson;
    for (format, payload, at) in [
        (Format::Array, String::new(), 0),
        (Format::Array, ITEM.to_owned(), 0),
        (Format::Array, format!("[{ITEM}"), ITEM.len() + 1),
        (Format::Array, format!("[{ITEM}][]"), ITEM.len() + 2),
        (Format::Array, "\u{feff}{}".to_owned(), 3),
        (Format::Lines, "\n\r\n  \n".to_owned(), 6),
    ] {
        let offset = Some(u64::try_from(at).unwrap());
        assert_eq!(unusable(format, payload.as_bytes()), (MalformedJson, offset), "{payload}");
        assert_eq!(unusable(format, &gzip(payload.as_bytes())), (MalformedJson, offset), "{payload}");
    }
    // UTF-16 is no list in the one encoding that there is.
    let wide: Vec<u8> = format!("[{ITEM}]").encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(unusable(Format::Array, &wide).0, MalformedJson);
}

#[test]
fn an_empty_array_is_cut_into_nothing() {
    for payload in ["[]", "\u{feff} [ \n] "] {
        let (cut, kept) = cut(Format::Array, payload.as_bytes());
        assert_eq!((cut.items_parsed, cut.chunks.len()), (0, 0));
        assert!(kept.files.lock().unwrap().is_empty());
    }
}

#[test]
fn a_bad_item_has_its_name_and_spoils_no_other() {
    use ItemErrorCode::*;
    let large = format!("{{\"TITLE\":\"{}\"}}", "x".repeat(ITEM_LIMIT));
    let with = |member: &str| ITEM.replace("\"TITLE\":\"Dipirona\"", member);
    for (item, code) in [
        ("null".to_owned(), NotAnObject),
        ("[1]".to_owned(), NotAnObject),
        ("\"],[{\"".to_owned(), NotAnObject),
        ("nul".to_owned(), MalformedJson),
        (with(&format!("\"X\":{}{}", "[".repeat(5000), "]".repeat(5000))), FieldInvalid),
        (with(&format!("\"X\":{}", "[".repeat(5000))), MalformedJson),
        (large, ItemTooLarge),
        (with(r#""TITLE":"a" "COLOR":"b""#), MalformedJson),
        (with(r#""PRICE":NaN"#), MalformedJson),
        (with(r#""PRICE":1e40"#), FieldInvalid),
        (with(&format!(r#""PRICE":"{}""#, "9".repeat(40))), FieldInvalid),
        (with(r#""TITLE":"a\u0000b""#), FieldInvalid),
        (with(r#""TITLE":"\ud800""#), FieldInvalid),
        (with(r#""TITLE":"a","title":"b""#), FieldInvalid),
        (ITEM.replace("05927228000145", "05927228000146"), CnpjInvalid),
        (ITEM.replace("CNPJ", "CNPI"), FieldRequired),
    ] {
        let (second, third) = (ITEM.len() + 2, ITEM.len() + item.len() + 3);
        let place = (1, u64::try_from(second).unwrap(), code);
        assert!(third > second);
        assert_eq!(
            errors(Format::Array, format!("[{ITEM},{item},{ITEM}]").as_bytes()),
            [place],
            "{item:.80}"
        );
        let place = (1, u64::try_from(second - 1).unwrap(), code);
        assert_eq!(
            errors(Format::Lines, format!("{ITEM}\n{item}\n{ITEM}\n").as_bytes()),
            [place],
            "{item:.80}"
        );
    }
}

#[test]
fn broken_lines_and_wrong_bytes_are_errors_of_their_item() {
    use ItemErrorCode::*;
    let half = &ITEM[..ITEM.len() / 2];
    let payload = format!("{half}\n{ITEM}\n]\n{ITEM}{ITEM}\n{ITEM}");
    let found: Vec<_> =
        errors(Format::Lines, payload.as_bytes()).iter().map(|error| (error.0, error.2)).collect();
    assert_eq!(found, [(0, MalformedJson), (2, MalformedJson)]);
    // Invalid UTF-8, and a NUL as it is.
    for byte in [0xff, 0xc3, 0x00] {
        let mut item = ITEM.as_bytes().to_vec();
        *item.last_chunk_mut::<4>().unwrap().first_mut().unwrap() = byte;
        let payload = [b"[", item.as_slice(), b",", ITEM.as_bytes(), b"]"].concat();
        assert_eq!(errors(Format::Array, &payload), [(0, 1, MalformedJson)], "{byte}");
    }
}

#[test]
fn content_that_is_not_what_it_should_be_is_corrupt() {
    let payload = Catalogue { items: 300, ..Catalogue::default() }.payload(Layout::Array);
    let whole = gzip(&payload);
    let (code, at) = unusable(Format::Array, &whole[..whole.len() / 2]);
    assert_eq!(code, UnusableCode::ContentCorrupt);
    assert!(at.is_some_and(|at| at > 0 && at < u64::try_from(payload.len()).unwrap()));
    assert_eq!(unusable(Format::Array, &whole[..3]), (UnusableCode::ContentCorrupt, Some(0)));
    assert_eq!(unusable(Format::Array, &[whole.as_slice(), b"[]"].concat()).0, UnusableCode::ContentCorrupt);
    for (checksum, is_right) in
        [(hex::encode(<sha2::Sha256 as sha2::Digest>::digest(&payload)), true), ("ab".repeat(32), false)]
    {
        let (outcome, _) = run_on(CutSpec { checksum: Some(checksum), ..spec(Format::Array) }, &whole, 1000);
        match outcome {
            Outcome::Cut(_) => assert!(is_right),
            Outcome::Unusable { why, stored, .. } => {
                assert_eq!((why.code, stored, is_right), (UnusableCode::ContentCorrupt, 0, false));
            }
        }
    }
}

#[test]
fn a_payload_that_fails_late_says_how_many_chunks_it_left() {
    let payload = Catalogue { items: 2500, ..Catalogue::default() }.payload(Layout::Array);
    let (outcome, kept) = run_on(spec(Format::Array), &payload[..payload.len() - 1], 1000);
    let Outcome::Unusable { why, stored, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!((why.byte_offset, stored), (Some(u64::try_from(payload.len() - 1).unwrap()), 2));
    assert_eq!(kept.files.lock().unwrap().len(), 2);
}

#[test]
fn storage_that_fails_ends_the_run() {
    let payload = Catalogue { items: 5000, ..Catalogue::default() }.payload(Layout::Array);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for broken in [0, 4] {
        let kept = Kept { broken: Some(broken), ..Kept::default() };
        let result = runtime.block_on(run(spec(Format::Array), &mut Frames::of(&payload, 1000), &kept));
        assert_eq!(result.unwrap_err().to_string(), "storage is away");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn chunks_are_the_same_however_the_bytes_come(
        seed in 0_u64..1000, items in 400_u32..1400, frame in 1_usize..70_000, lines: bool, compressed: bool, bad in 0_u32..100,
    ) {
        let catalogue = Catalogue { seed, items, establishments: 3, bad, duplicate: 20, ..Catalogue::default() };
        let (layout, format) = if lines { (Layout::Lines, Format::Lines) } else { (Layout::Pretty, Format::Array) };
        let payload = catalogue.payload(layout);
        let stored = if compressed { gzip(&payload) } else { payload.clone() };
        let (whole, whole_kept) = run_on(spec(format), &payload, payload.len());
        let (framed, framed_kept) = run_on(spec(format), &stored, frame);
        prop_assert_eq!(whole, framed);
        prop_assert_eq!(&*whole_kept.files.lock().unwrap(), &*framed_kept.files.lock().unwrap());
        prop_assert_eq!(&*whole_kept.errors.lock().unwrap(), &*framed_kept.errors.lock().unwrap());
        prop_assert_eq!(whole_kept.reported(), framed_kept.reported());
    }

    #[test]
    fn arbitrary_bytes_come_to_an_end_and_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000), lines: bool, as_gzip: bool) {
        let bytes = if as_gzip { [&[0x1f, 0x8b, 8, 0], bytes.as_slice()].concat() } else { bytes };
        let (outcome, _) = run_on(spec(if lines { Format::Lines } else { Format::Array }), &bytes, 64);
        if let Outcome::Cut(cut) = outcome {
            prop_assert!(cut.items_parsed >= cut.items_in_error);
        }
    }
}
