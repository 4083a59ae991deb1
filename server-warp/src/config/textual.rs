//! Values that are written as text: names, paths, addresses.

use std::ffi::OsStr;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use knowledge_core::model::{AuditReads, BaseUrl, IpNet, is_origin};
use knowledge_storage_sled::Mode;

use super::network::AllowedOrigin;
use crate::admin::SocketPlace;
use crate::logging::LogFormat;
use crate::net::ForwardingHeader;
#[cfg(feature = "oidc")]
use crate::oidc::{GrantedRole, GroupGrant, Issuer};
use crate::store_address::StoreAddress;

/// Value that is written as text.
pub(crate) trait Textual: Clone {
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

impl Textual for String {
    const EXPECTS: &'static str = "text";
    const PLACEHOLDER: &'static str = "TEXT";

    fn read(text: &OsStr) -> Option<Self> {
        let text = text.to_str()?;
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn write(&self) -> Option<String> {
        Some(self.clone())
    }
}

impl Textual for AuditReads {
    const EXPECTS: &'static str = "none or confidential";
    const PLACEHOLDER: &'static str = "READS";

    fn read(text: &OsStr) -> Option<Self> {
        text.to_str()?.parse().ok()
    }

    fn write(&self) -> Option<String> {
        Some(self.to_string())
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

impl Textual for SocketAddr {
    const EXPECTS: &'static str = "an address with a port, such as 127.0.0.1:8080 or [::1]:8080";
    const PLACEHOLDER: &'static str = "ADDR";

    fn read(text: &OsStr) -> Option<Self> {
        text.to_str()?.parse().ok()
    }

    fn write(&self) -> Option<String> {
        Some(self.to_string())
    }
}

/// A single address means the range that contains only it.
impl Textual for IpNet {
    const EXPECTS: &'static str =
        "a range of addresses such as 10.20.0.0/16 or fd12:3456::/32, or one address";
    const PLACEHOLDER: &'static str = "RANGE";

    fn read(text: &OsStr) -> Option<Self> {
        let text = text.to_str()?;
        let range = text.parse::<Self>().ok();
        let range = range.or_else(|| text.parse::<IpAddr>().ok().map(Self::from))?;
        Some(range.trunc())
    }

    fn write(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Textual for AllowedOrigin {
    const EXPECTS: &'static str =
        "an origin such as https://app.example.com, in lower case and without a path, or *";
    const PLACEHOLDER: &'static str = "ORIGIN";

    fn read(text: &OsStr) -> Option<Self> {
        let text = text.to_str()?;
        let is_one = text == Self::ANY || is_origin(text);
        is_one.then(|| Self(text.to_owned()))
    }

    fn write(&self) -> Option<String> {
        Some(self.0.clone())
    }
}

impl Textual for ForwardingHeader {
    const EXPECTS: &'static str = "x-forwarded-for or forwarded";
    const PLACEHOLDER: &'static str = "HEADER";

    fn read(text: &OsStr) -> Option<Self> {
        let text = text.to_str()?;
        let mut all = Self::ALL.into_iter();
        all.find(|header| header.name().as_str().eq_ignore_ascii_case(text))
    }

    fn write(&self) -> Option<String> {
        Some(self.name().to_string())
    }
}

impl Textual for LogFormat {
    const EXPECTS: &'static str = "auto, text or json";
    const PLACEHOLDER: &'static str = "FORMAT";

    fn read(text: &OsStr) -> Option<Self> {
        match text.to_str()? {
            "auto" => Some(Self::Auto),
            "text" => Some(Self::Text),
            "json" => Some(Self::Json),
            _ => None,
        }
    }

    fn write(&self) -> Option<String> {
        let name = match self {
            Self::Auto => "auto",
            Self::Text => "text",
            Self::Json => "json",
        };
        Some(name.to_owned())
    }
}

impl Textual for Mode {
    const EXPECTS: &'static str = "high_throughput or low_space";
    const PLACEHOLDER: &'static str = "MODE";

    fn read(text: &OsStr) -> Option<Self> {
        match text.to_str()? {
            "high_throughput" => Some(Self::HighThroughput),
            "low_space" => Some(Self::LowSpace),
            _ => None,
        }
    }

    fn write(&self) -> Option<String> {
        let name = match self {
            Self::HighThroughput => "high_throughput",
            Self::LowSpace => "low_space",
        };
        Some(name.to_owned())
    }
}

impl Textual for StoreAddress {
    const EXPECTS: &'static str = Self::NOTATION;
    const PLACEHOLDER: &'static str = "STORE";
    // It may be the address of a database with its password, and mistyped.
    const MAY_BE_SHOWN: bool = false;

    fn read(text: &OsStr) -> Option<Self> {
        text.to_str()?.parse().ok()
    }

    fn write(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Textual for BaseUrl {
    const EXPECTS: &'static str = "an http or https URL without credentials or a query, such as https://knowledge.example.com";
    const PLACEHOLDER: &'static str = "URL";
    // The URL may contain a password.
    const MAY_BE_SHOWN: bool = false;

    fn read(text: &OsStr) -> Option<Self> {
        Self::parse(text.to_str()?)
    }

    fn write(&self) -> Option<String> {
        Some(self.to_string())
    }
}

#[cfg(feature = "oidc")]
impl Textual for Issuer {
    const EXPECTS: &'static str = "an https URL without credentials or a query, such as \
                                   https://login.example.com; http only on this machine";
    const PLACEHOLDER: &'static str = "URL";
    // The URL may contain a password.
    const MAY_BE_SHOWN: bool = false;

    fn read(text: &OsStr) -> Option<Self> {
        Self::parse(text.to_str()?)
    }

    fn write(&self) -> Option<String> {
        Some(self.to_string())
    }
}

#[cfg(feature = "oidc")]
impl Textual for GroupGrant {
    const EXPECTS: &'static str = "a group and what it grants, such as engineering = team:platform, \
                                   staff = role:member or writers = role:admin@handbook";
    const PLACEHOLDER: &'static str = "GRANT";

    fn read(text: &OsStr) -> Option<Self> {
        text.to_str()?.parse().ok()
    }

    fn write(&self) -> Option<String> {
        Some(self.to_string())
    }
}

#[cfg(feature = "oidc")]
impl Textual for GrantedRole {
    const EXPECTS: &'static str = "viewer, member, admin or the slug of a custom role";
    const PLACEHOLDER: &'static str = "ROLE";

    fn read(text: &OsStr) -> Option<Self> {
        text.to_str()?.parse().ok()
    }

    fn write(&self) -> Option<String> {
        Some(self.to_string())
    }
}
