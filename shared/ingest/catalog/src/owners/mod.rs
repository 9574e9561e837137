//! Owners of establishments.
//!
//! An establishment belongs to one tenant or to none. Chunks and full loads of other tenants do not
//! change its products. Every change of an owner is made under the establishment's lock, as every
//! write of its products is. So the owner that a chunk's transaction reads stays the owner until
//! the transaction commits.

mod change;
mod list;

pub use change::{ChangedOwners, OwnerChange, OwnerRequest, RefusedOwner};
pub use list::{OwnedEstablishment, OwnerFilter};

use std::str::FromStr;

/// Rule for loading products of an establishment that has no owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OwnerRule {
    /// The products are refused, because only an administrator assigns establishments to tenants
    /// (`entry`).
    #[default]
    Entry,
    /// The first tenant that loads products of the establishment becomes its owner (`first`).
    First,
}

/// Error for a text that is not the name of an [`OwnerRule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is neither `entry` nor `first`")]
pub struct OwnerRuleError;

impl FromStr for OwnerRule {
    type Err = OwnerRuleError;

    fn from_str(text: &str) -> Result<Self, OwnerRuleError> {
        match text {
            "entry" => Ok(Self::Entry),
            "first" => Ok(Self::First),
            _ => Err(OwnerRuleError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_names_one_of_two_rules() {
        assert_eq!("entry".parse(), Ok(OwnerRule::Entry));
        assert_eq!("first".parse(), Ok(OwnerRule::First));
        for wrong in ["", "First", "none"] {
            assert_eq!(wrong.parse::<OwnerRule>(), Err(OwnerRuleError), "{wrong}");
        }
    }
}
