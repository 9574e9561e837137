//! Recount: usage counters of past hours, computed from the idempotency records that still exist.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::contribution::{Contribution, Item, LineKey, contribution, updated_at};
use crate::counts::{Counts, Line};
use crate::hour::Hour;

/// Usage counters of some hours, computed by a scan of the idempotency table and independent of the
/// stream.
#[derive(Debug)]
pub struct Recount {
    from: Hour,
    end: Hour,
    settled_before: Timestamp,
    counted: BTreeMap<Hour, BTreeMap<LineKey, Counts>>,
    unsettled: BTreeSet<Hour>,
}

impl Recount {
    /// Starts a recount of the records that were created in the hours from `from` until before
    /// `end`. Hours with a record that was written at `settled_before` or later are excluded: the
    /// usage table may not have counted that write yet.
    #[must_use]
    pub fn new(from: Hour, end: Hour, settled_before: Timestamp) -> Self {
        Self { from, end, settled_before, counted: BTreeMap::new(), unsettled: BTreeSet::new() }
    }

    /// Adds an item of the idempotency table to the counters of its hour. Items that are no
    /// records, or records of other hours, change nothing.
    pub fn add(&mut self, item: &Item) {
        let Some(Contribution { line, counts, .. }) = contribution(item) else { return };
        let hour = line.hour;
        if hour < self.from || self.end <= hour {
            return;
        }
        if updated_at(item).is_none_or(|updated_at| self.settled_before <= updated_at) {
            self.unsettled.insert(hour);
        } else if !counts.is_zero() {
            self.counted.entry(hour).or_default().entry(line).or_default().add(&counts);
        }
    }

    /// Returns the usage lines of an hour; empty if the recount found no usage in it. `None` if the
    /// recount does not cover the hour, or excludes it because a record was written at
    /// `settled_before` or later.
    #[must_use]
    pub fn lines(&self, hour: Hour) -> Option<Vec<Line>> {
        if hour < self.from || self.end <= hour || self.unsettled.contains(&hour) {
            return None;
        }
        let line = |(key, counts): (&LineKey, &Counts)| Line {
            tenant: key.tenant.clone(),
            day: hour.day(),
            operation: key.operation.clone(),
            key_name: key.key_name.clone(),
            counts: *counts,
        };
        Some(self.counted.get(&hour).into_iter().flatten().map(line).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contribution::tests::image;

    #[test]
    fn an_hour_is_the_sum_of_its_records_unless_one_is_too_new() {
        let hour = |text: &str| text.parse::<Hour>().unwrap();
        let settled = "2026-11-27T04:30:00Z".parse().unwrap();
        let mut recount = Recount::new(hour("2026-11-27T02"), hour("2026-11-27T04"), settled);
        let volume = [("messages", 2), ("bytes", 10)];
        for created_at in ["2026-11-27T02:00:00.000Z", "2026-11-27T02:59:00.000Z", "2026-11-27T04:00:00.000Z"]
        {
            recount.add(&image("COMPLETED", created_at, &volume));
        }
        let lines = recount.lines(hour("2026-11-27T02")).unwrap();
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].counts, Counts { requests: 2, messages: 4, bytes: 20, ..Counts::default() });
        assert_eq!(recount.lines(hour("2026-11-27T03")), Some(Vec::new()));
        assert_eq!(recount.lines(hour("2026-11-27T04")), None, "it is not one of the hours");

        let mut late = image("COMPLETED", "2026-11-27T03:10:00.000Z", &volume);
        let written = "2026-11-27T04:30:00.000Z".to_owned();
        late.insert("updatedAt".to_owned(), aws_sdk_dynamodb::types::AttributeValue::S(written));
        recount.add(&late);
        assert_eq!(recount.lines(hour("2026-11-27T03")), None, "its change may not be counted yet");
        assert!(recount.lines(hour("2026-11-27T02")).is_some());
    }
}
