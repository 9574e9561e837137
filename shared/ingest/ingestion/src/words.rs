//! Enums whose values have a word in requests, metadata and the database.

/// Error for a text that is not the word of any value of an enum. It lists the valid words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be {}", listed(.0))]
pub struct UnknownWord(pub &'static [&'static str]);

fn listed(words: &[&str]) -> String {
    match words {
        [one, other] => format!("{one} or {other}"),
        words => format!("one of {}", words.join(", ")),
    }
}

/// Declares an enum, each of whose values has a word for requests, metadata and the database. A
/// crate that uses the macro must depend on `serde`.
#[macro_export]
macro_rules! words {
    ($($(#[$meta:meta])* $name:ident { $($(#[$about:meta])* $value:ident = $word:literal,)+ })+) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
            pub enum $name {
                $(
                    $(#[$about])*
                    #[serde(rename = $word)]
                    $value,
                )+
            }

            impl $name {
                /// All values of the enum, in the order of their declaration.
                pub const ALL: [Self; [$($word),+].len()] = [$(Self::$value),+];

                /// Returns the value's word in requests, metadata and the database.
                #[must_use]
                pub const fn as_str(self) -> &'static str {
                    match self {
                        $(Self::$value => $word,)+
                    }
                }
            }

            impl std::str::FromStr for $name {
                type Err = $crate::UnknownWord;

                fn from_str(text: &str) -> Result<Self, $crate::UnknownWord> {
                    let known = Self::ALL.into_iter().find(|known| known.as_str() == text);
                    known.ok_or($crate::UnknownWord(&[$($word),+]))
                }
            }

            impl std::fmt::Display for $name {
                fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str(self.as_str())
                }
            }
        )+
    };
}

pub(crate) use words;
