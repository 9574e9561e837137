//! Header names that are reserved for the gateway. They begin with one NUL and `integrahub:`. A
//! publisher may have used such a name, with one or more NULs. The publisher's header is passed on
//! with one more NUL, which is removed when the message is shown or published again.

use std::borrow::Cow;

use super::{Kind, after_value, split};

/// Prefix of the names of headers in which the gateway passes on properties that the client library
/// cannot read.
pub(super) const MOVED: &str = "\0integrahub:";
/// Start of reserved header names after their leading NULs.
const RESERVED: &[u8] = b"integrahub:";

/// True if a publisher's header of this name has to be renamed, because the name is reserved.
pub(crate) fn is_reserved(name: &[u8]) -> bool {
    let nuls = name.iter().take_while(|byte| **byte == 0).count();
    nuls > 0 && name.get(nuls..).is_some_and(|rest| rest.starts_with(RESERVED))
}

/// Returns the publisher's name of a renamed header; `None` if it was not renamed.
pub(crate) fn as_published(name: &str) -> Option<&str> {
    name.strip_prefix('\0').filter(|name| is_reserved(name.as_bytes()))
}

/// Renames the reserved header names in a readable table. `None` if a name is too long for that.
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
