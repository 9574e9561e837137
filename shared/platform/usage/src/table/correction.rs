//! Corrections: usage that a recount of an hour found is added to counters that lack it.

use std::collections::HashMap;

use super::update::addition;
use super::{UsageTable, counts, key_of, malformed, number, sort_key};
use crate::chunk::Delta;
use crate::contribution::{Item, LineKey};
use crate::counts::{Counts, Line};
use crate::error::UsageError;
use crate::hour::Hour;
use crate::key::{self, Key};

impl UsageTable {
    /// Adds the usage that the recount of an hour (`recounted`) found but the hour's counters lack.
    /// Adds it to the counters of the hour and of its day, and to the operation's totals without a
    /// target, and if `publishes`, to the corrections that are still to be published. Returns the
    /// usage that was added. A line whose counters change at the same time is skipped; a later
    /// recount corrects it.
    ///
    /// If a recount finds less than the counters, nothing changes, because records expire earlier
    /// than counters.
    ///
    /// # Errors
    /// If the table is unavailable, or if an item is malformed. Some of the lines may be corrected;
    /// a later recount corrects the others.
    pub async fn correct(
        &self,
        hour: Hour,
        recounted: &[Line],
        publishes: bool,
    ) -> Result<Vec<Line>, UsageError> {
        let counted = self.hour(hour).await?;
        let mut added = Vec::new();
        for (seen, missing) in missing(&counted, recounted) {
            let line = key_of_line(hour, &missing);
            let delta = Delta::adding(&missing.counts);
            let mut of_hour = addition(&Key::hour(&line), delta);
            let condition = unchanged(&seen, &mut of_hour.names, &mut of_hour.values);
            let mut writes = vec![
                of_hour.write(&self.table, Some(condition))?,
                addition(&Key::day(&line), delta).write(&self.table, None)?,
                addition(&Key::total(&line.operation, ""), delta).write(&self.table, None)?,
            ];
            if publishes {
                writes.push(addition(&Key::correction(&line), delta).write(&self.table, None)?);
            }
            if self.transact(writes).await? {
                added.push(missing);
            }
        }
        Ok(added)
    }

    /// Returns the corrections that are still to be published, ordered by their hours.
    ///
    /// # Errors
    /// If the table is unavailable, or if an item is malformed.
    pub async fn corrections(&self) -> Result<Vec<(Hour, Line)>, UsageError> {
        let correction = |item: &Item| {
            let (hour, line) = sort_key(item).split_once('#')?;
            let hour: Hour = hour.parse().ok()?;
            Some((hour, Line { counts: counts(item), ..key::read_line(line, hour.day())? }))
        };
        let items = self.query(key::CORRECTION, None, true).await?;
        let read = |item| correction(item).ok_or_else(|| malformed(key::CORRECTION, sort_key(item)));
        items.iter().map(read).collect()
    }

    /// Removes corrections of an hour that were published.
    ///
    /// # Errors
    /// If the table is unavailable. Some of the corrections may be removed.
    pub async fn corrections_published(&self, hour: Hour, lines: &[Line]) -> Result<(), UsageError> {
        for line in lines {
            let Key { pk, sk, .. } = Key::correction(&key_of_line(hour, line));
            let delete = self.dynamodb.delete_item().table_name(&self.table);
            let deleted = delete.set_key(Some(key_of(&pk, &sk))).send().await;
            deleted.map_err(UsageError::unavailable)?;
        }
        Ok(())
    }
}

fn key_of_line(hour: Hour, line: &Line) -> LineKey {
    let Line { tenant, operation, key_name, .. } = line.clone();
    LineKey { tenant, hour, operation, key_name }
}

/// Compares the usage lines of an hour with those of a recount. Returns each line of which the
/// counters lack usage: its present counters, and the line with the usage to add.
fn missing(counted: &[Line], recounted: &[Line]) -> Vec<(Counts, Line)> {
    let id = |line: &Line| (line.tenant.clone(), line.operation.clone(), line.key_name.clone());
    let counted: HashMap<_, _> = counted.iter().map(|line| (id(line), line.counts)).collect();
    let missing = |line: &Line| {
        let seen = counted.get(&id(line)).copied().unwrap_or_default();
        let counts = line.counts.beyond(&seen);
        (!counts.is_zero()).then(|| (seen, Line { counts, ..line.clone() }))
    };
    recounted.iter().filter_map(missing).collect()
}

/// Builds the write condition that a line's counters have not changed since they were read as
/// `seen`. Adds the condition's placeholders to `names` and `values`.
fn unchanged(
    seen: &Counts,
    names: &mut HashMap<String, String>,
    values: &mut HashMap<String, aws_sdk_dynamodb::types::AttributeValue>,
) -> String {
    // A record contributes to these four.
    let counters = Counts::NAMES.into_iter().zip(seen.values()).take(4);
    let conditions = counters.map(|(name, seen)| {
        names.insert(format!("#{name}"), name.to_owned());
        values.insert(format!(":seen_{name}"), number(seen));
        match seen {
            0 => format!("(attribute_not_exists(#{name}) OR #{name} <= :seen_{name})"),
            _ => format!("#{name} = :seen_{name}"),
        }
    });
    conditions.collect::<Vec<_>>().join(" AND ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(key_name: &str, requests: u64, messages: u64) -> Line {
        Line {
            tenant: "acme".to_owned(),
            day: "2026-11-27".parse().unwrap(),
            operation: "produce".to_owned(),
            key_name: key_name.to_owned(),
            counts: Counts { requests, messages, ..Counts::default() },
        }
    }

    #[test]
    fn a_correction_adds_what_is_missing_and_takes_nothing_away() {
        let counted = [line("a", 5, 10), line("b", 5, 10), line("c", 1, 1)];
        let recounted = [line("a", 5, 10), line("b", 4, 12), line("d", 1, 2)];
        let expected = [(counted[1].counts, line("b", 0, 2)), (Counts::default(), line("d", 1, 2))];
        assert_eq!(missing(&counted, &recounted), expected);
    }

    #[test]
    fn a_correction_is_for_the_counters_that_were_seen() {
        let (mut names, mut values) = (HashMap::new(), HashMap::new());
        let condition = unchanged(&line("a", 5, 0).counts, &mut names, &mut values);
        let expected = "#requests = :seen_requests AND \
                        (attribute_not_exists(#failed) OR #failed <= :seen_failed) AND \
                        (attribute_not_exists(#messages) OR #messages <= :seen_messages) AND \
                        (attribute_not_exists(#bytes) OR #bytes <= :seen_bytes)";
        assert_eq!(condition, expected);
        assert_eq!((names.len(), values.len()), (4, 4));
        assert_eq!(values[":seen_requests"], number(5));
    }
}
