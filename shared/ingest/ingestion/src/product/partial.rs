//! Items that lack members which other items of the same payload have.
//!
//! An item replaces its whole product, so a member that the item lacks clears its column. The owner
//! of a source that sends some members only now and then might not notice. So the items that lack
//! members are counted.

use super::field::Field;
use crate::words::words;

words! {
    /// Policy for items that lack members which have a column. It is stored with the batch.
    #[derive(Default)]
    PartialPolicy {
        /// An item that lacks members is in error, so that it clears no column.
        Refuse = "refuse",
        /// An item that lacks members clears their columns. It is counted if other items of the
        /// payload have these members.
        #[default]
        Warn = "warn",
    }
}

/// Set of an item's members that have a column, whatever their values. Members of the key are left
/// out, since every item has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberSet(u32);

const _: () = assert!(Field::COUNT <= 32);

impl MemberSet {
    pub(super) const fn with(self, field: Field) -> Self {
        match field {
            Field::CNPJ | Field::SHOPID | Field::PRODUCTID => self,
            _ => Self(self.0 | 1 << field.place()),
        }
    }

    /// Returns the fields with a column that the set does not contain.
    pub(super) fn lacking(self) -> impl Iterator<Item = Field> {
        let complete = Field::ALL.iter().fold(Self::default(), |all, field| all.with(*field));
        let lacks = move |field: &Field| complete.0 & !self.0 & 1 << field.place() != 0;
        Field::ALL.iter().copied().filter(lacks)
    }

    const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Counter of the items that lack a member which another item of the payload has. It needs one pass
/// over the items.
///
/// The counter keeps the number of items that have every member seen so far. An item with a new
/// member sets that number to zero before it is counted, since all earlier items lack the member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartialItems {
    seen: MemberSet,
    items: u64,
    complete: u64,
}

impl PartialItems {
    /// Counts an item with these members.
    pub const fn add(&mut self, members: MemberSet) {
        let seen = self.seen.union(members);
        if seen.0 != self.seen.0 {
            self.seen = seen;
            self.complete = 0;
        }
        self.items = self.items.saturating_add(1);
        if members.0 == self.seen.0 {
            self.complete = self.complete.saturating_add(1);
        }
    }

    /// Returns the number of counted items that lack a member which another counted item has.
    #[must_use]
    pub const fn count(self) -> u64 {
        self.items.saturating_sub(self.complete)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn count(items: &[u32]) -> u64 {
        let mut partial = PartialItems::default();
        items.iter().for_each(|members| partial.add(MemberSet(*members)));
        partial.count()
    }

    #[test]
    fn items_with_the_same_members_are_whole_however_few_those_are() {
        assert_eq!(count(&[]), 0);
        assert_eq!(count(&[0, 0]), 0);
        assert_eq!(count(&[6, 6, 6]), 0);
    }

    #[test]
    fn the_members_of_the_key_do_not_count() {
        let keys = [Field::CNPJ, Field::SHOPID, Field::PRODUCTID];
        let set = keys.into_iter().fold(MemberSet::default(), MemberSet::with);
        assert_eq!(set, MemberSet::default());
        assert_ne!(set.with(Field::TITLE), set);
    }

    #[test]
    fn what_a_set_lacks_is_all_but_the_key_and_its_own() {
        assert_eq!(MemberSet::default().lacking().count(), Field::COUNT - 3);
        let set = MemberSet::default().with(Field::TITLE).with(Field::CNPJ);
        let lacking: Vec<Field> = set.lacking().collect();
        assert!(lacking.len() == Field::COUNT - 4 && !lacking.contains(&Field::TITLE));
        let all = Field::ALL.iter().fold(MemberSet::default(), |set, field| set.with(*field));
        assert_eq!(all.lacking().count(), 0);
    }

    #[test]
    fn a_policy_is_read_as_it_is_written() {
        for policy in [PartialPolicy::Refuse, PartialPolicy::Warn] {
            assert_eq!(policy.to_string().parse(), Ok(policy));
            assert_eq!(serde_json::to_value(policy).unwrap(), policy.as_str());
        }
        for other in ["", "Refuse", "warn ", "ignore"] {
            assert!(other.parse::<PartialPolicy>().is_err(), "{other}");
        }
    }

    proptest! {
        #[test]
        fn one_pass_counts_what_two_passes_would(items in prop::collection::vec(0_u32..16, 0..40)) {
            let all = items.iter().fold(0, |all, members| all | members);
            let lacking = items.iter().filter(|members| **members != all).count();
            prop_assert_eq!(count(&items), u64::try_from(lacking).unwrap());
        }
    }
}
