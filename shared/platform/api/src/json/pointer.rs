//! Positions in a JSON document, as JSON Pointers (RFC 6901).

/// Maximum bytes of a JSON pointer in a response. A longer one is cut.
const MAX_BYTES: usize = 200;

/// Path from the document's root to the value being parsed. Each step borrows the step before it
/// from the stack, so that the path costs nothing unless an error needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

/// Step of a path: the root, a member or an array item.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'a> {
    Root,
    Member(&'a str),
    Item(usize),
}

impl<'a> Path<'a> {
    pub(super) const ROOT: Self = Self { parent: None, step: Step::Root };

    pub(super) const fn below(&'a self, step: Step<'a>) -> Self {
        Self { parent: Some(self), step }
    }

    pub(super) fn pointer(&self) -> String {
        let upwards = std::iter::successors(Some(self), |path| path.parent);
        let mut steps: Vec<_> = upwards.map(|path| path.step).collect();
        steps.reverse();
        pointer(steps)
    }
}

/// Writes a path as a JSON pointer of at most [`MAX_BYTES`]. One that is cut ends in `…`.
pub(super) fn pointer<'a>(steps: impl IntoIterator<Item = Step<'a>>) -> String {
    let mut pointer = String::new();
    for step in steps {
        match step {
            Step::Root => continue,
            Step::Item(index) => pointer.push_str(&format!("/{index}")),
            Step::Member(name) => {
                pointer.push('/');
                // More than this is cut below.
                for character in name.chars().take(MAX_BYTES) {
                    match character {
                        '~' => pointer.push_str("~0"),
                        '/' => pointer.push_str("~1"),
                        other => pointer.push(other),
                    }
                }
            }
        }
        if pointer.len() > MAX_BYTES {
            pointer.truncate(pointer.floor_char_boundary(MAX_BYTES));
            pointer.push('…');
            break;
        }
    }
    pointer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_from_its_root() {
        let array = Path::ROOT.below(Step::Member("a/b~c"));
        let path = array.below(Step::Item(3));
        assert_eq!(path.pointer(), "/a~1b~0c/3");
        assert_eq!(Path::ROOT.pointer(), "");
    }

    #[test]
    fn a_long_pointer_is_cut_between_characters() {
        for name in ["x", "/", "ü", "€"] {
            let cut = pointer([Step::Member(&name.repeat(1_000_000))]);
            assert!(cut.ends_with('…') && (195..=MAX_BYTES + '…'.len_utf8()).contains(&cut.len()), "{cut}");
        }
        assert_eq!(pointer([Step::Member(&"x".repeat(MAX_BYTES - 1))]).len(), MAX_BYTES);
    }
}
