//! Name under which a file is sent: the same for the same content as long as it is on its way, and
//! a new one when content is loaded again that was loaded before.

use std::path::Path;

use jiff::Timestamp;

use super::content::Content;
use super::journal::{Entry, State, Way};
use crate::args::{LoadType, PartialItems, Send};

/// Maximum number of bytes of content that one request carries. Larger content is uploaded.
pub(crate) const MAX_REQUEST: u64 = 4_500_000;

/// Options of a load that are the same for all files of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) load_type: LoadType,
    pub(crate) partial_items: Option<PartialItems>,
}

impl Kind {
    /// Returns the load options of a run.
    pub(crate) const fn of(args: &Send) -> Self {
        Self { load_type: args.load_type, partial_items: args.partial_items }
    }

    /// Returns the identity of a load in the journal: its options, form and SHA-256. File names do
    /// not matter.
    pub(crate) fn identity(&self, content: &Content) -> String {
        let partial = self.partial_items.map(|partial| format!(":{}", partial.as_str()));
        let (load_type, form) = (self.load_type.as_str(), content.form.as_str());
        format!("{load_type}:{form}{}:{}", partial.unwrap_or_default(), content.sha256)
    }
}

/// Size and time of the last change of a file, by which a later change is noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) bytes: u64,
    pub(crate) modified: Option<Timestamp>,
}

impl Version {
    /// Returns the size and the time of the last change that a file's metadata contain.
    pub(crate) fn of(metadata: &std::fs::Metadata) -> Self {
        let modified = metadata.modified().ok().and_then(|time| Timestamp::try_from(time).ok());
        Self { bytes: metadata.len(), modified }
    }
}

/// User's choice of whether content that was sent before is a new load.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wish<'a> {
    /// The load has the name that `--key` gives it.
    Named(&'a str),
    /// Content that was loaded before is loaded again (`--again`).
    Again,
    /// A file that was loaded before is loaded again only if it has changed (`--watch`).
    Once,
    /// A load that an earlier run left unfinished is continued; after a finished load, a new one
    /// begins.
    Continue,
}

impl<'a> Wish<'a> {
    /// Returns the choice that the options `--key`, `--again` and `--watch` of a run express.
    pub(crate) fn of(args: &'a Send) -> Self {
        match (&args.key, args.again, &args.watch) {
            (Some(key), ..) => Self::Named(key),
            (None, true, _) => Self::Again,
            (None, false, Some(_)) => Self::Once,
            (None, false, None) => Self::Continue,
        }
    }
}

/// Planned load of a file: its journal entry, and whether it continues a load of an earlier run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) entry: Entry,
    pub(crate) is_begun: bool,
}

/// Returns the identity of a load in the journal: the user's name for it, or the content's
/// identity.
pub(crate) fn identity(kind: Kind, content: &Content, wish: Wish<'_>) -> String {
    match wish {
        Wish::Named(key) => format!("named:{key}"),
        _ => kind.identity(content),
    }
}

/// Plans the load of a file. `found` is the last journal entry with the same identity.
pub(crate) fn plan(
    api: &str,
    kind: Kind,
    content: &Content,
    (path, version): (&Path, &Version),
    wish: Wish<'_>,
    found: Option<&Entry>,
) -> Plan {
    let identity = identity(kind, content, wish);
    let way = if content.bytes > MAX_REQUEST { Way::Upload } else { Way::Request };
    let place = |entry: Entry| Entry {
        file: path.to_owned(),
        bytes: version.bytes,
        modified: version.modified,
        ..entry
    };
    if let Some(entry) = found {
        let is_same_file =
            entry.file == path && (entry.bytes, entry.modified) == (version.bytes, version.modified);
        let goes_on = match entry.state {
            State::Sending => true,
            State::Accepted => !matches!(wish, Wish::Again),
            State::Final => matches!(wish, Wish::Once) && is_same_file,
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
    let key = match wish {
        Wish::Named(key) => key.to_owned(),
        Wish::Again => format!("send:{identity}:again-{:08x}", fastrand::u32(..)),
        Wish::Once | Wish::Continue if occurrence == 1 => format!("send:{identity}"),
        Wish::Once | Wish::Continue => format!("send:{identity}:{occurrence}"),
    };
    let entry = Entry { occurrence, ..Entry::new(State::Sending, api, &identity, key, way) };
    Plan { entry: place(entry), is_begun: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Form;

    const KIND: Kind = Kind { load_type: LoadType::Full, partial_items: None };

    fn content(bytes: u64) -> Content {
        let sha256 = "0f".repeat(32);
        Content { bytes, sha256, form: Form::Lines, is_gzip: false, establishment: None }
    }

    fn version(seconds: i64) -> Version {
        Version { bytes: 1, modified: Timestamp::from_second(seconds).ok() }
    }

    fn planned(wish: Wish<'_>, seconds: i64, last: Option<&Entry>) -> Plan {
        plan("api", KIND, &content(1), (Path::new("a.json"), &version(seconds)), wish, last)
    }

    #[test]
    fn the_key_follows_from_the_content_and_the_kind() {
        let plan = planned(Wish::Continue, 1, None);
        assert_eq!(plan.entry.key, format!("send:full:lines:{}", "0f".repeat(32)));
        assert!(!plan.is_begun);
        let partial = Kind { partial_items: Some(PartialItems::Refuse), ..KIND };
        assert!(partial.identity(&content(1)).starts_with("full:lines:refuse:0f"));
    }

    #[test]
    fn what_is_on_its_way_goes_on_under_its_key() {
        let begun = Entry { way: Way::Upload, key: "k".to_owned(), ..planned(Wish::Continue, 1, None).entry };
        for state in [State::Sending, State::Accepted] {
            for wish in [Wish::Continue, Wish::Once] {
                let plan = planned(wish, 2, Some(&begun.now(state)));
                assert!(plan.is_begun, "{wish:?}");
                assert_eq!((plan.entry.key.as_str(), plan.entry.way), ("k", Way::Upload));
            }
        }
        assert!(planned(Wish::Again, 2, Some(&begun.now(State::Sending))).is_begun);
        let again = planned(Wish::Again, 2, Some(&begun.now(State::Accepted)));
        assert!(!again.is_begun && again.entry.key != "k", "the API has it: this is another load");
    }

    #[test]
    fn prices_that_return_to_what_they_were_are_loaded_again() {
        let first = planned(Wish::Continue, 1, None).entry;
        let second = planned(Wish::Continue, 1, Some(&first.now(State::Final)));
        assert_eq!((second.entry.key, second.is_begun), (format!("{}:2", first.key), false));
        let again = planned(Wish::Again, 1, Some(&first.now(State::Final))).entry;
        assert!(again.key.starts_with(&format!("{}:again-", first.key)) && again.occurrence == 2);
    }

    #[test]
    fn a_watched_file_that_is_still_there_is_not_loaded_twice() {
        let entry = planned(Wish::Once, 1, None).entry.now(State::Final);
        assert!(planned(Wish::Once, 1, Some(&entry)).is_begun);
        let written_anew = planned(Wish::Once, 2, Some(&entry));
        assert!(!written_anew.is_begun && written_anew.entry.occurrence == 2);
        let put_back = planned(Wish::Once, 1, Some(&entry.elsewhere(Path::new("failed/a.json"))));
        assert!(!put_back.is_begun && put_back.entry.occurrence == 2);
    }

    #[test]
    fn what_was_refused_has_used_up_no_key() {
        let refused = planned(Wish::Continue, 1, None).entry.now(State::Refused);
        let plan = planned(Wish::Continue, 1, Some(&refused));
        assert_eq!((plan.entry.key, plan.entry.occurrence), (refused.key, 1));
    }

    #[test]
    fn the_size_decides_about_the_way_as_the_contract_says() {
        let way = |bytes| {
            let file = (Path::new("a"), &version(1));
            plan("api", KIND, &content(bytes), file, Wish::Continue, None).entry.way
        };
        assert_eq!((way(MAX_REQUEST), way(MAX_REQUEST + 1)), (Way::Request, Way::Upload));
        let contract = include_str!("../../../openapi.yaml");
        assert!(contract.contains(&format!("maxLength: {MAX_REQUEST}, description: The gzip of the array.")));
    }
}
