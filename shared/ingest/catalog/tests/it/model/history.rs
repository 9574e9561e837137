//! Random histories for the property tests: batches, and the deliveries, failures and replays of
//! their chunks.

use ingestion::batch::ReplayScope;
use ingestion::payload::LoadType;
use proptest::prelude::*;

use crate::support::{Item, Load};

pub(super) const KEYS: u32 = 6;

/// Randomly generated batch of a [`History`], from which the test makes a load.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) load_type: LoadType,
    pub(super) received_at: i64,
    pub(super) chunks: Vec<Vec<Item>>,
    pub(super) readable_errors: Vec<u32>,
    pub(super) unreadable: bool,
}

#[derive(Clone, Debug)]
pub(super) struct History {
    pub(super) drafts: Vec<Draft>,
    /// Steps in order, as they were generated. Some chunks have several deliveries here, others
    /// have none.
    steps: Vec<Step>,
    /// True if, after `steps`, each chunk of the history is delivered once more.
    pub(super) complete: bool,
}

/// Step of a [`History`], which happens to one batch. As generated, its indices may exceed the
/// batches and chunks; [`History::order`] maps them to existing ones.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Delivery of a chunk's message. The message has the chunk's present generation, or if `late`,
    /// the first one, from before all replays.
    Deliver {
        batch: usize,
        chunk: usize,
        late: bool,
    },
    /// End of a chunk's attempts, as if its message had been received too often.
    GiveUp {
        batch: usize,
        chunk: usize,
    },
    Replay {
        batch: usize,
        scope: ReplayScope,
    },
}

impl Step {
    pub(super) const fn batch(self) -> usize {
        let (Self::Deliver { batch, .. } | Self::GiveUp { batch, .. } | Self::Replay { batch, .. }) = self;
        batch
    }
}

fn step() -> impl Strategy<Value = Step> {
    let scope = prop_oneof![Just(ReplayScope::Failed), Just(ReplayScope::All)];
    let (batch, chunk) = (0_usize..7, 0_usize..4);
    prop_oneof![
        12 => (batch.clone(), chunk.clone(), prop::bool::weighted(0.2))
            .prop_map(|(batch, chunk, late)| Step::Deliver { batch, chunk, late }),
        2 => (batch.clone(), chunk).prop_map(|(batch, chunk)| Step::GiveUp { batch, chunk }),
        3 => (batch, scope).prop_map(|(batch, scope)| Step::Replay { batch, scope }),
    ]
}

fn item() -> impl Strategy<Value = Item> {
    // Few of everything, so that most things meet; times before, between and after those of the
    // receipts.
    (0..KEYS, 0_u32..3, prop::option::weighted(0.6, 0_i64..13)).prop_map(|(key, content, half)| Item {
        key,
        content,
        updated_at: half.map(|half| half * 5),
    })
}

fn draft() -> impl Strategy<Value = Draft> {
    let chunks = prop::collection::vec(prop::collection::vec(item(), 1..5), 0..4);
    let errors = prop::collection::vec(0..KEYS, 0..2);
    (any::<bool>(), 0_i64..6, chunks, errors, prop::bool::weighted(0.1)).prop_map(
        |(full, received, chunks, readable_errors, unreadable)| Draft {
            load_type: if full { LoadType::Full } else { LoadType::Delta },
            // Some are received at the same time.
            received_at: received * 10,
            chunks,
            readable_errors,
            unreadable,
        },
    )
}

pub(super) fn history() -> impl Strategy<Value = History> {
    let drafts = prop::collection::vec(draft(), 1..7);
    let steps = prop::collection::vec(step(), 0..40);
    (drafts, steps, prop::bool::weighted(0.8)).prop_map(|(drafts, steps, complete)| History {
        drafts,
        steps,
        complete,
    })
}

impl Draft {
    pub(super) fn load(&self) -> Load {
        let mut load = Load::new(self.load_type, self.received_at);
        for chunk in &self.chunks {
            load = load.items(chunk);
        }
        for key in &self.readable_errors {
            load = load.error(Some(*key));
        }
        if self.unreadable { load.error(None) } else { load }
    }
}

impl History {
    /// Returns the steps in order, with indices of existing batches and chunks. Leaves out the
    /// steps of batches without chunks. If the history is `complete`, a delivery of every chunk
    /// follows.
    pub(super) fn order(&self) -> Vec<Step> {
        let drawn = self.steps.iter().filter_map(|step| {
            let place = step.batch() % self.drafts.len();
            let chunks = self.drafts[place].chunks.len();
            (chunks > 0).then(|| match *step {
                Step::Deliver { chunk, late, .. } => {
                    Step::Deliver { batch: place, chunk: chunk % chunks, late }
                }
                Step::GiveUp { chunk, .. } => Step::GiveUp { batch: place, chunk: chunk % chunks },
                Step::Replay { scope, .. } => Step::Replay { batch: place, scope },
            })
        });
        let all = self.drafts.iter().enumerate().flat_map(|(batch, draft)| {
            (0..draft.chunks.len()).map(move |chunk| Step::Deliver { batch, chunk, late: false })
        });
        if self.complete { drawn.chain(all).collect() } else { drawn.collect() }
    }
}
