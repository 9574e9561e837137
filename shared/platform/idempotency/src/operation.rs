//! Operation types: the kinds of work that have idempotency keys, such as `PRODUCE`. The programs
//! that do the work define them.

use std::fmt;

use api::idempotency_key::record_key;

/// Type of work, such as `PRODUCE`. Each idempotency record stores the name of its type. The
/// record's partition key begins with the type's key space, so equal idempotency keys in different
/// key spaces do not collide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationType {
    name: &'static str,
    /// Name of the key space, with which the record's partition key begins.
    key_space: &'static str,
    has_keys_per_target: bool,
}

impl OperationType {
    /// Creates a type of work with its own key space. The name has 1 to 32 upper-case letters and
    /// underscores; a constant with another name does not compile.
    #[must_use]
    pub const fn named(name: &'static str) -> Self {
        assert!(
            is_name(name.as_bytes()),
            "an operation's name has 1 to 32 upper-case letters and underscores"
        );
        Self { name, key_space: name, has_keys_per_target: false }
    }

    /// Shares the key space of another operation type: a key that was used for either type counts
    /// as used for both.
    #[must_use]
    pub const fn with_keys_of(self, other: Self) -> Self {
        Self { key_space: other.key_space, ..self }
    }

    /// Makes the target a part of the record's key, so that the same key can be used once for each
    /// target, as by several handlers of one event.
    #[must_use]
    pub const fn per_target(self) -> Self {
        Self { has_keys_per_target: true, ..self }
    }

    /// Returns the name of the operation type.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.name
    }

    /// Returns the partition key of a record of this operation type. It contains `target` only if
    /// the type has keys per target.
    pub(crate) fn pk(self, tenant: &str, key: &str, target: &str) -> String {
        let pk = record_key(self.key_space, tenant, key);
        if self.has_keys_per_target { format!("{pk}#{target}") } else { pk }
    }
}

impl fmt::Display for OperationType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// True if `name` is allowed for an operation type: 1 to 32 upper-case letters and underscores. A
/// `#` is not allowed, because it separates the parts of a partition key.
const fn is_name(mut name: &[u8]) -> bool {
    if name.len() > 32 {
        return false;
    }
    let mut is_empty = true;
    while let [first, rest @ ..] = name {
        if !matches!(first, b'A'..=b'Z' | b'_') {
            return false;
        }
        is_empty = false;
        name = rest;
    }
    !is_empty
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "5c1e0a56-4a58-4aaf-9359-83ec8f663f10";
    const INGEST: OperationType = OperationType::named("INGEST");
    const UPLOAD: OperationType = OperationType::named("UPLOAD").with_keys_of(INGEST);
    const EVENT: OperationType = OperationType::named("EVENT").per_target();

    #[test]
    fn keys_meet_only_where_they_name_the_same_thing() {
        let pk = |operation: OperationType| operation.pk("t", KEY, "handler");
        assert_eq!(pk(OperationType::named("PRODUCE")), format!("PRODUCE#t#{KEY}"));
        assert_eq!(pk(INGEST), format!("INGEST#t#{KEY}"));
        assert_eq!(pk(UPLOAD), pk(INGEST));
        assert_eq!(pk(EVENT), format!("EVENT#t#{KEY}#handler"));
        assert_eq!(
            EVENT.pk("t", "a#b%23", "c"),
            "EVENT#t#a%23b%2523#c",
            "no other key and target are the same"
        );
        assert_eq!((UPLOAD.as_str(), EVENT.to_string().as_str()), ("UPLOAD", "EVENT"));
    }

    #[test]
    fn a_name_cannot_be_taken_for_several_parts_of_a_key() {
        let longest = "A".repeat(32);
        for name in ["A", "PRODUCE", "TWO_WORDS", &longest] {
            assert!(is_name(name.as_bytes()), "{name}");
        }
        let too_long = "A".repeat(33);
        for name in ["", "a", "A#B", "A1", "A B", "É", &too_long] {
            assert!(!is_name(name.as_bytes()), "{name}");
        }
    }
}
