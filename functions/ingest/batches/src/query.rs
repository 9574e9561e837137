//! The parameter `status` of the list of batches.

use api::{Problem, Query, invalid_parameter};
use ingestion::batch::BatchStatus;

/// Reads the parameter `status`.
///
/// # Errors
/// 400 for anything else than a batch's status.
pub(crate) fn status(query: &Query<'_>) -> Result<Option<BatchStatus>, Problem> {
    let Some(text) = query.value("status")? else { return Ok(None) };
    let known = BatchStatus::ALL.into_iter().find(|status| status.as_str() == text);
    known.map(Some).ok_or_else(|| {
        let all = BatchStatus::ALL.map(BatchStatus::as_str).join(", ");
        invalid_parameter("status", format!("must be one of {all}"))
    })
}

#[cfg(test)]
mod tests {
    use ingestion::payload::LoadType;

    use super::*;
    use crate::route::Endpoint;

    fn parse(text: &str) -> Query<'_> {
        Query::parse(text, Endpoint::List.parameters()).unwrap()
    }

    #[test]
    fn a_list_is_filtered_by_status_and_load_type() {
        let query = parse("status=PARTIAL_FAIL&load_type=full");
        assert_eq!(status(&query), Ok(Some(BatchStatus::PartialFail)));
        assert_eq!(query.parsed("load_type"), Ok(Some(LoadType::Full)));
        assert_eq!(status(&parse("")), Ok(None));
    }

    #[test]
    fn a_word_that_is_none_is_refused() {
        for text in ["status=received", "status="] {
            assert!(status(&parse(text)).is_err(), "{text}");
        }
        for text in ["load_type=Full", "load_type="] {
            assert!(parse(text).parsed::<LoadType>("load_type").is_err(), "{text}");
        }
    }
}
