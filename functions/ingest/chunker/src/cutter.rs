use std::collections::HashSet;

use catalog::Seal;
use ingestion::Cnpj;
use ingestion::chunk::{Chunk, Generation, Plan, Planner};
use ingestion::product::{BatchStamp, ItemError, ItemErrorCode, ItemPlace, ItemRules, PartialItems, Product};
use ingestion::split::{Format, ITEM_LIMIT, InvalidJson, Piece, Splitter, begins_an_object};

use crate::content::ContentDigest;
use crate::report::Report;
use crate::unusable::{PayloadFault, UnusableCode};

/// Upper limits of a payload, besides its size, that protect memory, run time and the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of establishments in one payload. The cutter holds them in memory, and a full
    /// load deactivates the missing products of each one separately, under the establishment's
    /// lock.
    pub cnpjs: usize,
    /// Maximum number of a payload's items in error that the database lists. They are the first
    /// ones; the error report has all of them.
    pub listed_errors: u64,
    /// Maximum number of items in error before the whole payload is refused. A payload of 200 MB of
    /// `{}` would have 66 million, and their report would take longer to write than a run may last.
    pub errors: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { cnpjs: 10_000, listed_errors: catalog::LISTED_ITEM_ERRORS, errors: 5_000_000 }
    }
}

/// Rules for cutting one payload into chunks: its format, limits and batch.
#[derive(Clone, Debug)]
pub struct CutSpec {
    pub format: Format,
    pub rules: ItemRules,
    pub plan: Plan,
    pub batch: BatchStamp,
    pub generation: Generation,
    /// Maximum number of bytes of a payload's decoded content.
    pub max_bytes: u64,
    pub bounds: Bounds,
    /// Expected SHA-256 of the decoded content, in hex. `None` if it is not known, and so not
    /// checked.
    pub checksum: Option<String>,
}

/// Cuts a payload's content into chunks in one pass: splits it, parses the items and groups them.
/// Memory is bounded by the bytes of one call, one item, and up to 40 MiB of rows that are gathered
/// to be sorted. The caller does all I/O, and takes the chunks and errors from the cutter.
#[derive(Debug)]
pub(crate) struct Cutter {
    format: Format,
    splitter: Splitter,
    items: Items,
    expected: Option<String>,
}

#[derive(Debug)]
struct Items {
    rules: ItemRules,
    planner: Planner,
    parsed: u64,
    in_error: u64,
    unreadable_keys: u64,
    /// Number of the payload's items so far that are JSON objects, or begin as one.
    objects: u64,
    /// Byte offset in the decoded content of the first item that does not begin as a JSON object;
    /// `None` if there was no such item so far.
    first_other: Option<u64>,
    partial: PartialItems,
    bounds: Bounds,
    cnpjs: HashSet<Cnpj>,
    /// CNPJ of the previous item. Most items have the same one as the item before, which saves a
    /// look-up in `cnpjs`.
    last_cnpj: Option<Cnpj>,
    chunks: Vec<Chunk>,
    /// Items in error for the database to list, which the caller has not taken yet.
    errors: Vec<ItemError>,
    /// Report of all items in error, with their text.
    report: Report,
}

/// Last chunks, errors and totals of a payload, known only at its end.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) errors: Vec<ItemError>,
    /// Report of all items in error, whose last part is still to be written.
    pub(crate) report: Report,
    /// Totals of the payload for sealing the batch, without its chunks and the report's URI yet.
    pub(crate) cut: Seal,
}

impl Cutter {
    pub(crate) fn new(spec: CutSpec) -> Self {
        let items = Items {
            rules: spec.rules,
            planner: Planner::new(spec.plan, spec.batch, spec.generation),
            parsed: 0,
            in_error: 0,
            unreadable_keys: 0,
            objects: 0,
            first_other: None,
            partial: PartialItems::default(),
            bounds: spec.bounds,
            cnpjs: HashSet::new(),
            last_cnpj: None,
            chunks: Vec::new(),
            errors: Vec::new(),
            report: Report::new(),
        };
        let splitter = Splitter::new(spec.format, ITEM_LIMIT);
        Self { format: spec.format, splitter, items, expected: spec.checksum }
    }

    /// Cuts the next bytes of the payload's content into items, groups the valid ones into chunks,
    /// and records the others as errors. Fails if the payload is unusable.
    pub(crate) fn take(&mut self, window: &[u8]) -> Result<(), PayloadFault> {
        let items = &mut self.items;
        self.splitter.feed(window, &mut |piece: Piece<'_>| items.take(piece))?;
        self.items.bounded()
    }

    /// Takes the chunks that are complete out of the cutter.
    pub(crate) fn chunks(&mut self) -> Vec<Chunk> {
        std::mem::take(&mut self.items.chunks)
    }

    /// Returns the items in error that the database is to list, without those that the caller has
    /// removed already.
    pub(crate) const fn errors(&mut self) -> &mut Vec<ItemError> {
        &mut self.items.errors
    }

    /// Takes the next part of the error report, or `None` until there are enough bytes (5 MiB) for
    /// one.
    pub(crate) fn report_part(&mut self) -> Option<Vec<u8>> {
        self.items.report.part()
    }

    /// Returns the number of items in error that the database does not list, because they are
    /// beyond its limit.
    pub(crate) fn errors_omitted(&self) -> u64 {
        self.items.in_error.saturating_sub(self.items.bounds.listed_errors)
    }

    /// Ends the content and checks it as a whole: its syntax, its limits and its checksum.
    pub(crate) fn end(&mut self, whole: &ContentDigest) -> Result<(), PayloadFault> {
        let splitter = std::mem::replace(&mut self.splitter, Splitter::new(self.format, ITEM_LIMIT));
        let items = &mut self.items;
        splitter.finish(&mut |piece: Piece<'_>| items.take(piece))?;
        self.items.bounded()?;
        if self.format == Format::Lines {
            self.items.are_lines()?;
        }
        if self.expected.as_ref().is_some_and(|expected| *expected != whole.checksum) {
            return Err(PayloadFault {
                code: UnusableCode::ContentCorrupt,
                detail: "the content is not the one that was accepted: its SHA-256 is another".to_owned(),
                byte_offset: None,
            });
        }
        Ok(())
    }

    /// Returns the remaining chunks, errors and totals. Call it after [`end`](Self::end) has
    /// succeeded.
    pub(crate) fn finish(self, whole: ContentDigest) -> End {
        let errors_omitted = self.errors_omitted();
        let Items { planner, parsed, in_error, unreadable_keys, partial, mut chunks, errors, report, .. } =
            self.items;
        chunks.extend(planner.finish());
        let cut = Seal {
            payload_bytes: whole.bytes,
            checksum: whole.checksum,
            items_parsed: parsed,
            items_in_error: in_error,
            unreadable_keys,
            items_partial: partial.count(),
            errors_omitted,
            errors_uri: None,
            chunks: Vec::new(),
        };
        End { chunks, errors, report, cut }
    }
}

impl Items {
    fn take(&mut self, piece: Piece<'_>) -> Result<(), InvalidJson> {
        match piece {
            Piece::Item { index, offset, bytes } => {
                match self.rules.parse(ItemPlace { index, offset }, bytes) {
                    Ok(product) => self.add(product, index),
                    Err(error) if error.code == ItemErrorCode::MalformedJson => return Err(InvalidJson),
                    Err(error) => self.refuse(error, bytes),
                }
            }
            Piece::Broken { index, offset, bytes } => {
                self.refuse(self.rules.broken(ItemPlace { index, offset }, bytes), bytes);
            }
            Piece::TooLarge { index, offset, length, beginning } => {
                self.refuse(ItemError::too_large(index, offset, length, ITEM_LIMIT), beginning);
            }
        }
        Ok(())
    }

    fn add(&mut self, product: Product<'_>, index: u64) {
        self.parsed = self.parsed.saturating_add(1);
        self.objects = self.objects.saturating_add(1);
        self.partial.add(product.members);
        let cnpj = product.key.cnpj;
        if self.last_cnpj.replace(cnpj) != Some(cnpj) && self.cnpjs.len() <= self.bounds.cnpjs {
            self.cnpjs.insert(cnpj);
        }
        self.chunks.extend(self.planner.push(product, index));
    }

    /// Counts and reports an item in error. `text` is the item, or only its first bytes if it is
    /// too large.
    fn refuse(&mut self, error: ItemError, text: &[u8]) {
        self.parsed = self.parsed.saturating_add(1);
        self.in_error = self.in_error.saturating_add(1);
        if begins_an_object(text) {
            // A product with a mistake, wherever in it the mistake is.
            self.objects = self.objects.saturating_add(1);
        } else {
            self.first_other.get_or_insert(error.byte_offset);
        }
        let unreadable = error.settled_key().is_none();
        self.unreadable_keys = self.unreadable_keys.saturating_add(u64::from(unreadable));
        self.report.add(&error, text);
        if self.in_error <= self.bounds.listed_errors {
            self.errors.push(error);
        }
    }

    /// Checks that at least one line of an NDJSON payload is an object. Otherwise it is some other
    /// file: HTML, CSV, an archive or an array.
    fn are_lines(&self) -> Result<(), PayloadFault> {
        if self.objects > 0 {
            return Ok(());
        }
        Err(PayloadFault {
            code: UnusableCode::MalformedJson,
            detail: format!(
                "none of its {} lines is an object; send an array as application/json, and other files not at all",
                self.parsed
            ),
            byte_offset: self.first_other,
        })
    }

    fn bounded(&self) -> Result<(), PayloadFault> {
        let Bounds { cnpjs, errors, .. } = self.bounds;
        let (code, detail) = if self.cnpjs.len() > cnpjs {
            let detail = format!("it has products of more than {cnpjs} CNPJs; send them in several payloads");
            (UnusableCode::TooManyCnpjs, detail)
        } else if self.in_error > errors {
            let detail = format!(
                "more than {errors} of its items are in error, which no catalogue has; GET …/errors shows the first ones"
            );
            (UnusableCode::TooManyErrors, detail)
        } else {
            return Ok(());
        };
        Err(PayloadFault { code, detail, byte_offset: None })
    }
}
