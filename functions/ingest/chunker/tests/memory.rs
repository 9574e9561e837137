//! Test that a payload is cut under 96 MiB of peak memory, whatever its form, its order and its
//! size. The rows that are gathered to be sorted take up to 40 MiB of it.
//!
//! Each payload is large enough to exceed the limit if it were kept in memory: 64 MB are too much
//! beside these 40 MiB, and 100 MB where no item becomes a row. At night, the gzip payload is as
//! large as a payload may be, and small items also come as a plain array. By day, small items come
//! as lines and in a compressed array, and large ones in a plain array. Each form is read by a
//! process of its own, since peak memory is measured for a whole process.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails where it finds itself wrong"
)]

use std::io::Write as _;
use std::process::Command;

use bytes::Bytes;
use chunker::CutSpec;
use chunker::pipeline::{Outcome, Output, ReportFile, RunError, Source, run};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::future::BoxFuture;
use ingestion::chunk::{Generation, Plan};
use ingestion::generate::{Catalogue, Layout};
use ingestion::product::{BatchStamp, CnpjAccess, ItemError, ItemErrorCode, ItemRules, PartialPolicy};
use ingestion::split::Format;
use jiff::Timestamp;
use jiff::tz::TimeZone;

const FORM: &str = "PAYLOAD_FORM";
const FORMS: [&str; 5] = ["lines", "gzip", "large", "largest", "broken"];
/// Further forms of payload, which only `.ci/nightly` reads, with `PAYLOAD_FORMS=all`.
const MORE_FORMS: [&str; 2] = ["array", "pretty"];
const PAYLOAD_BYTES: usize = 64_000_000;
/// Size in bytes of a payload whose items are all in error, so that no product is loaded.
const BYTES_WITHOUT_ROWS: usize = 100_000_000;
const LIMIT_KIB: u64 = 96 * 1024;

/// Number of bytes in a frame of the payload, as S3 delivers it.
const FRAME: usize = 16 * 1024;

/// Returns the size in bytes of the gzip payload, the usual form. `.ci/nightly` sets
/// `PAYLOAD_BYTES` to read the largest allowed one, of 200 MB.
fn usual_bytes() -> usize {
    std::env::var("PAYLOAD_BYTES").map_or(PAYLOAD_BYTES, |bytes| bytes.parse().unwrap())
}

/// True for a form of payload whose items are all in error: too large, or not JSON.
fn is_in_error(form: &str) -> bool {
    form == "large" || form == "broken"
}

/// Payload that is generated while it is read.
struct Endless {
    items: Vec<String>,
    between: &'static str,
    end: &'static str,
    bytes: usize,
    made: usize,
    count: usize,
    gzip: Option<GzEncoder<Vec<u8>>>,
    ready: Vec<u8>,
}

impl Endless {
    fn of(form: &str) -> (Format, Self) {
        let catalogue = Catalogue { items: 1500, establishments: 20, bad: 5, ..Catalogue::default() };
        let items = |layout| (0..catalogue.items).map(|index| catalogue.item(index, layout)).collect();
        let (format, items, start, between, end): (_, Vec<String>, _, _, _) = match form {
            "array" | "gzip" => (Format::Array, items(Layout::Array), "[", ",", "]"),
            "pretty" => (Format::Array, items(Layout::Pretty), "[\n", ",\n", "\n]\n"),
            "lines" => (Format::Lines, items(Layout::Lines), "", "\n", "\n"),
            "large" => (Format::Array, large(1_000_000), "[", ",", "]"),
            "largest" => (Format::Array, large(255_000), "[", ",", "]"),
            "broken" => (Format::Array, broken(large(255_000)), "[", ",", "]"),
            other => panic!("{other} is no form"),
        };
        let gzip = (form == "gzip").then(|| GzEncoder::new(Vec::new(), Compression::fast()));
        let ready = start.as_bytes().to_vec();
        let bytes = match form {
            "gzip" => usual_bytes(),
            _ if is_in_error(form) => BYTES_WITHOUT_ROWS,
            _ => PAYLOAD_BYTES,
        };
        (format, Self { items, between, end, bytes, made: 0, count: 0, gzip, ready })
    }

    /// Appends the next item to `content`; returns false at the payload's end.
    fn make(&mut self, content: &mut Vec<u8>) -> bool {
        if self.made >= self.bytes {
            return false;
        }
        if self.count > 0 {
            content.extend_from_slice(self.between.as_bytes());
        }
        let item = &self.items[self.count % self.items.len()];
        content.extend_from_slice(item.as_bytes());
        self.made += item.len() + self.between.len();
        self.count += 1;
        if self.made >= self.bytes {
            content.extend_from_slice(self.end.as_bytes());
        }
        true
    }
}

/// Builds large items, each with a title of `bytes` bytes, that do not compress: each repeats a
/// text longer than the distance at which chunk compression finds repetitions.
fn large(bytes: usize) -> Vec<String> {
    const TEXT: usize = 100_000;
    (0..8)
        .map(|id| {
            let mut state = 88_172_645_463_325_252_u64 + id;
            let text: String = std::iter::repeat_with(|| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                char::from(b'#' + u8::try_from(state % 57).unwrap())
            })
            .take(TEXT)
            .collect();
            let mut text = text.repeat(bytes.div_ceil(TEXT));
            text.truncate(bytes);
            format!(r#"{{"CNPJ":"05927228000145","SHOPID":1,"PRODUCTID":"{id}","TITLE":"{text}"}}"#)
        })
        .collect()
}

/// Makes each item invalid JSON by a mistake at its end.
fn broken(items: Vec<String>) -> Vec<String> {
    items.into_iter().map(|item| item.replace("\"}", "\",\"PRICE\":NaN}")).collect()
}

impl Source for Endless {
    async fn next(&mut self) -> Result<Option<Bytes>, RunError> {
        while self.ready.len() < FRAME {
            let mut content = std::mem::take(&mut self.ready);
            let compressed = self.gzip.take();
            if let Some(mut gzip) = compressed {
                // What was compressed is in the encoder until enough of it is there.
                let mut plain = if self.count == 0 { std::mem::take(&mut content) } else { Vec::new() };
                let more = self.make(&mut plain);
                gzip.write_all(&plain)?;
                if more {
                    content.append(gzip.get_mut());
                    self.gzip = Some(gzip);
                } else {
                    content.extend(gzip.finish()?);
                }
                self.ready = content;
                continue;
            }
            let more = self.make(&mut content);
            self.ready = content;
            if !more {
                break;
            }
        }
        let rest = self.ready.split_off(self.ready.len().min(FRAME));
        let frame = std::mem::replace(&mut self.ready, rest);
        Ok((!frame.is_empty()).then(|| frame.into()))
    }
}

/// Output that discards everything, as slowly as a network would.
struct Nowhere;

/// Report file that discards its parts.
struct NoReport;

impl ReportFile for NoReport {
    async fn add(&mut self, part: Vec<u8>) -> Result<(), RunError> {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        drop(part);
        Ok(())
    }

    async fn finish(self, _: Vec<u8>) -> Result<(), RunError> {
        Ok(())
    }

    async fn abandon(self) {}
}

impl Output for Nowhere {
    type Report = NoReport;

    fn report(&self) -> NoReport {
        NoReport
    }

    fn uri(&self, _: u32) -> String {
        String::new()
    }

    fn store(&self, _: u32, file: Vec<u8>) -> BoxFuture<'static, Result<(), RunError>> {
        Box::pin(async move {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            drop(file);
            Ok(())
        })
    }

    async fn record(&self, errors: &[ItemError]) -> Result<(), RunError> {
        assert!(
            errors
                .iter()
                .all(|error| error.code != ItemErrorCode::ItemTooLarge || error.detail.contains("1000"))
        );
        Ok(())
    }
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches("kB").trim().parse().unwrap()
}

/// Cuts one form of payload in a process of its own, which `payloads_are_read_in_little_memory`
/// starts to measure its memory.
#[tokio::test]
#[ignore = "payloads_are_read_in_little_memory starts it for each form"]
async fn read_one_form() {
    let form = std::env::var(FORM).unwrap();
    let (format, mut payload) = Endless::of(&form);
    let spec = CutSpec {
        format,
        rules: ItemRules { zone: TimeZone::UTC, cnpjs: CnpjAccess::Any, partial: PartialPolicy::Warn },
        plan: Plan::default(),
        batch: BatchStamp::new(Timestamp::UNIX_EPOCH, uuid::Uuid::nil()),
        generation: Generation::FIRST,
        max_bytes: 210_000_000,
        bounds: chunker::Bounds::default(),
        checksum: None,
    };
    let Outcome::Cut(cut) = run(spec, &mut payload, &Nowhere).await.unwrap() else { panic!("{form}") };
    let bytes = cut.payload_bytes;
    assert!(bytes * 200 >= u64::try_from(payload.bytes).unwrap() * 199, "{form}: {bytes} bytes");
    assert_eq!(cut.items_parsed, u64::try_from(payload.count).unwrap());
    // Nearly all items of the other forms are cut into chunks.
    let mostly_in_error = cut.items_in_error * 2 > cut.items_parsed;
    assert_eq!(mostly_in_error, is_in_error(&form), "{form}: {} in error", cut.items_in_error);
    println!("{form}: {} items, {} chunks, peak {} KiB", cut.items_parsed, cut.chunks.len(), peak_kib());
    assert!(peak_kib() < LIMIT_KIB, "{form}: {} KiB at most", peak_kib());
}

#[test]
fn payloads_are_read_in_little_memory() {
    let all = std::env::var("PAYLOAD_FORMS").is_ok_and(|forms| forms == "all");
    let more: &[&str] = if all { &MORE_FORMS } else { &[] };
    for form in FORMS.iter().chain(more) {
        let read = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "read_one_form", "--ignored", "--nocapture"])
            .env(FORM, form)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&read.stdout);
        assert!(read.status.success(), "{said}\n{}", String::from_utf8_lossy(&read.stderr));
        assert!(said.contains("1 passed"), "{said}");
        println!("{}", said.lines().find(|line| line.contains("peak")).unwrap_or_default());
    }
}
