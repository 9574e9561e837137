//! Lookup of an item's member by its name, in upper or lower case, among those with a column.

pub(super) use super::attributes::Field;

/// Number of slots of the hash table of members' names. Most stay empty, so that a search ends
/// after a step or two.
const SLOTS: usize = 64;
const _: () = assert!(Field::COUNT < SLOTS / 2);

/// Hash table of members' names: each field in the first free slot from [`slot`] on.
#[allow(clippy::indexing_slicing, reason = "an index out of range would not compile")]
static TABLE: [Option<Field>; SLOTS] = {
    let mut table = [None; SLOTS];
    let mut fields = Field::ALL;
    while let [field, rest @ ..] = fields {
        let mut at = match slot(field.name()) {
            Some(at) => at,
            None => 0,
        };
        while table[at].is_some() {
            at = (at + 1) % SLOTS;
        }
        table[at] = Some(*field);
        fields = rest;
    }
    table
};

/// Returns the slot at which the search for a member's name begins, by its length and its first and
/// last letter in any case; `None` for a name of fewer than two letters. The factors are chosen so
/// that today's names have different slots.
const fn slot(name: &str) -> Option<usize> {
    let [first, .., last] = name.as_bytes() else { return None };
    let (first, last) = (first.to_ascii_uppercase() as usize, last.to_ascii_uppercase() as usize);
    Some((8 * name.len() + 18 * first + last) % SLOTS)
}

impl Field {
    /// Number of members that have a column.
    pub(super) const COUNT: usize = Self::ALL.len();

    /// Returns the field's index in [`Self::ALL`].
    pub(super) const fn place(self) -> usize {
        self as usize
    }

    /// Finds the field with this name in any case: the source writes `PRICEPROMO`, other senders
    /// `pricepromo` or `pricePromo`.
    pub(super) fn of(name: &str) -> Option<Self> {
        let mut at = slot(name)?;
        loop {
            let field = TABLE.get(at).copied().flatten()?;
            let known = field.name();
            if name == known || name.eq_ignore_ascii_case(known) {
                return Some(field);
            }
            at = (at + 1) % SLOTS;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_field_has_a_place_and_is_found_by_its_name_in_any_case() {
        for (place, field) in Field::ALL.iter().enumerate() {
            assert_eq!(field.place(), place);
            let name = field.name();
            let mixed: String = name[..1].to_lowercase() + &name[1..];
            for name in [name, &name.to_lowercase(), &mixed] {
                assert_eq!(Field::of(name), Some(*field), "{name}");
            }
        }
    }

    proptest! {
        #[test]
        fn other_names_have_no_field(
            field in prop::sample::select(Field::ALL),
            place in any::<prop::sample::Index>(),
            letter in "[A-Za-z \u{131}\u{17f}\u{212a}]?",
        ) {
            let name = field.name();
            let place = place.index(name.len());
            let changed = format!("{}{letter}{}", &name[..place], &name[place + 1..]);
            let expected = Field::ALL.iter().copied().find(|field| field.name().eq_ignore_ascii_case(&changed));
            prop_assert_eq!(Field::of(&changed), expected);
        }
    }
}
