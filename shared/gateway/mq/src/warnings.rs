//! Warnings that a response contains beside its result.

use std::ops::Deref;

use serde::Serialize;

/// Member `warnings` of a response: each text once, in order of arrival, and at most [`Self::MOST`]
/// different texts. If there were more, a last text states their number, so that the response stays
/// short even if every message causes a warning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Warnings {
    texts: Vec<String>,
    #[serde(skip)]
    left_out: usize,
}

impl Warnings {
    /// Maximum number of different warnings in a response.
    pub const MOST: usize = 32;

    /// Adds a warning, unless the list already contains its text. Warnings beyond [`Self::MOST`]
    /// are only counted.
    pub fn push(&mut self, text: impl Into<String>) {
        let text = text.into();
        if self.texts.contains(&text) {
            return;
        }
        if self.texts.len() < Self::MOST {
            self.texts.push(text);
            return;
        }
        self.left_out += 1;
        self.texts.truncate(Self::MOST);
        self.texts.push(format!("there were {} more warnings", self.left_out));
    }
}

impl Extend<String> for Warnings {
    fn extend<T: IntoIterator<Item = String>>(&mut self, texts: T) {
        for text in texts {
            self.push(text);
        }
    }
}

impl Deref for Warnings {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_said_once_and_further_texts_are_counted() {
        let mut warnings = Warnings::default();
        warnings.extend(["a", "b", "a"].map(str::to_owned));
        assert_eq!(*warnings, ["a", "b"]);
        warnings.extend((0..100).map(|number| format!("message {number}")));
        assert_eq!(warnings.len(), Warnings::MOST + 1);
        assert_eq!(warnings.last().map(String::as_str), Some("there were 70 more warnings"));
        warnings.push("a");
        assert_eq!(serde_json::to_value(&warnings).unwrap().as_array().unwrap().len(), Warnings::MOST + 1);
    }
}
