//! Values that are written as text: names, paths, addresses.

use std::ffi::OsStr;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use knowledge_core::model::{BaseUrl, IpNet};

use crate::admin::SocketPlace;
use crate::net::{AllowedOrigin, ForwardingHeader};
#[cfg(feature = "oidc")]
use crate::oidc::{GrantedRole, GroupGrant, Issuer};
use crate::store_address::StoreAddress;

/// Value that is written as text.
pub(crate) trait Textual: Sized {
    /// Description of the accepted values: `an address with a port`.
    const EXPECTS: &'static str;
    /// Placeholder of a value in usage lines.
    const PLACEHOLDER: &'static str;
    /// True if messages may quote a rejected value.
    const MAY_BE_SHOWN: bool = true;

    /// Parses the text; `None` if it is invalid.
    fn read(text: &OsStr) -> Option<Self>;

    /// Returns the text; `None` if there is no value.
    fn write(&self) -> Option<String>;
}

/// Empty text means no value, so that a source can remove the value of another.
impl<T: Textual> Textual for Option<T> {
    const EXPECTS: &'static str = T::EXPECTS;
    const PLACEHOLDER: &'static str = T::PLACEHOLDER;
    const MAY_BE_SHOWN: bool = T::MAY_BE_SHOWN;

    fn read(text: &OsStr) -> Option<Self> {
        if text.is_empty() {
            return Some(None);
        }
        T::read(text).map(Some)
    }

    fn write(&self) -> Option<String> {
        self.as_ref().and_then(Textual::write)
    }
}

impl Textual for PathBuf {
    const EXPECTS: &'static str = "a path";
    const PLACEHOLDER: &'static str = "PATH";

    fn read(text: &OsStr) -> Option<Self> {
        (!text.is_empty()).then(|| text.into())
    }

    fn write(&self) -> Option<String> {
        Some(self.display().to_string())
    }
}

/// Empty text means the default location beside the data directory.
impl Textual for SocketPlace {
    const EXPECTS: &'static str = "a path, or off";
    const PLACEHOLDER: &'static str = "PATH";

    fn read(text: &OsStr) -> Option<Self> {
        Some(match text.to_str() {
            Some("") => Self::Beside,
            Some("off") => Self::Off,
            _ => Self::At(text.into()),
        })
    }

    fn write(&self) -> Option<String> {
        match self {
            Self::Beside => None,
            Self::At(path) => Some(path.display().to_string()),
            Self::Off => Some("off".to_owned()),
        }
    }
}

/// Implements [`Textual`] for types whose [`Display`](std::fmt::Display) is their notation. A row
/// has the type, its placeholder, if messages may quote a rejected value, the function that parses
/// it, and the accepted values.
macro_rules! displayed {
    ($(
        $(#[$meta:meta])*
        $type:ty: $placeholder:literal, $may_be_shown:ident, $read:expr, $expects:expr;
    )+) => {$(
        $(#[$meta])*
        impl Textual for $type {
            const EXPECTS: &'static str = $expects;
            const PLACEHOLDER: &'static str = $placeholder;
            const MAY_BE_SHOWN: bool = displayed!($may_be_shown);

            fn read(text: &OsStr) -> Option<Self> {
                let read: fn(&str) -> Option<Self> = $read;
                read(text.to_str()?)
            }

            fn write(&self) -> Option<String> {
                Some(self.to_string())
            }
        }
    )+};
    (shown) => {
        true
    };
    (hidden) => {
        false
    };
}

displayed! {
    String: "TEXT", shown, |text| (!text.is_empty()).then(|| text.to_owned()),
        "text";

    SocketAddr: "ADDR", shown, |text| text.parse().ok(),
        "an address with a port, such as 127.0.0.1:8080 or [::1]:8080";

    IpNet: "RANGE", shown, parse_range,
        "a range of addresses such as 10.20.0.0/16 or fd12:3456::/32, or one address";

    AllowedOrigin: "ORIGIN", shown, Self::parse,
        "an origin such as https://app.example.com, in lower case and without a path, or *";

    // Names of headers have no case.
    ForwardingHeader: "HEADER", shown, |text| text.to_ascii_lowercase().parse().ok(),
        "x-forwarded-for or forwarded";

    // It may be the address of a database with its password, and mistyped.
    StoreAddress: "STORE", hidden, |text| text.parse().ok(), Self::NOTATION;

    // It may contain a password.
    BaseUrl: "URL", hidden, Self::parse,
        "an http or https URL without credentials or a query, such as \
         https://knowledge.example.com";

    // It may contain a password.
    #[cfg(feature = "oidc")]
    Issuer: "URL", hidden, Self::parse,
        "an https URL without credentials or a query, such as https://login.example.com; http only \
         on this machine";

    #[cfg(feature = "oidc")]
    GroupGrant: "GRANT", shown, |text| text.parse().ok(),
        "a group and what it grants, such as engineering = team:platform, staff = role:member or \
         writers = role:admin@handbook";

    #[cfg(feature = "oidc")]
    GrantedRole: "ROLE", shown, |text| text.parse().ok(),
        "viewer, member, admin or the slug of a custom role";
}

/// Parses a range; a single address means the range that contains only it.
fn parse_range(text: &str) -> Option<IpNet> {
    let range = text.parse::<IpNet>().ok();
    let range = range.or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))?;
    Some(range.trunc())
}
