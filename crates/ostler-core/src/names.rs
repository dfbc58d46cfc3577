//! Enums whose variants have names, on the wire, in files and on the command line.

/// Declares an enum with a name for each variant: the list of them, `as_str` and `Display`. With
/// the type of an error after the enum's name, also `FromStr`.
#[doc(hidden)]
#[macro_export]
macro_rules! __named {
    (
        $(#[$meta:meta])* pub enum $name:ident $(or $error:ident)? {
            $($(#[$doc:meta])* $variant:ident = $text:literal,)*
        }
    ) => {
        $(#[$meta])*
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// Every variant, in the order of the documentation.
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$variant),*];

            /// Returns the name.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        $(impl std::str::FromStr for $name {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let known = Self::ALL.into_iter().find(|known| known.as_str() == text);
                known.ok_or_else(|| $error(text.to_owned()))
            }
        })?
    };
}

pub use __named as named;
