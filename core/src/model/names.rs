//! Macros that define identifiers and enumerations with uniform text forms.

/// Defines identifiers: distinct types over UUIDs.
macro_rules! identifiers {
    ($($(#[$meta:meta])* $name:ident)+) => {$(
        $(#[$meta])*
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub uuid::Uuid);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<uuid::Uuid> for $name {
            fn from(id: uuid::Uuid) -> Self {
                Self(id)
            }
        }

        impl $crate::model::names::Identifier for $name {
            fn uuid(self) -> uuid::Uuid {
                self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::model::InvalidId;

            /// Parses the hyphenated form of 36 characters only, so that an identifier has one
            /// spelling.
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match uuid::Uuid::try_parse(text) {
                    Ok(id) if text.len() == uuid::fmt::Hyphenated::LENGTH => Ok(Self(id)),
                    _ => Err($crate::model::InvalidId),
                }
            }
        }

        #[cfg(feature = "openapi")]
        $crate::schema::inline_schema! { $name: $crate::schema::uuid() }
    )+};
}

/// Defines an enumeration that is serialised as a string, with its JSON schema.
macro_rules! string_enum {
    (
        $(#[$meta:meta])*
        $name:ident { $($(#[$value_meta:meta])* $variant:ident = $text:literal),+ $(,)? }
    ) => {
        $crate::plain_string_enum! {
            $(#[$meta])*
            #[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
            $name {
                $(
                    $(#[$value_meta])*
                    #[cfg_attr(feature = "openapi", schemars(rename = $text))]
                    $variant = $text
                ),+
            }
        }
    };
}

/// Defines an enumeration that is serialised as a string.
#[doc(hidden)]
#[macro_export]
macro_rules! plain_string_enum {
    (
        $(#[$meta:meta])*
        $name:ident { $($(#[$value_meta:meta])* $variant:ident = $text:literal),+ $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $(
                $(#[$value_meta])*
                #[doc = concat!(" Written `", $text, "`.")]
                $variant
            ),+
        }

        impl $name {
            /// Every value, in order of definition.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the name on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::model::UnknownName;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err($crate::model::UnknownName { expected: &[$($text),+] }),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

/// An identifier of any type.
pub(crate) trait Identifier: Copy + From<uuid::Uuid> {
    /// Returns the identifier without its type.
    fn uuid(self) -> uuid::Uuid;
}

/// Error of a text that is not an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a UUID of 36 characters, for example 01890a5d-ac96-774b-bcce-b302099a8057")]
pub struct InvalidId;

/// Error of a text that is not a value of the enumeration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// Valid values.
    pub expected: &'static [&'static str],
}

impl std::fmt::Display for UnknownName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "must be one of {}", self.expected.join(", "))
    }
}

impl std::error::Error for UnknownName {}

pub(crate) use identifiers;
pub(crate) use string_enum;
