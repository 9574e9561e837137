//! Names of headers that the gateway keeps for itself. They begin with one NUL. A publisher may
//! have written such a name too, or one with more NULs: it passes with one more, and loses that
//! where it is shown or put again.

use std::borrow::Cow;

use super::{Kind, after_value, split};

/// Begins the names of headers that hold what the client library cannot read.
pub(super) const MOVED: &str = "\0integrahub:";
/// The same without the NUL.
const RESERVED: &[u8] = b"integrahub:";

/// Whether a publisher's header of this name passes under another one.
pub(crate) fn is_reserved(name: &[u8]) -> bool {
    let nuls = name.iter().take_while(|byte| **byte == 0).count();
    nuls > 0 && name.get(nuls..).is_some_and(|rest| rest.starts_with(RESERVED))
}

/// The name that a publisher's header has had before it passed, if it is another one.
pub(crate) fn as_published(name: &str) -> Option<&str> {
    name.strip_prefix('\0').filter(|name| is_reserved(name.as_bytes()))
}

/// A table that can be read, with other names for those that are reserved. `None` where a name is
/// too long for that.
pub(super) fn escaped(table: &[u8]) -> Option<Cow<'_, [u8]>> {
    let mut renamed: Option<Vec<u8>> = None;
    let mut rest = table;
    while !rest.is_empty() {
        let before = table.len() - rest.len();
        let (whole, name, tail) = split(Kind::ShortString, rest)?;
        let after = after_value(tail, 0, &mut 0)?;
        let value = tail.get(..tail.len() - after.len())?;
        if is_reserved(name) {
            let renamed = renamed.get_or_insert_with(|| table.get(..before).unwrap_or_default().to_vec());
            renamed.push(u8::try_from(name.len()).ok()?.checked_add(1)?);
            renamed.push(0);
            renamed.extend([name, value].concat());
        } else if let Some(renamed) = &mut renamed {
            renamed.extend([whole, value].concat());
        }
        rest = after;
    }
    Some(renamed.map_or(Cow::Borrowed(table), Cow::Owned))
}
