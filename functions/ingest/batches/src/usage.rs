//! Usage of the ingest. The API's `GET /v1/usage` invokes this function for it, since the database
//! may be reachable from this one only.

use api::{Problem, Query, Reply, invalid_parameter};
use catalog::UsageDay;
use jiff::civil::Date;
use serde_json::json;
use uuid::Uuid;

use crate::{Batches, from_database};

/// Maximum number of days, counted over all tenants, in one usage response, which keeps it below
/// Lambda's limit of 6 MB.
const MOST: usize = 18_000;
const _: () = assert!(MOST * 345 < 6 * 1024 * 1024);

/// Query of another function for the usage of a range of days, the last of which is included.
/// `tenant` is `None` for all tenants.
#[derive(Debug, PartialEq, Eq)]
struct UsageQuery {
    from: Date,
    to: Date,
    tenant: Option<Uuid>,
    /// Last tenant of the previous response, if that response was cut off; this response continues
    /// after that tenant.
    after: Option<Uuid>,
}

impl Batches {
    /// Returns the usage of the days in the query, and whether the response has all of them.
    pub(crate) async fn usage(&self, query: &str) -> Result<Reply, Problem> {
        let UsageQuery { from, to, tenant, after } = parse(query)?;
        let most = u32::try_from(MOST + 1).unwrap_or(u32::MAX);
        let days = self.database.usage((from, to), tenant, after, most).await;
        Ok(answer(days.map_err(|error| from_database(&error))?))
    }
}

fn parse(query: &str) -> Result<UsageQuery, Problem> {
    let query = Query::parse(query, &["from", "to", "tenant", "after"])?;
    let day = |name: &str| query.parsed::<Date>(name)?.ok_or_else(|| invalid_parameter(name, "is missing"));
    let (tenant, after) = (query.parsed("tenant")?, query.parsed("after")?);
    Ok(UsageQuery { from: day("from")?, to: day("to")?, tenant, after })
}

fn answer(mut days: Vec<UsageDay>) -> Reply {
    let is_whole = days.len() <= MOST;
    days.truncate(MOST);
    Reply::json(200, &json!({"days": days, "isWhole": is_whole}))
}

#[cfg(test)]
mod tests {
    use catalog::UsageItems;
    use jiff::civil::date;
    use serde_json::Value;

    use super::*;

    const TENANT: Uuid = Uuid::from_u128(u128::MAX);

    #[test]
    fn another_function_asks_for_days_of_one_tenant_or_of_all() {
        let (from, to) = (date(2026, 11, 1), date(2026, 11, 30));
        let all = parse("from=2026-11-01&to=2026-11-30");
        assert_eq!(all, Ok(UsageQuery { from, to, tenant: None, after: None }));
        let one = parse(&format!("from=2026-11-01&to=2026-11-30&tenant={TENANT}"));
        assert_eq!(one, Ok(UsageQuery { from, to, tenant: Some(TENANT), after: None }));
        let rest = parse(&format!("from=2026-11-01&to=2026-11-30&after={TENANT}"));
        assert_eq!(rest, Ok(UsageQuery { from, to, tenant: None, after: Some(TENANT) }));
        assert!(
            parse("from=2026-11-01").is_err() && parse("from=2026-11-01&to=2026-11-30&tenant=a").is_err()
        );
    }

    #[test]
    fn an_answer_that_is_cut_off_says_so_and_fits_an_invocation() {
        let most = u64::MAX / 1000;
        let items = UsageItems { inserted: most, updated: most, unchanged: most, stale: most, failed: most };
        let day = date(2026, 11, 21);
        let line = UsageDay { tenant: TENANT, day, batches: most, bytes: most, items, stored_bytes: most };
        let of = |lines| -> Value {
            let reply = answer(vec![line.clone(); lines]);
            // The body is a text within the answer of the invocation.
            assert!(json!(reply.body).to_string().len() < 6 * 1024 * 1024);
            serde_json::from_str(&reply.body).unwrap()
        };
        let (whole, cut_off) = (of(MOST), of(MOST + 1));
        assert_eq!((whole["days"].as_array().unwrap().len(), &whole["isWhole"]), (MOST, &json!(true)));
        assert_eq!((cut_off["days"].as_array().unwrap().len(), &cut_off["isWhole"]), (MOST, &json!(false)));
        assert_eq!(
            whole["days"][0]["items"],
            json!({"inserted": most, "updated": most, "unchanged": most, "stale": most, "failed": most})
        );
        assert_eq!(
            (&whole["days"][0]["day"], &whole["days"][0]["tenant"]),
            (&json!("2026-11-21"), &json!(TENANT))
        );
        assert_eq!(whole["days"][0]["storedBytes"], most);
    }
}
