//! `GET /v1/usage`: report of what tenants used, by API key and by day or month.

mod csv;
mod report;
mod usage_query;

use std::error::Error;

use access::rates::RateCard;
use access::{PRODUCTS_API_KEYS, Principal, Scope};
use api::{Problem, Query, Reason, Reply, invalid_parameter};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use lambda_http::Request;
use serde_json::json;
use usage::UsageError;
use usage::ingest::IngestDay;

use self::report::{Header, Report};
use self::usage_query::{PARAMETERS, UsageQuery};
use crate::Status;

/// Maximum bytes of the usage report. A Lambda function returns at most 6 MB, which contain the
/// body as an escaped string.
const LARGEST: usize = 4_500_000;

impl Status {
    /// Responds to `GET /v1/usage`. Any valid key sees the usage of its own tenant. A key with the
    /// scope `ops:read` sees the usage of all tenants. No rate limit applies.
    pub(crate) async fn usage(&self, request: &Request) -> Result<Reply, Problem> {
        let principal = access::authenticate_by(&self.access, request.headers(), PRODUCTS_API_KEYS).await?;
        let query = Query::parse(request.uri().query().unwrap_or_default(), &PARAMETERS)?;
        let now = Timestamp::now();
        let asked = UsageQuery::read(&query, now.to_zoned(TimeZone::UTC).date())?;
        let tenant = visible(&principal, query.value("tenant")?)?;
        let (lines, coverage, ingest, card) = tokio::join!(
            self.usage.days(asked.from, asked.to, tenant),
            self.usage.coverage(),
            self.usage_of_ingest(&asked, tenant),
            self.access.rates(),
        );
        let lines = lines.map_err(|error| from_table(&error))?;
        let coverage = coverage.map_err(|error| from_table(&error))?;
        let (ingest, card) = (ingest?, card?);
        let report = Report::of(asked.group, &lines, &ingest, card.as_ref());
        let header = Header {
            from: asked.from,
            to: asked.to,
            group: asked.group,
            complete: coverage.is_complete(asked.from, asked.to, now),
            counted_until: coverage.read_until,
            currency: card.as_ref().map(RateCard::currency),
        };
        let reply = if api::prefers(request.headers(), csv::MEDIA_TYPE) {
            Reply::new(200, csv::CONTENT_TYPE, csv::text(&header, &report, card.as_ref()))
        } else {
            Reply::json(200, &json!(report.answer(&header)))
        };
        if reply.body.len() > LARGEST { Err(too_many()) } else { Ok(reply) }
    }

    /// Reads the ingest's usage, which its database counts: one entry for each tenant and day,
    /// empty if the deployment has no ingest.
    async fn usage_of_ingest(
        &self,
        asked: &UsageQuery,
        tenant: Option<&str>,
    ) -> Result<Vec<IngestDay>, Problem> {
        let Some(ingest) = &self.ingest else { return Ok(Vec::new()) };
        let usage = ingest.usage((asked.from, asked.to), tenant).await.map_err(|error| {
            let error: &(dyn Error + 'static) = &*error;
            unavailable("the usage of the ingest", error)
        })?;
        if usage.is_whole { Ok(usage.days) } else { Err(too_many()) }
    }
}

/// Returns the tenant that the report is about; `None` stands for all tenants. By default this is
/// every tenant that the caller may see. Fails if the caller may not see the requested `tenant`.
fn visible<'a>(principal: &'a Principal, tenant: Option<&'a str>) -> Result<Option<&'a str>, Problem> {
    if let Some(tenant) = tenant {
        access::check_tenant_id(tenant)
            .map_err(|error| invalid_parameter("tenant", format!("is malformed: {error}")))?;
    }
    let operates = principal.require_any(&[Scope::OpsRead]);
    match tenant {
        Some(other) if other != principal.tenant => operates.map(|()| Some(other)),
        Some(own) => Ok(Some(own)),
        None if operates.is_ok() => Ok(None),
        None => Ok(Some(&principal.tenant)),
    }
}

fn from_table(error: &UsageError) -> Problem {
    match error {
        UsageError::TooMany { .. } => too_many(),
        UsageError::Unavailable(_) | UsageError::Malformed { .. } => unavailable("the usage table", error),
    }
}

fn too_many() -> Problem {
    let detail = "has too many lines for one response: name a `tenant`, or a later `from`";
    invalid_parameter("from", detail)
}

fn unavailable(part: &str, error: &(dyn Error + 'static)) -> Problem {
    tracing::error!(event_type = "usage.unavailable", error, "cannot read {part}: {error}");
    Problem::new(Reason::StoreUnavailable, format!("{part} cannot be read now"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_sees_itself_and_an_operator_sees_all() {
        let tenant = Principal::new("own", [Scope::MqRead]);
        assert_eq!(visible(&tenant, None), Ok(Some("own")));
        assert_eq!(visible(&tenant, Some("own")), Ok(Some("own")));
        assert_eq!(visible(&tenant, Some("other")).unwrap_err().reason, Reason::ScopeRequired);
        let operator = Principal::new("own", [Scope::OpsRead]);
        assert_eq!(visible(&operator, None), Ok(None));
        assert_eq!(visible(&operator, Some("other")), Ok(Some("other")));
        for wrong in ["a#b", ""] {
            let malformed = visible(&operator, Some(wrong)).unwrap_err();
            assert_eq!(
                (malformed.reason, &malformed.extensions["parameter"]),
                (Reason::InvalidParameter, &json!("tenant"))
            );
        }
    }

    #[test]
    fn an_answer_of_too_many_lines_says_what_to_do() {
        let problem = from_table(&UsageError::TooMany { most: 50_000 });
        assert_eq!(
            (problem.reason, &problem.extensions["parameter"]),
            (Reason::InvalidParameter, &json!("from"))
        );
        let malformed = UsageError::Malformed { pk: "STATE".to_owned(), sk: "reader".to_owned() };
        assert_eq!(from_table(&malformed).reason, Reason::StoreUnavailable);
    }
}
