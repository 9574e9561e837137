//! Access rules with the results of their checks, and their output.

use serde_json::{Value, json};

/// Result of checking an access rule for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The rule permits the request.
    Holds,
    /// The rule refuses the request.
    Broken,
    /// This program lacks the data to check the rule.
    Unknown,
}

/// Access rule with the result of its check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) name: &'static str,
    pub(super) verdict: Verdict,
    pub(super) reason: String,
    /// Allow-list entries that the target was compared with; empty for rules that compare none.
    pub(super) entries: Vec<Entry>,
}

/// Entry of an allow-list, with the result of its comparison with the target of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Owner of the allow-list that has the entry: `deployment` or `tenant`.
    pub(super) list: &'static str,
    pub(super) text: String,
    /// Phrases about the parts of the target that the entry does not cover; empty if the entry
    /// covers the target.
    pub(super) differences: Vec<&'static str>,
}

impl Rule {
    pub(super) fn new(name: &'static str, verdict: Verdict, reason: impl Into<String>) -> Self {
        Self { name, verdict, reason: reason.into(), entries: Vec::new() }
    }

    /// Creates the result for a rule that permits the request.
    pub(super) fn holds(name: &'static str, reason: impl Into<String>) -> Self {
        Self::new(name, Verdict::Holds, reason)
    }

    /// Creates the result for a rule that refuses the request.
    pub(super) fn broken(name: &'static str, reason: impl Into<String>) -> Self {
        Self::new(name, Verdict::Broken, reason)
    }

    /// Creates the result for a rule that this program cannot check, because it lacks data.
    pub(super) fn unknown(name: &'static str, reason: impl Into<String>) -> Self {
        Self::new(name, Verdict::Unknown, reason)
    }

    /// Returns the result as lines for people: one for the rule, and one for each allow-list entry.
    pub(super) fn lines(&self) -> Vec<String> {
        let sign = match self.verdict {
            Verdict::Holds => '✔',
            Verdict::Broken => '✘',
            Verdict::Unknown => '?',
        };
        let entries =
            self.entries.iter().map(|Entry { list, text, differences }| match differences.is_empty() {
                true => format!("    ✔ {list} `{text}`: it covers the target"),
                false => format!("    ✘ {list} `{text}`: {}", differences.join("; ")),
            });
        [format!("{sign} {}: {}", self.name, self.reason)].into_iter().chain(entries).collect()
    }

    /// Returns the result as JSON, for programs.
    pub(super) fn document(&self) -> Value {
        let holds = match self.verdict {
            Verdict::Holds => Some(true),
            Verdict::Broken => Some(false),
            Verdict::Unknown => None,
        };
        let entries: Vec<Value> = self
            .entries
            .iter()
            .map(|entry| json!({"list": entry.list, "entry": entry.text, "differences": entry.differences}))
            .collect();
        json!({"rule": self.name, "holds": holds, "reason": self.reason, "entries": entries})
    }
}

/// Returns the names of the rules that refuse the request.
#[cfg(test)]
pub(super) fn broken(rules: &[Rule]) -> Vec<&'static str> {
    let broken = rules.iter().filter(|rule| rule.verdict == Verdict::Broken);
    broken.map(|rule| rule.name).collect()
}
