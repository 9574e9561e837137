//! Macro for command-line options whose values are words of the API, such as `delta` and `full`.

/// Declares an enum of command-line choices, with the word on the command line for each variant.
macro_rules! choices {
    ($($(#[$meta:meta])* $name:ident { $($(#[$about:meta])* $choice:ident = $word:literal,)+ })+) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
            pub(crate) enum $name {
                $(
                    $(#[$about])*
                    #[value(name = $word)]
                    $choice,
                )+
            }

            impl $name {
                /// Returns the word of this value, which the command line and the API have in
                /// common.
                pub(crate) const fn as_str(self) -> &'static str {
                    match self {
                        $(Self::$choice => $word,)+
                    }
                }
            }
        )+
    };
}

pub(crate) use choices;
