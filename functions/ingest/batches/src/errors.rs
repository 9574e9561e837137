//! Route `GET …/{batch_id}/errors`: lists the items of a batch that were not loaded, each with the
//! reason.

use api::{ListOf, Problem, Query, Reply, invalid_parameter};
use catalog::ItemErrorPage;
use http::HeaderMap;
use ingestion::Viewer;
use ingestion::product::ItemError;
use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::format::{self, Format};
use crate::route::Endpoint;
use crate::{Batches, from_database};

/// Maximum number of items on one page of a batch's error list.
const MAX: u16 = 10_000;
/// Number of items on a JSON page of a batch's error list if the request has no `limit`. An NDJSON
/// page then has up to 10,000.
const DEFAULT: u16 = 100;
/// Number of bytes of JSON at which a page of errors ends. Even if every quote has to be escaped,
/// the response stays below Lambda's limit of 6 MB.
const MAX_BYTES: usize = 4_000_000;

/// Name of the response header of an NDJSON error page. Its value is the number of the batch's
/// items in error that no page has, because the database lists only the first ones.
const ERRORS_OMITTED: &str = "x-errors-omitted";

/// Response body of the error list in JSON: one page of a batch's items in error.
#[derive(Serialize)]
struct Page {
    errors: Vec<Box<RawValue>>,
    errors_omitted: u64,
    next_cursor: Option<String>,
}

impl Batches {
    pub(crate) async fn errors(
        &self,
        viewer: &Viewer,
        batch_id: Uuid,
        query: &Query<'_>,
        headers: &HeaderMap,
    ) -> Result<Reply, Problem> {
        let format = Format::of(headers);
        let limit = query.limit(if format == Format::Lines { MAX } else { DEFAULT }, 1..=MAX)?;
        let list = ListOf::new(viewer.tenant_id(), &["errors", &batch_id.to_string()]);
        let after = query.text("cursor")?.map(|cursor| after(&list, cursor)).transpose()?;
        // One item more than wanted shows whether there is another page.
        let wanted = u32::from(limit).saturating_add(1);
        let found = self.database.item_errors(viewer, batch_id, after, wanted).await;
        let ItemErrorPage { errors, omitted } = match found.map_err(|error| from_database(&error))? {
            Some(found) => found,
            None => {
                self.one_in_dynamo(viewer, batch_id).await?;
                ItemErrorPage { errors: Vec::new(), omitted: 0 }
            }
        };
        let (texts, last) = page(&errors, usize::from(limit))?;
        let next_cursor = last.map(|item| list.cursor(item.to_be_bytes()));
        match format {
            Format::Json => {
                let errors = texts.into_iter().filter_map(|text| RawValue::from_string(text).ok()).collect();
                format::json(&Page { errors, errors_omitted: omitted, next_cursor })
            }
            Format::Lines => {
                let path = Endpoint::Errors.route().path.replace("{batch_id}", &batch_id.to_string());
                let next = next_cursor.map(|cursor| format!("{path}?limit={limit}&cursor={cursor}"));
                let mut reply = format::lines(&texts, next);
                reply.set_header(ERRORS_OMITTED, omitted.to_string());
                Ok(reply)
            }
        }
    }
}

/// Decodes the cursor of a batch's error list to the index of the last item before the page. Fails
/// with 400 if the cursor is of another list.
fn after(list: &ListOf, cursor: &str) -> Result<u64, Problem> {
    let item = list.position(cursor).map(u64::from_be_bytes);
    // The database has no larger index.
    item.filter(|item| i64::try_from(*item).is_ok()).ok_or_else(|| {
        invalid_parameter("cursor", "must be the next_cursor of a page of this batch's errors")
    })
}

/// Returns the first items of `errors` as JSON texts: at most `limit`, and at most 4 MB together
/// unless the first item alone is larger. Also returns the index of the last returned item if more
/// items follow, and otherwise `None`.
fn page(errors: &[ItemError], limit: usize) -> Result<(Vec<String>, Option<u64>), Problem> {
    let (mut texts, mut bytes) = (Vec::new(), 0_usize);
    let mut last = None;
    for error in errors {
        let text = format::text(error)?;
        bytes = bytes.saturating_add(text.len());
        let is_full = texts.len() >= limit || (bytes > MAX_BYTES && !texts.is_empty());
        if is_full {
            return Ok((texts, last));
        }
        texts.push(text);
        last = Some(error.item_index);
    }
    Ok((texts, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(count: u64) -> Vec<ItemError> {
        (0..count).map(|index| ItemError::too_large(index * 2, 0, 0, 0)).collect()
    }

    #[test]
    fn a_cursor_has_an_index_that_the_database_may_have() {
        let list = ListOf::new("one", &["errors", "two"]);
        let largest = u64::try_from(i64::MAX).unwrap();
        let after = |item: u64| after(&list, &list.cursor(item.to_be_bytes())).ok();
        assert_eq!([0, largest, largest + 1].map(after), [Some(0), Some(largest), None]);
    }

    #[test]
    fn a_page_ends_at_its_limit_and_says_so() {
        let (texts, last) = page(&errors(3), 2).unwrap();
        assert_eq!((texts.len(), last), (2, Some(2)));
        let (texts, last) = page(&errors(2), 2).unwrap();
        assert_eq!((texts.len(), last), (2, None));
        assert_eq!(page(&[], 2).unwrap(), (Vec::new(), None));
    }

    #[test]
    fn a_page_ends_before_an_answer_cannot_be_carried() {
        let mut errors = errors(3);
        for error in &mut errors {
            error.detail = "x".repeat(MAX_BYTES / 2).into();
        }
        let (texts, last) = page(&errors, 10).unwrap();
        assert_eq!((texts.len(), last), (1, Some(0)));
        errors[0].detail = "x".repeat(MAX_BYTES).into();
        assert_eq!(page(&errors, 10).unwrap().1, Some(0), "an item that is too large alone comes alone");
    }
}
