//! The caller's API key, and the places from which a command reads it.

use std::io;
use std::path::Path;
use std::process::Stdio;

use secrecy::SecretString;
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

use super::{Context, Contexts};
use crate::args::Global;
use crate::exit::{Explain as _, Failure};

/// Environment variable with the API key.
const VARIABLE: &str = "INTEGRAHUB_API_KEY";
/// Maximum number of bytes of an API key, without the blanks and line ends around it. The API reads
/// at most 256 bytes; the rest is a margin.
const MAX_BYTES: usize = 300;
/// Maximum number of bytes that are read of a key file, or of the output of a command that prints
/// the key.
const MAX_FILE: u64 = 4096;

/// Source of an API key: a file, a command, or a value that is known already.
enum KeySource<'a> {
    File(&'a Path),
    Command(&'a str),
    /// API key itself, from the environment or the local stack.
    Read(String),
}

/// Finds the source of the API key, and stores the source and the key in `context`. `variable`
/// returns the value of an environment variable. If `read` is false, no key is read from a file or
/// a command, because the command might ask the user something. Without a source, `context` stays
/// as it is.
///
/// # Errors
/// If there is a source, but no key can be read from it.
pub(super) async fn find(
    global: &Global,
    contexts: &Contexts,
    context: &mut Context,
    variable: impl Fn(&str) -> Option<String>,
    read: bool,
) -> Result<(), Failure> {
    let Some((key, source)) = key_source(global, contexts, context, variable) else { return Ok(()) };
    context.source_of_key = source;
    context.api_key = match key {
        KeySource::Read(key) => Some(checked(&key, &context.source_of_key)?),
        KeySource::File(path) if read => {
            let text = beginning(path).await.or_explain(|| format!("read the API key {}", path.display()))?;
            Some(checked(&String::from_utf8_lossy(&text), &context.source_of_key)?)
        }
        KeySource::Command(command) if read => {
            Some(checked(&output(command, &context.source_of_key).await?, &context.source_of_key)?)
        }
        KeySource::File(_) | KeySource::Command(_) => None,
    };
    Ok(())
}

/// Reads at most the first 4096 bytes of a key file. A longer file contains no key, and reading a
/// device might never end.
async fn beginning(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path).await?.take(MAX_FILE).read_to_end(&mut text).await?;
    Ok(text)
}

fn key_source<'a>(
    global: &'a Global,
    contexts: &'a Contexts,
    context: &Context,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<(KeySource<'a>, String)> {
    if let Some(path) = &global.api_key_file {
        return Some((KeySource::File(path), format!("--api-key-file {}", path.display())));
    }
    if let Some(command) = &global.api_key_command {
        return Some((KeySource::Command(command), "--api-key-command".to_owned()));
    }
    if let Some(key) = variable(VARIABLE).filter(|key| !key.is_empty()) {
        return Some((KeySource::Read(key), VARIABLE.to_owned()));
    }
    if let Some(stack) = &context.local {
        // Another address must not get the key of this one.
        let same = stack.url().ok().flatten() == context.url;
        let key = stack.variable("API_KEY").filter(|_| same)?;
        return Some((KeySource::Read(key.to_owned()), "the local stack".to_owned()));
    }
    let settings = contexts.get(&context.name).ok()?;
    // However another address came about, it must not get the key of this one.
    let same =
        (&context.url, &context.stack, &context.region) == (&settings.url, &settings.stack, &settings.region);
    if !same {
        return None;
    }
    let name = &context.name;
    if let Some(path) = &settings.api_key_file {
        return Some((KeySource::File(path), format!("context {name}, file {}", path.display())));
    }
    let command = settings.api_key_command.as_deref()?;
    Some((KeySource::Command(command), format!("context {name}, command")))
}

/// Returns the API key in a text, without the blanks and line ends around it. `source` describes
/// the origin of the text in the error message.
///
/// # Errors
/// If the text is no API key.
pub(super) fn checked(text: &str, source: &str) -> Result<SecretString, Failure> {
    let key = text.trim_start_matches('\u{feff}').trim();
    let is_header = key.bytes().all(|byte| byte.is_ascii_graphic());
    if key.is_empty() || key.len() > MAX_BYTES || !is_header {
        return Err(Failure::usage(format!("there is no API key in {source}"))
            .why("an API key is one line of visible ASCII characters")
            .next("create one: integrahub key create --help"));
    }
    Ok(key.to_owned().into())
}

/// Runs a command in a shell, and returns at most 4096 bytes of its output. The command can ask
/// questions on the terminal. A failure names only the `source`, because the command itself may
/// contain the key.
async fn output(command: &str, source: &str) -> Result<String, Failure> {
    let (shell, flag) = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
    let explain = || "run the command that prints the API key".to_owned();
    let mut child =
        Command::new(shell).args([flag, command]).stdout(Stdio::piped()).spawn().or_explain(explain)?;
    let mut text = Vec::new();
    if let Some(printed) = child.stdout.take() {
        // Nobody reads more than this: a command that goes on finds its output closed.
        printed.take(MAX_FILE).read_to_end(&mut text).await.or_explain(explain)?;
    }
    let status = child.wait().await.or_explain(explain)?;
    if !status.success() {
        return Err(Failure::usage("the command that prints the API key failed")
            .why(status.to_string())
            .next(format!("run the command in a shell, and correct it: {source}")));
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::super::LocalStack;
    use super::*;

    const FILE: &str = "version = 1\n[contexts.prod]\nurl = \"https://api.example.com\"\n\
                        api_key_command = \"echo ihub_context\"\n";

    async fn found(global: &Global, context: Context, environment: Option<&str>) -> (String, String) {
        let contexts = Contexts::parse(FILE, "/nowhere".into()).unwrap();
        let mut context = context;
        let variable = |_: &str| environment.map(str::to_owned);
        find(global, &contexts, &mut context, variable, true).await.unwrap();
        let key = context.api_key.map(|key| key.expose_secret().to_owned()).unwrap_or_default();
        (key, context.source_of_key)
    }

    fn prod() -> Context {
        let url = Some("https://api.example.com".parse().unwrap());
        Context { name: "prod".to_owned(), url, ..Context::default() }
    }

    #[tokio::test]
    async fn the_environment_wins_over_the_context_and_an_option_over_both() {
        let none = Global::default();
        assert_eq!(found(&none, prod(), None).await, ("ihub_context".into(), "context prod, command".into()));
        assert_eq!(found(&none, prod(), Some("ihub_env")).await, ("ihub_env".into(), VARIABLE.into()));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "\u{feff}ihub_file\r\n").unwrap();
        let global = Global { api_key_file: Some(file.path().to_owned()), ..Global::default() };
        assert_eq!(found(&global, prod(), Some("ihub_env")).await.0, "ihub_file");
    }

    #[tokio::test]
    async fn another_address_does_not_get_the_key_of_the_context() {
        let url: url::Url = "https://attacker.example".parse().unwrap();
        let global = Global { url: Some(url.clone()), ..Global::default() };
        let context = Context { url: Some(url.clone()), ..prod() };
        assert_eq!(found(&global, context, None).await.0, "");
        let stack = Context { url: None, stack: Some("another".to_owned()), ..prod() };
        assert_eq!(found(&Global::default(), stack, None).await.0, "", "its address comes later");
        let local = LocalStack::parse("export API='http://127.0.0.1:1'\nexport API_KEY='k'\n");
        let context = Context { url: Some(url), local: Some(local.clone()), ..Context::default() };
        assert_eq!(found(&global, context, None).await.0, "");
        let own = Context { url: local.url().unwrap(), local: Some(local), ..Context::default() };
        assert_eq!(found(&Global::default(), own, None).await, ("k".into(), "the local stack".into()));
    }

    #[tokio::test]
    async fn a_command_that_fails_is_not_shown() {
        let failure = output("exit 3 # ihub_secret", "--api-key-command").await.unwrap_err().to_string();
        assert!(failure.contains("--api-key-command") && !failure.contains("ihub_secret"), "{failure}");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_command_that_prints_without_end_is_refused() {
        for command in ["cat /dev/zero", "head -c 100000 /dev/zero; exit 0"] {
            let read = output(command, "--api-key-command").await;
            assert!(read.and_then(|text| checked(&text, "a command")).is_err(), "{command}");
        }
    }

    #[tokio::test]
    async fn no_more_is_read_of_a_file_than_a_key_may_have() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![b'x'; 100_000]).unwrap();
        let read = beginning(file.path()).await.unwrap();
        assert_eq!(read.len(), 4096);
        assert!(checked(&String::from_utf8(read).unwrap(), "a file").is_err());
    }

    #[test]
    fn a_file_without_a_key_is_refused_and_not_shown() {
        for text in ["", "\n", "two words", "clé", &"x".repeat(301)] {
            let refused = checked(text, "a file").unwrap_err().to_string();
            assert!(!refused.contains("words") && refused.contains("a file"), "{refused}");
        }
    }
}
