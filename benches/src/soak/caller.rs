//! A caller of the stack, well-behaved or hostile.

use tokio::sync::watch;

use super::tally::{Phase, Tally};
use crate::http_client::Http;
use crate::keys::Keys;

#[derive(Debug)]
pub(super) struct Caller {
    pub(super) http: Http,
    pub(super) tally: Tally,
    pub(super) phase: watch::Receiver<Phase>,
    pub(super) running: watch::Receiver<bool>,
    /// Tells this caller from the others.
    pub(super) number: usize,
    pub(super) keys: Keys,
}
