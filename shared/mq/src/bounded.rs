//! Integers that cannot be out of range once they exist.

/// Declares a newtype over an integer with inclusive bounds and a default, which refuses anything else when it is
/// parsed: `bounded!(/** Docs. */ TxSize: u32, 1..=100_000, default 100);`
macro_rules! bounded {
    ($(#[$doc:meta])* $name:ident: $int:ty, $min:literal ..= $max:literal, default $default:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        #[serde(try_from = "i64")]
        pub struct $name($int);

        impl $name {
            pub const MIN: $int = $min;
            pub const MAX: $int = $max;

            pub const fn get(self) -> $int {
                self.0
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self($default)
            }
        }

        impl TryFrom<i64> for $name {
            type Error = String;

            fn try_from(value: i64) -> Result<Self, String> {
                <$int>::try_from(value)
                    .ok()
                    .filter(|value| ($min..=$max).contains(value))
                    .map(Self)
                    .ok_or_else(|| format!("must be between {} and {}, not {value}", Self::MIN, Self::MAX))
            }
        }
    };
}

pub(crate) use bounded;
