//! Partition keys of idempotency records.

/// Returns the partition key of an idempotency record: `key_space` (the name of the operation),
/// `tenant` and `key`, separated by `#`. A `#` in the client's key is escaped.
#[must_use]
pub fn record_key(key_space: &str, tenant: &str, key: &str) -> String {
    let key = key.replace('%', "%25").replace('#', "%23");
    format!("{key_space}#{tenant}#{key}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_keys_have_one_record() {
        assert_eq!(record_key("INGEST", "t", "loja-12"), "INGEST#t#loja-12");
        assert_eq!(record_key("INGEST", "t", "a#b%23"), "INGEST#t#a%23b%2523");
    }
}
