//! The addresses of webhooks, of services and of pages.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest URL, in characters.
pub const URL_CHARS_MAX: usize = 2_048;

/// An absolute `https` or `http` URL without credentials or fragment, at most [`URL_CHARS_MAX`] characters as it is
/// sent and as it is escaped. Whether
/// deliveries may go there is decided when it is registered and again when it is connected to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WebhookUrl(url::Url);

/// A text that cannot be the address of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUrl {
    /// Over [`URL_CHARS_MAX`] characters.
    #[error("must have at most {URL_CHARS_MAX} characters")]
    TooLong,
    /// Not a URL, or one of another scheme.
    #[error(
        "must be an absolute URL that begins with https://, for example https://example.com/hooks"
    )]
    NotHttp,
    /// A user name or a password in it.
    #[error("must not contain a user name or a password")]
    Credentials,
    /// A part behind `#`, which is never sent.
    #[error("must not have a fragment (#…)")]
    Fragment,
}

impl WebhookUrl {
    /// The parsed URL.
    #[must_use]
    pub fn as_url(&self) -> &url::Url {
        &self.0
    }

    /// The URL as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl FromStr for WebhookUrl {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.chars().count() > URL_CHARS_MAX {
            return Err(InvalidUrl::TooLong);
        }
        let url = url::Url::parse(text).map_err(|_| InvalidUrl::NotHttp)?;
        if !matches!(url.scheme(), "https" | "http") || !url.has_host() {
            return Err(InvalidUrl::NotHttp);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidUrl::Credentials);
        }
        if url.fragment().is_some() {
            return Err(InvalidUrl::Fragment);
        }
        // Escaping makes it longer, and what is stored has to be read again.
        if url.as_str().len() > URL_CHARS_MAX {
            return Err(InvalidUrl::TooLong);
        }
        Ok(Self(url))
    }
}

impl fmt::Display for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for WebhookUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for WebhookUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// An absolute `http` or `https` URL to which paths can be added: without a slash at the end, without a query, and
/// without credentials, which do not belong where configurations are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl(String);

impl BaseUrl {
    /// The URL that the text is, if it is one, as URLs are written (WHATWG URL, "URL serializing").
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let url = url::Url::parse(text).ok()?;
        let is_plain = url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        let is_http = matches!(url.scheme(), "http" | "https") && url.has_host();
        (is_plain && is_http).then(|| Self(url.as_str().trim_end_matches('/').to_owned()))
    }

    /// The URL, without a slash at the end.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a text is the origin of pages as browsers send it: `https://app.example.com`, with the port where it is not the
/// scheme's. Another spelling would match none, and say nothing.
#[must_use]
pub fn is_origin(text: &str) -> bool {
    url::Url::parse(text).is_ok_and(|url| {
        // All that is missing is the path.
        let is_as_sent = url.as_str().strip_suffix('/') == Some(text);
        let has_user = !url.username().is_empty() || url.password().is_some();
        // A name with an asterisk is one to the parser; whoever writes it means a pattern, which it is not.
        matches!(url.scheme(), "http" | "https") && is_as_sent && !has_user && !text.contains('*')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_absolute_http_urls_alone() {
        assert!("https://example.com/hook?a=1".parse::<WebhookUrl>().is_ok());
        for (text, error) in [
            ("", InvalidUrl::NotHttp),
            ("/hook", InvalidUrl::NotHttp),
            ("ftp://example.com", InvalidUrl::NotHttp),
            ("mailto:a@example.com", InvalidUrl::NotHttp),
            ("https://", InvalidUrl::NotHttp),
            ("https://user@example.com", InvalidUrl::Credentials),
            ("https://:pass@example.com", InvalidUrl::Credentials),
            ("https://example.com/#part", InvalidUrl::Fragment),
            (
                &format!("https://example.com/{}", "a".repeat(2_048)),
                InvalidUrl::TooLong,
            ),
        ] {
            assert_eq!(text.parse::<WebhookUrl>().unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn bases_are_plain_http_urls_to_which_paths_are_added() {
        for (text, base) in [
            ("https://knowledge.example", "https://knowledge.example"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
            (" HTTPS://Knowledge.example\n", "https://knowledge.example"),
            (
                "https://example.com/knowledge/",
                "https://example.com/knowledge",
            ),
        ] {
            let parsed = BaseUrl::parse(text).expect(text);
            assert_eq!(
                (parsed.as_str(), parsed.to_string()),
                (base, base.to_owned())
            );
        }
        for other in [
            "",
            "knowledge.example",
            "/knowledge",
            "not a url?x",
            "ftp://knowledge.example",
            "https://",
            "https://maya@knowledge.example",
            "https://:pass@knowledge.example",
            "https://knowledge.example/?a=1",
            "https://knowledge.example/#part",
        ] {
            assert_eq!(BaseUrl::parse(other), None, "{other}");
        }
    }

    #[test]
    fn origins_are_written_as_browsers_send_them() {
        for origin in [
            "https://app.example.com",
            "http://localhost:3000",
            "http://127.0.0.1:8080",
            "https://[::1]:8443",
            "https://xn--bcher-kva.example",
        ] {
            assert!(is_origin(origin), "{origin}");
        }
        for other in [
            "",
            "*",
            "null",
            "app.example.com",
            "https://",
            "https://app.example.com/",
            "https://App.example.com",
            "https://app.example.com:443",
            "http://app.example.com:80",
            "https://user@app.example.com",
            "https://:pass@app.example.com",
            "https://app.example.com?",
            "https://app.example.com/path",
            "https://app.example.com//",
            "https:app.example.com",
            " https://app.example.com",
            "https://*.example.com",
            "https://app.example.com:port",
            "ftp://app.example.com",
        ] {
            assert!(!is_origin(other), "{other}");
        }
    }
}
