//! Idempotency keys.

/// Keys that no other run used.
#[derive(Debug)]
pub(crate) struct Keys {
    run: i64,
    next: u64,
}

impl Keys {
    pub(crate) fn new() -> Self {
        Self { run: jiff::Timestamp::now().as_second() & 0xffff_ffff, next: 0 }
    }

    pub(crate) fn next(&mut self) -> String {
        self.next += 1;
        format!("{:08x}-0000-4000-8000-{:012x}", self.run, self.next)
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
    }
}
