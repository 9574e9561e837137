//! Contenders: the programs that a benchmark compares. They answer lines of text, or take events as
//! functions do ([`Environment`](crate::function::Environment)).

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};

use crate::child::{Child, Program};
use crate::error::Error;

/// Running program that a benchmark gives work and measures.
pub(crate) trait Contender: Sized {
    type Work: ?Sized;
    type Answer;

    async fn start(program: &Program) -> Result<Self, Error>;

    async fn send(&mut self, work: &Self::Work) -> Result<Self::Answer, Error>;

    async fn stop(self) -> Result<(), Error>;
}

/// Starts a contender, sends it one piece of work and stops it. Returns its answer.
pub(crate) async fn once<C: Contender>(program: &Program, work: &C::Work) -> Result<C::Answer, Error> {
    let mut contender = C::start(program).await?;
    let answer = contender.send(work).await?;
    contender.stop().await?;
    Ok(answer)
}

/// Returns all contenders in the order of their turns in this round. Each round begins with the
/// next contender.
pub(crate) fn turns<T>(all: &[T], round: u32) -> impl Iterator<Item = &T> {
    let first = usize::try_from(round).unwrap_or_default() % all.len().max(1);
    all.iter().cycle().skip(first).take(all.len())
}

/// Contender that answers each line on its standard input with one line of JSON of the type `T`.
/// Other lines of its output are its log.
#[derive(Debug)]
pub(crate) struct Answering<T> {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    answers: PhantomData<T>,
}

impl<T: DeserializeOwned> Contender for Answering<T> {
    type Work = str;
    type Answer = T;

    async fn start(program: &Program) -> Result<Self, Error> {
        let mut child = Child::start(program)?;
        let pipe = || "a pipe is missing";
        let input = child.input.take().ok_or_else(pipe)?;
        let output = BufReader::new(child.output.take().ok_or_else(pipe)?).lines();
        Ok(Self { child, input, output, answers: PhantomData })
    }

    async fn send(&mut self, work: &str) -> Result<T, Error> {
        self.input.write_all(format!("{work}\n").as_bytes()).await?;
        let mut last = String::new();
        while let Some(line) = self.output.next_line().await? {
            if let Ok(answer) = serde_json::from_str(&line) {
                return Ok(answer);
            }
            last = line;
        }
        Err(format!("{} does not answer {work:?}: {last}", self.child.name).into())
    }

    async fn stop(self) -> Result<(), Error> {
        drop(self.input);
        // A program may still write when nobody measures it any more.
        let mut output = self.output;
        while output.next_line().await?.is_some() {}
        self.child.end().await
    }
}

/// Runs the loop of a contender in Rust: answers each line on the standard input with a line of
/// JSON on the standard output.
pub(crate) async fn serve<T: Serialize>(
    mut answer: impl AsyncFnMut(&str) -> Result<T, Error>,
) -> Result<(), Error> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let line = serde_json::to_string(&answer(&line).await?)?;
        #[expect(clippy::print_stdout, reason = "what the measuring side reads")]
        {
            println!("{line}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Answer {
        cpu: u32,
    }

    #[test]
    fn everyone_begins_once_in_as_many_rounds_as_there_are_contenders() {
        let rounds: Vec<Vec<_>> = (0..3).map(|round| turns(&["a", "b", "c"], round).collect()).collect();
        assert_eq!(rounds, [[&"a", &"b", &"c"], [&"b", &"c", &"a"], [&"c", &"a", &"b"]]);
    }

    #[tokio::test]
    async fn answers_are_told_from_the_log_and_an_end_without_one_is_an_error() {
        let script = r#"read line; echo '{"level":"INFO"}'; echo cpu soon; echo "{\"cpu\":$line}"; read line; echo bye"#;
        let program = Program::at("the script", "sh").arg("-c").arg(script);
        let mut contender = Answering::<Answer>::start(&program).await.unwrap();
        assert_eq!(contender.send("1500").await.unwrap(), Answer { cpu: 1500 });
        let error = contender.send("again").await.unwrap_err().to_string();
        assert_eq!(error, r#"the script does not answer "again": bye"#);
    }
}
