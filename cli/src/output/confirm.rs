//! Confirmation by the person at the terminal.

use std::io::{BufRead as _, Read as _, Write as _};

use super::Output;
use super::terminal::harmless;
use crate::exit::{Exit, Explain as _, Failure};

/// Maximum number of bytes that are read of a person's answer to a question.
const MAX_ANSWER: u64 = 4096;

impl Output {
    /// Asks for confirmation before something is destroyed: the person has to type `name`. With
    /// `--yes`, no question is asked.
    ///
    /// # Errors
    /// If the person types something else, or there is no terminal to ask on.
    pub(crate) fn confirm(&mut self, question: &str, name: &str) -> Result<(), Failure> {
        if self.yes {
            return Ok(());
        }
        if !self.interactive {
            return Err(Failure::usage(format!("{question}: nobody confirms it"))
                .why("standard input is not a terminal")
                .next("say --yes to do it without a question"));
        }
        let [shown, answer] = [question, name].map(|text| harmless(text, &[]));
        let _unread = write!(self.notes, "{shown}. Write {answer} to go on: ");
        let _unflushed = self.notes.flush();
        let mut answer = String::new();
        let read = self.answers.by_ref().take(MAX_ANSWER).read_line(&mut answer);
        read.or_explain(|| "read the answer".to_owned())?;
        if answer.trim_end_matches(['\r', '\n']) == name {
            return Ok(());
        }
        Err(Failure::new(Exit::Error, "nothing was changed").why(format!("the answer was not {name}")))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::output::Format;
    use crate::output::memory::output;

    #[test]
    fn what_destroys_needs_the_name_or_yes() {
        let ask = |answer, yes| {
            let (mut out, data, _) = output(Format::Text, answer);
            out.yes = yes;
            assert_eq!(data.text(), "", "a question is no data");
            out.confirm("this removes the tenant acme", "acme").map_err(|failure| failure.exit)
        };
        assert_eq!(ask(Some("acme\n"), false), Ok(()));
        assert_eq!(ask(Some("acme\r\n"), false), Ok(()));
        assert_eq!(ask(Some("yes\n"), false), Err(Exit::Error));
        assert_eq!(ask(None, false), Err(Exit::Usage));
        assert_eq!(ask(None, true), Ok(()));
        let (mut out, ..) = output(Format::Text, Some(""));
        out.answers = Box::new(io::BufReader::new(io::repeat(b'x')));
        assert!(out.confirm("this removes the tenant acme", "acme").is_err(), "no answer is endless");
    }
}
