//! `integrahub context`: creates, shows, chooses and removes contexts, which are named deployments
//! with an API key.

use std::io::{BufRead as _, Read as _};

use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use super::file::write_private;
use super::{Contexts, LOCAL, Needs, Settings, key, load};
use crate::args::{ContextCommand, ContextCreate, Global};
use crate::aws::Aws;
use crate::exit::{Exit, Explain as _, Failure};
use crate::output::{Format, Output};

/// Name of the JSON schema in which the contexts are listed.
const LIST: &str = "integrahub.contexts.v1";
/// Name of the JSON schema in which one context is printed.
const ONE: &str = "integrahub.context.v1";
/// Name of the JSON schema in which the current context's name is printed.
const CURRENT: &str = "integrahub.current-context.v1";
/// Maximum number of bytes that are read from standard input for an API key.
const MAX_KEY: u64 = 1_000;

/// Runs `integrahub context`.
///
/// # Errors
/// If the context does not exist, its settings are invalid, its stack cannot be read, or the file
/// system fails.
pub(crate) async fn run(args: &ContextCommand, global: &Global, out: &mut Output) -> Result<Exit, Failure> {
    let mut contexts = Contexts::read()?;
    match args {
        ContextCommand::Create(args) => create(args, global, &mut contexts, out).await?,
        ContextCommand::List => list(&contexts, out),
        ContextCommand::Use { name } => {
            if name != LOCAL {
                contexts.get(name)?;
            }
            contexts.current = Some(name.clone());
            contexts.write()?;
            out.note(&format!("the context `{name}` is used from now on"));
        }
        ContextCommand::Show { name } => {
            let global =
                Global { context: name.clone().or_else(|| global.context.clone()), ..global.clone() };
            show(&global, out).await?;
        }
        ContextCommand::Current => {
            let name = load(global, Needs::Aws).await?.name;
            if name.is_empty() {
                return Err(Failure::new(Exit::Nothing, "no context is in use")
                    .next("choose one: integrahub context use NAME"));
            }
            if out.format() == Format::Text {
                out.line(&name);
            } else {
                out.json(CURRENT, &json!({"name": name}));
            }
        }
        ContextCommand::Remove { name } => {
            contexts.get(name)?;
            out.confirm(&format!("this removes the context `{name}` and its API key"), name)?;
            contexts.remove(name)?;
            contexts.write()?;
            out.note(&format!("the context `{name}` is removed"));
        }
    }
    Ok(Exit::Done)
}

/// Creates a context, or changes one. If the context has a stack, its outputs are read once and
/// stored, so that later commands need no permission to read the stack.
async fn create(
    args: &ContextCreate,
    global: &Global,
    contexts: &mut Contexts,
    out: &mut Output,
) -> Result<(), Failure> {
    let name = &args.name;
    check_name(name)?;
    let key_file = contexts.key_file(name);
    let settings = contexts.entry(name);
    let before = settings.clone();
    merge(settings, global);
    if let Some(path) = &global.api_key_file {
        // The context is used in other directories too.
        let path = std::path::absolute(path).or_explain(|| format!("find {}", path.display()))?;
        settings.api_key_file = Some(path);
    }
    if settings.stack.is_some() {
        let context = super::Context {
            stack: settings.stack.clone(),
            region: settings.region.clone(),
            aws_profile: settings.aws_profile.clone(),
            ..super::Context::default()
        };
        let aws = Aws::of(&context).await?;
        settings.names = aws.names().await?;
        if global.url.is_none() {
            settings.url = Some(aws.url().await?);
        }
    }
    settings.names.access_table = global.table.clone().or_else(|| settings.names.access_table.clone());
    if settings.url.is_none() && settings.names.is_empty() {
        return Err(Failure::usage(format!("the context `{name}` says nothing"))
            .next("give --url for the API, or --stack and --region for administration"));
    }
    let has_key = args.api_key_stdin || global.api_key_file.is_some() || global.api_key_command.is_some();
    if !has_key && forget_key(settings, &before) {
        out.note(&format!("the context `{name}` has another address, so its API key is not used any more"));
    }
    if args.api_key_stdin {
        let mut text = String::new();
        let mut input = std::io::stdin().lock().take(MAX_KEY);
        input.read_line(&mut text).or_explain(|| "read the API key".to_owned())?;
        let key = key::checked(&text, "standard input")?;
        write_private(&key_file, key.expose_secret().as_bytes())?;
        settings.api_key_command = None;
        out.note(&format!("the API key is kept in {}, which only you can read", key_file.display()));
        settings.api_key_file = Some(key_file);
    }
    if args.use_it {
        contexts.current = Some(name.clone());
    }
    contexts.write()?;
    out.note(&format!("the context `{name}` is kept"));
    Ok(())
}

/// Changes the settings of a context to the values of the options on the command line. If the stack
/// changes, the caller has to look up the new address.
fn merge(settings: &mut Settings, global: &Global) {
    fn put<T: Clone>(kept: &mut Option<T>, given: Option<&T>) {
        if let Some(given) = given {
            *kept = Some(given.clone());
        }
    }
    put(&mut settings.url, global.url.as_ref());
    put(&mut settings.stack, global.stack.as_ref());
    put(&mut settings.region, global.region.as_ref());
    put(&mut settings.aws_profile, global.aws_profile.as_ref());
    put(&mut settings.api_key_file, global.api_key_file.as_ref());
    put(&mut settings.api_key_command, global.api_key_command.as_ref());
    if global.api_key_file.is_some() {
        settings.api_key_command = None;
    }
    if global.api_key_command.is_some() {
        settings.api_key_file = None;
    }
}

/// Removes the source of the API key from `settings` if the URL, stack or region differs from
/// `before`, so that another server never receives the key. Returns whether a source was removed.
fn forget_key(settings: &mut Settings, before: &Settings) -> bool {
    let same =
        (&settings.url, &settings.stack, &settings.region) == (&before.url, &before.stack, &before.region);
    if same {
        return false;
    }
    let (file, command) = (settings.api_key_file.take(), settings.api_key_command.take());
    file.is_some() || command.is_some()
}

fn check_name(name: &str) -> Result<(), Failure> {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    let is_name =
        !name.is_empty() && name.len() <= 64 && name.chars().all(is_plain) && !name.starts_with('.');
    if name == LOCAL {
        return Err(Failure::usage("the context `local` is the local stack, and cannot be changed"));
    }
    if is_name {
        return Ok(());
    }
    Err(Failure::usage(format!("`{name}` cannot be the name of a context"))
        .why("a name has up to 64 ASCII letters, digits, and - _ . and does not begin with a dot"))
}

fn list(contexts: &Contexts, out: &mut Output) {
    let current = contexts.current.as_deref();
    let items = contexts.iter().map(|(name, settings)| {
        let Settings { url, stack, region, .. } = settings;
        json!({"name": name, "current": current == Some(name), "url": url, "stack": stack, "region": region})
    });
    let rows = contexts.iter().map(|(name, settings)| {
        vec![
            name.to_owned(),
            (if current == Some(name) { "current" } else { "" }).to_owned(),
            settings.url.as_ref().map(ToString::to_string).unwrap_or_default(),
            settings.stack.clone().unwrap_or_default(),
            settings.region.clone().unwrap_or_default(),
        ]
    });
    let (items, rows) = (items.collect(), rows.collect());
    out.list(LIST, "contexts", items, &["name", "current", "url", "stack", "region"], rows);
}

async fn show(global: &Global, out: &mut Output) -> Result<(), Failure> {
    let context = load(global, Needs::Either).await?;
    let rows = context.described();
    out.thing(ONE, &Value::Object(context.document(&rows)), &rows);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::memory::output;

    #[test]
    fn what_is_not_given_stays() {
        let mut settings = Settings {
            stack: Some("integrahub".to_owned()),
            api_key_command: Some("pass show key".to_owned()),
            ..Settings::default()
        };
        let global = Global {
            region: Some("sa-east-1".to_owned()),
            api_key_file: Some("till.key".into()),
            ..Global::default()
        };
        merge(&mut settings, &global);
        assert_eq!(
            (settings.stack.as_deref(), settings.region.as_deref()),
            (Some("integrahub"), Some("sa-east-1"))
        );
        assert_eq!((settings.api_key_command, settings.api_key_file), (None, Some("till.key".into())));
    }

    #[tokio::test]
    async fn another_address_does_not_keep_the_key() {
        let directory = tempfile::tempdir().unwrap();
        let mut contexts = Contexts::parse("version = 1", directory.path().to_owned()).unwrap();
        let args = ContextCreate { name: "till".to_owned(), api_key_stdin: false, use_it: false };
        let with_key = Global {
            url: Some("https://api.example.com".parse().unwrap()),
            api_key_file: Some("till.key".into()),
            ..Global::default()
        };
        let (mut out, _, words) = output(Format::Text, None);
        create(&args, &with_key, &mut contexts, &mut out).await.unwrap();
        let kept = contexts.get("till").unwrap().api_key_file.clone().unwrap();
        assert!(kept.is_absolute() && kept.ends_with("till.key"), "{}", kept.display());
        create(&args, &Global::default(), &mut contexts, &mut out).await.unwrap();
        assert!(contexts.get("till").unwrap().api_key_file.is_some(), "the address is the same");
        assert!(!words.text().contains("another address"));
        let url = Some("https://other.example.com".parse().unwrap());
        create(&args, &Global { url, ..Global::default() }, &mut contexts, &mut out).await.unwrap();
        assert_eq!(contexts.get("till").unwrap().api_key_file, None);
        assert!(words.text().contains("another address"));
    }

    #[test]
    fn a_name_is_also_the_name_of_a_file() {
        for name in ["prod", "till-1", "a.b_c"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["", "../x", ".hidden", "a/b", "local", "a b", &"a".repeat(65)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
