//! Idempotency key under which a file is sent. Content keeps its key until its load has ended, and
//! gets a new key if it is loaded again after that.

use std::path::Path;

use jiff::Timestamp;

use super::content::Content;
use super::journal::{Entry, State, Way};
use crate::args::{LoadType, PartialItems, Send};

/// Maximum number of bytes of content that one request carries. Larger content is uploaded.
pub(crate) const MAX_REQUEST: u64 = 4_500_000;

/// Options of a load, which are the same for all files of one `integrahub send` command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadOptions {
    pub(crate) load_type: LoadType,
    pub(crate) partial_items: Option<PartialItems>,
}

impl LoadOptions {
    /// Returns the options of loads that the command line gives.
    pub(crate) const fn of(args: &Send) -> Self {
        Self { load_type: args.load_type, partial_items: args.partial_items }
    }

    /// Returns the identity of a load in the journal: its options, its form and the SHA-256 of its
    /// content. File names do not matter.
    pub(crate) fn identity(&self, content: &Content) -> String {
        let partial = self.partial_items.map(|partial| format!(":{}", partial.as_str()));
        let (load_type, form) = (self.load_type.as_str(), content.form.as_str());
        format!("{load_type}:{form}{}:{}", partial.unwrap_or_default(), content.sha256)
    }
}

/// Size of a file and time of its last change. If they differ later, the file has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    pub(crate) bytes: u64,
    pub(crate) modified: Option<Timestamp>,
}

impl FileStamp {
    /// Returns the size and the time of the last change that a file's metadata contain.
    pub(crate) fn of(metadata: &std::fs::Metadata) -> Self {
        let modified = metadata.modified().ok().and_then(|time| Timestamp::try_from(time).ok());
        Self { bytes: metadata.len(), modified }
    }
}

/// Choice of the user about content that was sent before: whether sending it again is a new load.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ResendChoice<'a> {
    /// The load has the name that `--key` gives it.
    Named(&'a str),
    /// Content that was loaded before is loaded again (`--again`).
    Again,
    /// A file that was loaded before is loaded again only if it has changed (`--watch`).
    Once,
    /// A load that an earlier command left unfinished is continued. Content whose load has ended is
    /// loaded again.
    Continue,
}

impl<'a> ResendChoice<'a> {
    /// Returns the choice that the options `--key`, `--again` and `--watch` express.
    pub(crate) fn of(args: &'a Send) -> Self {
        match (&args.key, args.again, &args.watch) {
            (Some(key), ..) => Self::Named(key),
            (None, true, _) => Self::Again,
            (None, false, Some(_)) => Self::Once,
            (None, false, None) => Self::Continue,
        }
    }
}

/// Planned load of a file: its journal entry, and whether it continues a load that an earlier
/// command began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) entry: Entry,
    pub(crate) is_begun: bool,
}

/// Returns the identity of a load in the journal: the user's name for it, or the content's
/// identity.
pub(crate) fn identity(options: LoadOptions, content: &Content, choice: ResendChoice<'_>) -> String {
    match choice {
        ResendChoice::Named(key) => format!("named:{key}"),
        _ => options.identity(content),
    }
}

/// Plans the load of a file with this path and stamp: whether it continues the load in `found` or
/// is a new one, and its key. `api` is the API's base URL. `found` is the last journal entry with
/// the same identity.
pub(crate) fn plan(
    api: &str,
    options: LoadOptions,
    content: &Content,
    (path, stamp): (&Path, &FileStamp),
    choice: ResendChoice<'_>,
    found: Option<&Entry>,
) -> Plan {
    let identity = identity(options, content, choice);
    let way = if content.bytes > MAX_REQUEST { Way::Upload } else { Way::Request };
    let place =
        |entry: Entry| Entry { file: path.to_owned(), bytes: stamp.bytes, modified: stamp.modified, ..entry };
    if let Some(entry) = found {
        let is_same_file =
            entry.file == path && (entry.bytes, entry.modified) == (stamp.bytes, stamp.modified);
        let goes_on = match entry.state {
            State::Sending => true,
            State::Accepted => !matches!(choice, ResendChoice::Again),
            State::Final => matches!(choice, ResendChoice::Once) && is_same_file,
            State::Refused => false,
        };
        if goes_on {
            return Plan { entry: place(entry.clone()), is_begun: true };
        }
    }
    let earlier = found.map_or(0, |entry| match entry.state {
        State::Refused => entry.occurrence.saturating_sub(1),
        _ => entry.occurrence,
    });
    let occurrence = earlier.saturating_add(1);
    let key = match choice {
        ResendChoice::Named(key) => key.to_owned(),
        ResendChoice::Again => format!("send:{identity}:again-{:08x}", fastrand::u32(..)),
        ResendChoice::Once | ResendChoice::Continue if occurrence == 1 => format!("send:{identity}"),
        ResendChoice::Once | ResendChoice::Continue => format!("send:{identity}:{occurrence}"),
    };
    let entry = Entry { occurrence, ..Entry::new(State::Sending, api, &identity, key, way) };
    Plan { entry: place(entry), is_begun: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Form;

    const OPTIONS: LoadOptions = LoadOptions { load_type: LoadType::Full, partial_items: None };

    fn content(bytes: u64) -> Content {
        let sha256 = "0f".repeat(32);
        Content { bytes, sha256, form: Form::Lines, is_gzip: false, establishment: None }
    }

    fn stamp(seconds: i64) -> FileStamp {
        FileStamp { bytes: 1, modified: Timestamp::from_second(seconds).ok() }
    }

    fn planned(choice: ResendChoice<'_>, seconds: i64, last: Option<&Entry>) -> Plan {
        plan("api", OPTIONS, &content(1), (Path::new("a.json"), &stamp(seconds)), choice, last)
    }

    #[test]
    fn the_key_follows_from_the_content_and_the_options() {
        let plan = planned(ResendChoice::Continue, 1, None);
        assert_eq!(plan.entry.key, format!("send:full:lines:{}", "0f".repeat(32)));
        assert!(!plan.is_begun);
        let partial = LoadOptions { partial_items: Some(PartialItems::Refuse), ..OPTIONS };
        assert!(partial.identity(&content(1)).starts_with("full:lines:refuse:0f"));
    }

    #[test]
    fn what_is_on_its_way_goes_on_under_its_key() {
        let begun =
            Entry { way: Way::Upload, key: "k".to_owned(), ..planned(ResendChoice::Continue, 1, None).entry };
        for state in [State::Sending, State::Accepted] {
            for choice in [ResendChoice::Continue, ResendChoice::Once] {
                let plan = planned(choice, 2, Some(&begun.now(state)));
                assert!(plan.is_begun, "{choice:?}");
                assert_eq!((plan.entry.key.as_str(), plan.entry.way), ("k", Way::Upload));
            }
        }
        assert!(planned(ResendChoice::Again, 2, Some(&begun.now(State::Sending))).is_begun);
        let again = planned(ResendChoice::Again, 2, Some(&begun.now(State::Accepted)));
        assert!(!again.is_begun && again.entry.key != "k", "the API has it: this is another load");
    }

    #[test]
    fn prices_that_return_to_what_they_were_are_loaded_again() {
        let first = planned(ResendChoice::Continue, 1, None).entry;
        let second = planned(ResendChoice::Continue, 1, Some(&first.now(State::Final)));
        assert_eq!((second.entry.key, second.is_begun), (format!("{}:2", first.key), false));
        let again = planned(ResendChoice::Again, 1, Some(&first.now(State::Final))).entry;
        assert!(again.key.starts_with(&format!("{}:again-", first.key)) && again.occurrence == 2);
    }

    #[test]
    fn a_watched_file_that_is_still_there_is_not_loaded_twice() {
        let entry = planned(ResendChoice::Once, 1, None).entry.now(State::Final);
        assert!(planned(ResendChoice::Once, 1, Some(&entry)).is_begun);
        let written_anew = planned(ResendChoice::Once, 2, Some(&entry));
        assert!(!written_anew.is_begun && written_anew.entry.occurrence == 2);
        let put_back = planned(ResendChoice::Once, 1, Some(&entry.elsewhere(Path::new("failed/a.json"))));
        assert!(!put_back.is_begun && put_back.entry.occurrence == 2);
    }

    #[test]
    fn what_was_refused_has_used_up_no_key() {
        let refused = planned(ResendChoice::Continue, 1, None).entry.now(State::Refused);
        let plan = planned(ResendChoice::Continue, 1, Some(&refused));
        assert_eq!((plan.entry.key, plan.entry.occurrence), (refused.key, 1));
    }

    #[test]
    fn the_size_decides_about_the_way_as_the_contract_says() {
        let way = |bytes| {
            let file = (Path::new("a"), &stamp(1));
            plan("api", OPTIONS, &content(bytes), file, ResendChoice::Continue, None).entry.way
        };
        assert_eq!((way(MAX_REQUEST), way(MAX_REQUEST + 1)), (Way::Request, Way::Upload));
        let contract = include_str!("../../../openapi.yaml");
        assert!(contract.contains(&format!("maxLength: {MAX_REQUEST}, description: The gzip of the array.")));
    }
}
