//! Idempotency keys.

/// Keys that no other run used.
#[derive(Debug)]
pub(crate) struct Keys {
    run: i64,
    of: usize,
    next: u64,
}

impl Keys {
    pub(crate) fn new() -> Self {
        Self::of(0)
    }

    /// Returns the keys of one of several callers in a run.
    pub(crate) fn of(caller: usize) -> Self {
        Self { run: jiff::Timestamp::now().as_second() & 0xffff_ffff, of: caller & 0xffff, next: 0 }
    }

    pub(crate) fn next(&mut self) -> String {
        self.next += 1;
        format!("{:08x}-{:04x}-4000-8000-{:012x}", self.run, self.of, self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_different_and_of_one_length() {
        let mut keys = Keys::new();
        let (one, other) = (keys.next(), keys.next());
        assert!(one != other && one.len() == 36 && other.len() == 36);
        assert_ne!(Keys::of(1).next(), Keys::of(2).next());
    }
}
