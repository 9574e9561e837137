//! Escaping of control characters in text that others wrote, and the decision whether output is
//! coloured.

use std::borrow::Cow;
use std::ffi::OsString;

use crate::args::Colour;

/// Control characters that text of several lines may have: line feed and tab.
pub(super) const LINES: [char; 2] = ['\n', '\t'];

/// Returns the text with control characters replaced by `\u` escapes, because they could command a
/// terminal. The characters in `kept` stay, and so do Windows line ends if line feeds stay.
pub(crate) fn harmless<'a>(text: &'a str, kept: &[char]) -> Cow<'a, str> {
    use std::fmt::Write as _;

    if !text.contains(|character: char| character.is_control() && !kept.contains(&character)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        let ends_a_line = character == '\r' && kept.contains(&'\n') && rest.peek() == Some(&'\n');
        if character.is_control() && !ends_a_line && !kept.contains(&character) {
            // Nothing fails that is written to memory.
            let _written = write!(shown, "\\u{:04x}", u32::from(character));
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// Decides whether a stream is coloured. With [`Colour::Auto`], a `terminal` is coloured, and so is
/// any stream if `CLICOLOR_FORCE` is set and not `0`. `NO_COLOR` takes precedence over both.
/// `variable` returns the value of an environment variable.
pub(super) fn has_colour(
    choice: Colour,
    terminal: bool,
    variable: impl Fn(&str) -> Option<OsString>,
) -> bool {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    match choice {
        Colour::On => true,
        Colour::Off => false,
        Colour::Auto if set("NO_COLOR").is_some() => false,
        Colour::Auto => terminal || set("CLICOLOR_FORCE").is_some_and(|value| value != "0"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::exit::Failure;
    use crate::output::Format;
    use crate::output::memory::output;

    const SCHEMA: &str = "integrahub.tests.v1";

    #[test]
    fn data_and_words_of_others_cannot_command_a_terminal() {
        const HOSTILE: &str = "a\u{1b}]0;b\u{7}\u{9b}2J\r\nc\td\re";
        let (mut out, data, words) = output(Format::Text, None);
        out.raw(HOSTILE.as_bytes()).unwrap();
        assert_eq!(data.text(), HOSTILE, "a file gets what there is");
        out.note(HOSTILE);
        out.fail(&Failure::usage(HOSTILE));
        let (mut shown, at_terminal, _) = output(Format::Text, None);
        shown.stdout_is_terminal = true;
        shown.raw(&[HOSTILE.as_bytes(), b"\x9b"].concat()).unwrap();
        let lines = r"a\u001b]0;b\u0007\u009b2J".to_owned() + "\r\nc\td" + r"\u000de";
        assert_eq!(at_terminal.text(), lines.clone() + r"\x9b", "a byte alone is one, too");
        assert_eq!(words.text(), format!("{lines}\nerror: {lines}\n"));
        let (mut out, data, _) = output(Format::Text, None);
        out.table(&["name", "count"], vec![vec!["a\nb".into(), "1\u{1b}".into()]]);
        out.thing(SCHEMA, &json!({}), &[("name", "a\nb".into())]);
        assert_eq!(data.text(), "a\\u000ab  1\\u001b\nname  a\\u000ab\n", "a cell is one line");
        let (mut out, data, _) = output(Format::Json, None);
        out.stdout_is_terminal = true;
        out.json(SCHEMA, &json!({"name": "\u{9b}2J"}));
        let document: Value = serde_json::from_str(&data.text()).unwrap();
        assert_eq!(document["name"], "\u{9b}2J", "a document stays the same");
        assert!(!data.text().contains('\u{9b}'));
    }

    #[test]
    fn colours_are_for_terminals_unless_a_variable_says_otherwise() {
        let auto = |terminal, set: &[(&str, &str)]| {
            has_colour(Colour::Auto, terminal, |name| {
                set.iter().find(|(other, _)| *other == name).map(|(_, value)| OsString::from(value))
            })
        };
        let (forced, refused) = (("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1"));
        assert!(auto(true, &[]) && !auto(false, &[]));
        assert!(auto(false, &[forced]) && !auto(false, &[("CLICOLOR_FORCE", "0")]));
        assert!(!auto(true, &[refused]) && !auto(true, &[refused, forced]));
        assert!(auto(true, &[("NO_COLOR", "")]), "an empty variable says nothing");
        assert!(has_colour(Colour::On, false, |_| Some("1".into())));
        assert!(!has_colour(Colour::Off, true, |_| Some("1".into())));
    }
}
