use std::collections::BTreeMap;

/// Priority queue of entries by time in seconds; entries of the same time keep their order of
/// insertion. Times must be finite and not negative, because they are compared by their bits.
#[derive(Debug)]
pub(crate) struct Timeline<T> {
    entries: BTreeMap<(u64, u64), T>,
    pushed: u64,
}

impl<T> Timeline<T> {
    pub(crate) fn push(&mut self, at: f64, what: T) {
        self.pushed += 1;
        self.entries.insert((at.to_bits(), self.pushed), what);
    }

    pub(crate) fn pop(&mut self) -> Option<(f64, T)> {
        self.entries.pop_first().map(|((at, _), what)| (f64::from_bits(at), what))
    }

    /// Returns the time of the earliest entry; `None` if there is no entry.
    pub(crate) fn first(&self) -> Option<f64> {
        self.entries.first_key_value().map(|((at, _), _)| f64::from_bits(*at))
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

impl<T> Default for Timeline<T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), pushed: 0 }
    }
}
