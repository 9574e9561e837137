//! Settings of a command: which deployment it is about, and who calls.
//!
//! An option wins over the environment, the environment over the context, and the context over the
//! local stack that `make run` started in this or a parent directory.

pub(crate) mod command;
mod file;
mod key;
mod local;

use secrecy::SecretString;
use serde_json::{Map, Value, json};
use url::Url;

use crate::args::Global;
use crate::aws;
use crate::exit::Failure;

pub(crate) use file::{Contexts, Settings, write_private};
pub(crate) use local::LocalStack;

/// Name of the context that stands for the local stack.
pub(crate) const LOCAL: &str = "local";

/// Deployment and credentials of a command, from the options, the environment and the selected
/// context.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    /// Name of the context; empty if options and the environment take the place of a context.
    pub(crate) name: String,
    /// Description of the option, variable or file that the context's name comes from, to show the
    /// user.
    pub(crate) source_of_name: String,
    /// Base URL of the API; `None` if it is not known.
    pub(crate) url: Option<Url>,
    /// API key of the caller; `None` if there is none, or if the command does not need it.
    pub(crate) api_key: Option<SecretString>,
    /// Description of the option, variable or file that the API key comes from, to show the user.
    /// Empty if there is none.
    pub(crate) source_of_key: String,
    /// AWS region of the deployment; `None` for the default of the AWS configuration.
    pub(crate) region: Option<String>,
    /// Name of the deployment's CloudFormation stack; `None` if it is not known.
    pub(crate) stack: Option<String>,
    /// AWS profile that has the credentials; `None` for the AWS SDK's default credentials.
    pub(crate) aws_profile: Option<String>,
    /// Names of the stack's tables, function and log group; `None` where a name is unknown.
    pub(crate) names: aws::Names,
    /// Local stack, if it is the deployment that the command is about; `None` otherwise.
    pub(crate) local: Option<LocalStack>,
    /// True if the option `--yes` confirms destructive commands in advance.
    pub(crate) yes: bool,
    /// Program with the options that name the deployment and the caller, as the beginning of
    /// suggested commands.
    pub(crate) program: String,
}

impl Context {
    /// Returns the settings as pairs of name and text for the user, with the sources of the context
    /// and of the API key. A setting that is not known is `-`.
    pub(crate) fn described(&self) -> Vec<(&'static str, String)> {
        let or_none = |value: Option<&String>| value.cloned().unwrap_or_else(|| "-".to_owned());
        let name = if self.name.is_empty() { "-" } else { &self.name };
        let key = if self.source_of_key.is_empty() { "-" } else { &self.source_of_key };
        vec![
            ("context", format!("{name} ({})", self.source_of_name)),
            ("url", or_none(self.url.as_ref().map(ToString::to_string).as_ref())),
            ("key from", key.to_owned()),
            ("stack", or_none(self.stack.as_ref())),
            ("region", or_none(self.region.as_ref())),
            ("aws profile", or_none(self.aws_profile.as_ref())),
            ("access table", or_none(self.names.access_table.as_ref())),
        ]
    }

    /// Returns `rows`, which are pairs of name and text, as JSON members, with the context's name
    /// and its source. Member names are in camel case, absent values are null.
    pub(crate) fn document(&self, rows: &[(&str, String)]) -> Map<String, Value> {
        let member = |(name, value): &(&str, String)| (camel_case(name), json!(present(value)));
        let mut members: Map<String, Value> = rows.iter().map(member).collect();
        members.insert("context".to_owned(), json!(present(&self.name)));
        members.insert("contextFrom".to_owned(), json!(present(&self.source_of_name)));
        members
    }
}

fn present(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty() && *text != "-")
}

fn camel_case(words: &str) -> String {
    let mut begins = false;
    let letter = |character: char| {
        if character == ' ' {
            begins = true;
            return None;
        }
        Some(if std::mem::take(&mut begins) { character.to_ascii_uppercase() } else { character })
    };
    words.chars().filter_map(letter).collect()
}

/// Services that a command calls. They decide which credentials are read for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// The API, called with an API key.
    Api,
    /// AWS, called with AWS credentials.
    Aws,
    /// AWS, called with AWS credentials. An API key is read too, because the command looks the key
    /// up in the access table.
    AwsAndKey,
    /// The API or AWS, whichever the context has settings for. No API key is read from a file or a
    /// command.
    Either,
}

/// Determines the settings of a command from the options, the environment, the context and the
/// local stack.
///
/// # Errors
/// If the context does not exist, its file or the API key cannot be read, or the stack has no
/// output with the address of the API.
pub(crate) async fn load(global: &Global, needs: Needs) -> Result<Context, Failure> {
    let contexts = Contexts::read()?;
    let mut context = choose(global, &contexts, LocalStack::find)?;
    if needs != Needs::Aws {
        let read = matches!(needs, Needs::Api | Needs::AwsAndKey);
        key::find(global, &contexts, &mut context, |name| std::env::var(name).ok(), read).await?;
    }
    if needs == Needs::Api && context.url.is_none() && context.stack.is_some() {
        context.url = Some(aws::Aws::of(&context).await?.url().await?);
    }
    Ok(context)
}

/// Selects the context: the one that the command line names, else the current one, else the local
/// stack. Without the first two, `--url` or `--stack` takes the place of a context. Options take
/// precedence over the settings of the context.
fn choose(
    global: &Global,
    contexts: &Contexts,
    local: impl FnOnce() -> Result<Option<LocalStack>, Failure>,
) -> Result<Context, Failure> {
    let (name, source) = match (&global.context, &contexts.current) {
        (Some(name), _) => (name.clone(), "option or INTEGRAHUB_CONTEXT"),
        (None, Some(name)) => (name.clone(), "context use"),
        // An address or a stack stands for itself.
        (None, None) if global.url.is_some() || global.stack.is_some() => (String::new(), "options"),
        (None, None) => (LOCAL.to_owned(), "the local stack in this directory"),
    };
    let mut context = Context { name, source_of_name: source.to_owned(), ..Context::default() };
    if context.name == LOCAL {
        let stack = match local()? {
            Some(stack) => stack,
            None if global.context.is_some() || contexts.current.is_some() => return Err(not_running()),
            None => {
                context.name = String::new();
                return Ok(with_options(context, global));
            }
        };
        context.url = stack.url()?;
        context.region = stack.variable("AWS_REGION").map(str::to_owned);
        context.names = stack.names();
        context.local = Some(stack);
    } else if !context.name.is_empty() {
        let settings = contexts.get(&context.name)?;
        context.url.clone_from(&settings.url);
        context.region.clone_from(&settings.region);
        context.stack.clone_from(&settings.stack);
        context.aws_profile.clone_from(&settings.aws_profile);
        context.names = settings.names.clone();
    }
    Ok(with_options(context, global))
}

/// Replaces settings of the context by the options of the command line. An option for another stack
/// or region also clears the resource names, the address and the local stack.
fn with_options(mut context: Context, global: &Global) -> Context {
    let others = [(&global.stack, &context.stack), (&global.region, &context.region)];
    if others.into_iter().any(|(given, known)| given.is_some() && given != known) {
        context.names = aws::Names::default();
        context.url = None;
        context.local = None;
    }
    context.url = global.url.clone().or(context.url);
    context.stack = global.stack.clone().or(context.stack);
    context.region = global.region.clone().or(context.region);
    context.aws_profile = global.aws_profile.clone().or(context.aws_profile);
    context.names.access_table = global.table.clone().or(context.names.access_table);
    context.yes = global.yes;
    context.program = global.program();
    context
}

fn not_running() -> Failure {
    Failure::usage("the local stack is not running")
        .why("there is no .local/env in this directory or above it")
        .next("start it with `make run`, or choose another context: integrahub context list")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        version = 1
        current = "prod"
        [contexts.prod]
        url = "https://api.example.com"
        stack = "integrahub"
        region = "sa-east-1"
        [contexts.prod.names]
        access_table = "integrahub-Access"
        [contexts.till]
        url = "https://till.example.com"
    "#;

    fn contexts(text: &str) -> Contexts {
        Contexts::parse(text, "/nowhere".into()).unwrap()
    }

    fn chosen(global: &Global, text: &str) -> Result<Context, Failure> {
        choose(global, &contexts(text), || Ok(None))
    }

    #[test]
    fn an_option_wins_over_the_context() {
        let global = Global { url: Some("https://other.example.com".parse().unwrap()), ..Global::default() };
        let context = chosen(&global, FILE).unwrap();
        assert_eq!(context.url.unwrap().host_str(), Some("other.example.com"));
        assert_eq!((context.name.as_str(), context.stack.as_deref()), ("prod", Some("integrahub")));
        let named = Global { context: Some("till".to_owned()), ..Global::default() };
        assert_eq!(chosen(&named, FILE).unwrap().stack, None);
    }

    #[test]
    fn another_stack_has_other_names_and_another_address() {
        let global = Global { stack: Some("integrahub-dev".to_owned()), ..Global::default() };
        let context = chosen(&global, FILE).unwrap();
        assert_eq!((context.names.access_table, context.url), (None, None));
        let same = Global { stack: Some("integrahub".to_owned()), ..Global::default() };
        assert_eq!(chosen(&same, FILE).unwrap().names.access_table.as_deref(), Some("integrahub-Access"));
    }

    #[test]
    fn programs_get_plain_members() {
        let context = Context { source_of_name: "options".to_owned(), ..Context::default() };
        let document = context.document(&context.described());
        let expected = json!({"context": null, "contextFrom": "options", "url": null, "keyFrom": null,
            "stack": null, "region": null, "awsProfile": null, "accessTable": null});
        assert_eq!(Value::Object(document), expected);
        let prod = chosen(&Global::default(), FILE).unwrap();
        let document = prod.document(&prod.described());
        assert_eq!(
            (&document["context"], &document["accessTable"]),
            (&json!("prod"), &json!("integrahub-Access"))
        );
    }

    #[test]
    fn the_local_stack_is_found_if_no_context_is_in_use() {
        let stack = || Ok(Some(LocalStack::parse("export API='http://127.0.0.1:8080'\n")));
        let found = choose(&Global::default(), &contexts("version = 1"), stack).unwrap();
        assert_eq!((found.name.as_str(), found.url.unwrap().port()), (LOCAL, Some(8080)));
        let current = choose(&Global::default(), &contexts(FILE), stack).unwrap();
        assert_eq!(current.name, "prod");
        assert_eq!(chosen(&Global::default(), "version = 1").unwrap().name, "");
    }

    #[test]
    fn a_context_that_is_named_has_to_exist() {
        for (name, says) in [("prd", "there is no context `prd`"), (LOCAL, "not running")] {
            let global = Global { context: Some(name.to_owned()), ..Global::default() };
            assert!(chosen(&global, FILE).unwrap_err().what.contains(says), "{name}");
        }
    }
}
