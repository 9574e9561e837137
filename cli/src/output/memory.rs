//! In-memory output and prepared answers, for tests.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use super::{Format, Output};

/// Buffer with the text that an [`Output`] wrote in a test.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Creates an output for tests, with the buffers of its standard output and standard error. If
/// `answer` is given, it is typed in response to questions.
pub(crate) fn output(format: Format, answer: Option<&str>) -> (Output, Written, Written) {
    let (data, notes) = (Written::default(), Written::default());
    let output = Output {
        format,
        data: Box::new(data.clone()),
        notes: Box::new(notes.clone()),
        answers: Box::new(io::Cursor::new(answer.unwrap_or_default().as_bytes().to_vec())),
        stdout_is_terminal: false,
        stderr_is_terminal: false,
        interactive: answer.is_some(),
        data_colour: false,
        notes_colour: false,
        yes: false,
        quiet: false,
        broken: None,
    };
    (output, data, notes)
}
