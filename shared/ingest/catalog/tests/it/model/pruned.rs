//! Property test with random histories whose beginning is deleted while they are played.
//!
//! When batches are deleted, the model forgets those that were received before the new start of the
//! period for which batches are retained. In their place it knows the products as they are then.
//! Every product counts as if a batch had contained it unchanged at that start.

use std::collections::BTreeSet;

use catalog::{ChunkingOutcome, Database, ReplayOutcome, ReplayRequest, WriteOutcome};
use ingestion::Viewer;
use ingestion::batch::{Replay, ReplayRefusal, ReplayScope};
use ingestion::chunk::Plan;
use ingestion::product::{BatchStamp, Version};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use uuid::Uuid;

use super::history::{Draft, History, Step, history};
use super::{Baseline, actual, cases, facts, table, take, winners};
use crate::support::{Load, TENANT, TestDatabase, at, database_test};

struct World<'a> {
    test: &'a TestDatabase,
    database: Database,
    loads: &'a [Load],
    drafts: &'a [Draft],
    prepared: BTreeSet<usize>,
    baseline: Baseline,
}

impl World<'_> {
    fn is_too_old(&self, batch: usize) -> bool {
        self.baseline.kept_since.is_some_and(|since| self.loads[batch].batch.metadata.received_at < since)
    }

    async fn check(&self) {
        let (done, decided) = facts(self.test).await;
        let winners = winners(&self.baseline, self.loads, self.drafts, &done, &decided);
        assert_eq!(actual(self.test).await, table(&winners));
    }

    /// Moves the start of the history of loads (the period for which batches are retained) to this
    /// second of the tests' time. If the second is even, also deletes the batches before it. Checks
    /// that neither changes the products.
    async fn prune(&mut self, second: i64) {
        self.check().await;
        let since = at(second).max(self.baseline.kept_since.unwrap_or(at(second)));
        let (done, decided) = facts(self.test).await;
        let mut winners = winners(&self.baseline, self.loads, self.drafts, &done, &decided);
        for (version, item, _) in winners.values_mut() {
            let confirmed = BatchStamp::new(since, Uuid::nil());
            *version = Version::new(item.updated_at.map(at), confirmed, 0).max(*version);
        }
        self.baseline = Baseline { kept_since: Some(since), winners };
        self.test.keep_since(second.max(since.as_second() - at(0).as_second())).await;
        // Half of the time, nothing of it is deleted yet: that makes no difference.
        if second % 2 == 0 {
            self.database.end_too_old(100).await.unwrap();
            self.test.prune().await;
            let left = format!(
                "SELECT count(*) FROM batches WHERE received_at < '{since}' AND status <> 'PROCESSING'"
            );
            assert_eq!(self.test.number(&left).await, 0);
        }
        self.check().await;
    }

    async fn take(&mut self, step: Step) {
        let batch = step.batch();
        if self.is_too_old(batch) {
            return self.refuse(step).await;
        }
        // A batch is cut when its first chunk is about to be delivered: between the chunks of
        // others.
        if self.prepared.insert(batch) {
            self.loads[batch].prepare(&self.database).await;
        }
        take(self.test, &self.database, self.loads, step).await;
    }

    /// Executes a step of a batch that was received before the start of the history of loads (the
    /// period for which batches are retained), and checks that the database does not execute it.
    async fn refuse(&mut self, step: Step) {
        let load = &self.loads[step.batch()];
        match step {
            Step::Deliver { chunk, .. } => {
                let written = self.database.write_chunk(&load.chunks[chunk]).await.unwrap();
                assert!(
                    matches!(
                        written,
                        WriteOutcome::TooOld | WriteOutcome::AlreadyDone { .. } | WriteOutcome::Superseded
                    ),
                    "{written:?}"
                );
            }
            // Its payload comes again.
            Step::GiveUp { .. } => {
                let begun = self.database.begin_chunking(&load.batch, Plan::default()).await.unwrap();
                assert!(matches!(begun, ChunkingOutcome::TooOld(_)), "{begun:?}");
            }
            Step::Replay { scope, .. } => {
                let request = ReplayRequest {
                    replay: Replay { scope, confirm_deactivation: false },
                    idempotency_key: Uuid::new_v4().to_string(),
                    requested_at: at(0),
                };
                let outcome =
                    self.database.replay(&Viewer::whole(TENANT), load.id(), &request).await.unwrap();
                let refused = matches!(
                    outcome,
                    ReplayOutcome::Unknown
                        | ReplayOutcome::Refused(ReplayRefusal::TooOld | ReplayRefusal::UnderWay(_))
                );
                assert!(refused, "{outcome:?}");
            }
        }
    }

    async fn everything(&mut self, scope: ReplayScope) {
        for batch in 0..self.loads.len() {
            let replay = (self.prepared.contains(&batch), self.is_too_old(batch));
            if replay == (true, false) {
                self.take(Step::Replay { batch, scope }).await;
            }
            for chunk in 0..self.loads[batch].chunks.len() {
                self.take(Step::Deliver { batch, chunk, late: false }).await;
            }
        }
    }
}

/// Generates pairs: index of the step after which the start of the history of loads (the retained
/// period) moves, and the second of the tests' time to which it moves.
fn cuts() -> impl Strategy<Value = Vec<(usize, i64)>> {
    prop::collection::vec((0_usize..30, 0_i64..60), 1..4)
}

#[test]
fn the_table_ends_as_the_model_says_though_the_history_is_deleted_in_between() {
    database_test(async |test| {
        tokio::task::block_in_place(|| {
            let runtime = tokio::runtime::Handle::current();
            let run = TestRunner::new(cases()).run(&(history(), cuts()), |(history, cuts)| {
                runtime.block_on(play(test, &history, &cuts));
                Ok(())
            });
            run.unwrap_or_else(|error| panic!("{error}"));
        });
    });
}

async fn play(test: &TestDatabase, history: &History, cuts: &[(usize, i64)]) {
    test.execute(
        "DELETE FROM products; DELETE FROM batches; UPDATE batch_history SET kept_since = '1970-01-01T00:00:00Z'",
    )
    .await;
    let loads: Vec<Load> = history.drafts.iter().map(Draft::load).collect();
    let mut world = World {
        test,
        database: test.open(),
        loads: &loads,
        drafts: &history.drafts,
        prepared: BTreeSet::new(),
        baseline: Baseline::default(),
    };
    for (place, step) in history.order().into_iter().enumerate() {
        world.take(step).await;
        for (_, second) in cuts.iter().filter(|(after, _)| *after == place) {
            world.prune(*second).await;
        }
    }
    world.check().await;
    // Whatever is still to be replayed brings nothing back that was overwritten or outlived.
    world.everything(ReplayScope::Failed).await;
    world.check().await;
    let rows =
        "SELECT COALESCE(sum(hashtext(xmin::text || ctid::text || p::text)), 0)::bigint FROM products p";
    let before = test.number(rows).await;
    world.everything(ReplayScope::All).await;
    assert_eq!(test.number(rows).await, before);
}
