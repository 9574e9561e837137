//! DynamoDB table of the usage counters. Its items have a partition key `pk` and a sort key `sk`,
//! and its TTL attribute is `ttl`.

use std::collections::HashMap;
use std::fmt::Display;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::future::try_join_all;
use jiff::Timestamp;
use jiff::civil::Date;

use crate::chunk::Delta;
use crate::contribution::Item;
use crate::counts::{Counts, Line, Total};
use crate::coverage::{Coverage, Gap, MeteringState};
use crate::error::UsageError;
use crate::hour::Hour;
use crate::key::{self, Key};

mod correction;
mod notes;
mod positions;
mod tests_ended;
mod update;

pub use positions::{PositionUpdate, ShardPosition};
pub use tests_ended::EndedTest;

use update::addition;

/// Maximum number of usage lines that one call returns.
pub const MOST_LINES: usize = 50_000;
/// Number of days whose usage lines are read concurrently if the caller asks for one tenant.
const DAYS_AT_ONCE: usize = 16;
/// Number of days whose usage lines are read concurrently if the caller asks for all tenants. A day
/// may have thousands of lines, and the function's memory is small.
const DAYS_OF_ALL_AT_ONCE: usize = 4;

/// Client of the DynamoDB table with the usage counters.
#[derive(Clone, Debug)]
pub struct UsageTable {
    dynamodb: Client,
    table: String,
}

impl UsageTable {
    /// Creates a client of the DynamoDB table with this name.
    #[must_use]
    pub const fn new(dynamodb: Client, table: String) -> Self {
        Self { dynamodb, table }
    }

    /// Returns the usage lines of the days from `from` to `to`, both included, ordered by day. They
    /// are of one tenant, or of all tenants if `tenant` is `None`.
    ///
    /// # Errors
    /// [`UsageError::TooMany`] if there are more than [`MOST_LINES`] lines. Other errors if the
    /// table is unavailable or an item is malformed.
    pub async fn days(&self, from: Date, to: Date, tenant: Option<&str>) -> Result<Vec<Line>, UsageError> {
        let at_once = if tenant.is_some() { DAYS_AT_ONCE } else { DAYS_OF_ALL_AT_ONCE };
        let mut lines = Vec::new();
        let mut next = Some(from);
        while next.is_some_and(|day| day <= to) {
            let mut days = Vec::new();
            while let Some(day) = next.filter(|day| *day <= to && days.len() < at_once) {
                days.push(day);
                next = day.tomorrow().ok();
            }
            for day in try_join_all(days.into_iter().map(|day| self.day(day, tenant))).await? {
                lines.extend(day);
            }
            if lines.len() > MOST_LINES {
                return Err(UsageError::TooMany { most: MOST_LINES });
            }
        }
        Ok(lines)
    }

    async fn day(&self, day: Date, tenant: Option<&str>) -> Result<Vec<Line>, UsageError> {
        let pk = key::day_pk(day);
        let prefix = tenant.map(key::tenant_prefix);
        self.query(&pk, prefix.as_deref(), false).await?.iter().map(|item| line(&pk, day, item)).collect()
    }

    /// Reads the usage lines of all tenants on a day page by page, and calls `take` with those of
    /// each page. Their number is not limited.
    ///
    /// # Errors
    /// If the table is unavailable, or if an item is malformed.
    pub async fn each_of_day(&self, day: Date, mut take: impl FnMut(Vec<Line>)) -> Result<(), UsageError> {
        let pk = key::day_pk(day);
        let mut pages = self.asked(&pk, None, false).into_paginator().send();
        while let Some(page) = pages.next().await {
            let items = page.map_err(UsageError::unavailable)?.items.unwrap_or_default();
            let lines: Result<Vec<Line>, UsageError> =
                items.iter().map(|item| line(&pk, day, item)).collect();
            take(lines?);
        }
        Ok(())
    }

    /// Returns the usage lines of an hour for all tenants. The table keeps them for 4 days. Their
    /// approximate counters (replays and refusals) are 0.
    ///
    /// # Errors
    /// [`UsageError::TooMany`] if there are more than [`MOST_LINES`] lines. Other errors if the
    /// table is unavailable or an item is malformed.
    pub async fn hour(&self, hour: Hour) -> Result<Vec<Line>, UsageError> {
        let pk = key::hour_pk(hour);
        let items = self.query(&pk, None, true).await?;
        items.iter().map(|item| line(&pk, hour.day(), item)).collect()
    }

    /// Returns the totals of all operations and targets since the installation.
    ///
    /// # Errors
    /// If the table is unavailable, or if an item is malformed.
    pub async fn totals(&self) -> Result<Vec<Total>, UsageError> {
        let items = self.query(key::TOTAL, None, false).await?;
        let total = |item: &Item| -> Result<Total, UsageError> {
            let sk = sort_key(item);
            let (operation, target) = sk.split_once('#').ok_or_else(|| malformed(key::TOTAL, sk))?;
            let (operation, target) = (operation.to_owned(), target.to_owned());
            Ok(Total { operation, target, counts: counts(item) })
        };
        items.iter().map(total).collect()
    }

    /// Returns the period for which usage is counted, with the gaps in it.
    ///
    /// # Errors
    /// If the table is unavailable, or if an item is malformed.
    pub async fn coverage(&self) -> Result<Coverage, UsageError> {
        let (state, gaps) = tokio::try_join!(self.state(), self.gaps())?;
        let MeteringState { read_until, counted_from, .. } = state;
        Ok(Coverage { counted_from, read_until, gaps })
    }

    /// Returns all recorded gaps (periods in which changes may have been lost), ordered by their
    /// beginning.
    ///
    /// # Errors
    /// If the table is unavailable, or if an item is malformed.
    pub async fn gaps(&self) -> Result<Vec<Gap>, UsageError> {
        let gap = |item: &Item| -> Result<Gap, UsageError> {
            let sk = sort_key(item);
            let until = text(item, "until").and_then(|until| until.parse().ok());
            sk.parse()
                .ok()
                .zip(until)
                .map(|(from, until)| Gap { from, until })
                .ok_or_else(|| malformed(key::GAP, sk))
        };
        self.query(key::GAP, None, true).await?.iter().map(gap).collect()
    }

    /// Adds usage lines to the counters of a day. A repeated call adds them again, so only
    /// approximate counters are added in this way.
    ///
    /// # Errors
    /// If the table is unavailable. Some of the lines may have been added.
    pub async fn add_approximate(&self, day: Date, lines: &[Line]) -> Result<(), UsageError> {
        for line in lines.iter().filter(|line| !line.counts.is_zero()) {
            let key = Key::of_day(day, &line.tenant, &line.operation, &line.key_name);
            self.add(addition(&key, Delta::adding(&line.counts))).await?;
        }
        Ok(())
    }

    /// Reads all items with the partition key `pk`, or those whose sort key begins with `prefix`,
    /// with strong consistency if `is_consistent`. Fails if there are more than [`MOST_LINES`].
    async fn query(
        &self,
        pk: &str,
        prefix: Option<&str>,
        is_consistent: bool,
    ) -> Result<Vec<Item>, UsageError> {
        let mut pages = self.asked(pk, prefix, is_consistent).into_paginator().send();
        let mut items = Vec::new();
        while let Some(page) = pages.next().await {
            items.extend(page.map_err(UsageError::unavailable)?.items.unwrap_or_default());
            if items.len() > MOST_LINES {
                return Err(UsageError::TooMany { most: MOST_LINES });
            }
        }
        Ok(items)
    }

    /// Builds the query for all items with the partition key `pk`, or for those whose sort key
    /// begins with `prefix`, with strong consistency if `is_consistent`.
    fn asked(&self, pk: &str, prefix: Option<&str>, is_consistent: bool) -> QueryFluentBuilder {
        let condition = match prefix {
            Some(_) => "pk = :pk AND begins_with(sk, :prefix)",
            None => "pk = :pk",
        };
        let query = self
            .dynamodb
            .query()
            .table_name(&self.table)
            .key_condition_expression(condition)
            .consistent_read(is_consistent)
            .expression_attribute_values(":pk", string(pk));
        match prefix {
            Some(prefix) => query.expression_attribute_values(":prefix", string(prefix)),
            None => query,
        }
    }
}

/// Parses the item of a usage line of this day. `pk` is the item's partition key, for the error.
fn line(pk: &str, day: Date, item: &Item) -> Result<Line, UsageError> {
    let sk = sort_key(item);
    let line = key::read_line(sk, day).ok_or_else(|| malformed(pk, sk))?;
    Ok(Line { counts: counts(item), ..line })
}

/// Reads the usage counters of an item. A missing or negative counter is 0. A counter is negative
/// if an hour's item expired before the last change of the hour's requests.
fn counts(item: &Item) -> Counts {
    let number = |name: &str| item.get(name).and_then(|value| value.as_n().ok()).and_then(|n| n.parse().ok());
    Counts::of(Counts::NAMES.map(|name| number(name).unwrap_or_default()))
}

fn sort_key(item: &Item) -> &str {
    text(item, "sk").unwrap_or_default()
}

fn text<'a>(item: &'a Item, name: &str) -> Option<&'a str> {
    item.get(name)?.as_s().ok().map(String::as_str)
}

fn malformed(pk: &str, sk: &str) -> UsageError {
    UsageError::Malformed { pk: pk.to_owned(), sk: sk.to_owned() }
}

fn string(value: impl Display) -> AttributeValue {
    AttributeValue::S(value.to_string())
}

fn number(value: impl Display) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// Formats a time as ISO 8601, always with milliseconds, so that times are ordered like their
/// texts.
fn iso(time: Timestamp) -> AttributeValue {
    AttributeValue::S(format!("{time:.3}"))
}

/// Builds the primary key of an item.
fn key_of(pk: &str, sk: &str) -> HashMap<String, AttributeValue> {
    HashMap::from([("pk".to_owned(), string(pk)), ("sk".to_owned(), string(sk))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_without_the_counters_that_are_missing_or_below_zero() {
        let mut item = key_of("DAY#2026-11-27", "acme#produce#till 1");
        item.insert("requests".to_owned(), number(7));
        item.insert("failed".to_owned(), number(-1));
        let day = "2026-11-27".parse().unwrap();
        let read = line("DAY#2026-11-27", day, &item).unwrap();
        assert_eq!(read.counts, Counts { requests: 7, ..Counts::default() });
        assert_eq!((read.tenant.as_str(), read.operation.as_str()), ("acme", "produce"));
        let error = line("DAY#2026-11-27", day, &key_of("DAY#2026-11-27", "acme")).unwrap_err();
        assert!(matches!(error, UsageError::Malformed { .. }), "{error}");
    }

    #[tokio::test]
    async fn days_in_the_wrong_order_are_none() {
        // Nothing listens there.
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version_latest()
            .endpoint_url("http://127.0.0.1:1")
            .build();
        let table = UsageTable::new(Client::from_conf(config), "usage".to_owned());
        let (from, to) = ("2026-11-27".parse().unwrap(), "2026-11-26".parse().unwrap());
        assert!(table.days(from, to, None).await.unwrap().is_empty());
    }
}
