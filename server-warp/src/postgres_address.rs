//! Address of a PostgreSQL database, whose password is never shown.

use std::fmt;

/// URL of a PostgreSQL database, such as `postgres://user@host/database`.
///
/// It may contain a password. `Display` and `Debug` show the URL without it, and show nothing of a
/// URL in which the end of the password is ambiguous. Whether the URL is valid is decided when the
/// database is opened.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresAddress(String);

impl PostgresAddress {
    /// Schemes of such URLs.
    const SCHEMES: [&'static str; 2] = ["postgres:", "postgresql:"];

    /// Returns the address if the text begins like a URL of PostgreSQL.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut schemes = Self::SCHEMES.iter();
        let is_one = schemes.any(|scheme| text.starts_with(scheme));
        is_one.then(|| Self(text.to_owned()))
    }

    /// Returns the URL with its password.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns true if it is clear which part of the URL is its password.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        self.shown().is_some()
    }

    /// Returns the URL without its password, if it is clear which part that is.
    fn shown(&self) -> Option<String> {
        let (_, rest) = self.0.split_once("://")?;
        let (place, parameters) = match rest.split_once('?') {
            Some((place, parameters)) => (place, Some(parameters)),
            None => (rest, None),
        };
        let (credentials, place) = match place.split_once('@') {
            Some((credentials, place)) => (Some(credentials), place),
            None => (None, place),
        };
        let user = credentials.map(|credentials| {
            let end = credentials.find(':').unwrap_or(credentials.len());
            &credentials[..end]
        });
        let mut shown = "postgres://".to_owned();
        if let Some(user) = user {
            shown.push_str(user);
            shown.push('@');
        }
        shown.push_str(place);
        let parameters = parameters.into_iter().flat_map(|text| text.split('&'));
        let is_public = |parameter: &&str| {
            let name = parameter.split('=').next().unwrap_or_default();
            !name.to_ascii_lowercase().contains("pass")
        };
        let mut separator = '?';
        for parameter in parameters.filter(is_public) {
            shown.push(separator);
            shown.push_str(parameter);
            separator = '&';
        }
        // Of a password with such characters, a part would be behind the first `@` or `?`.
        let is_clear = |part: &str| !part.contains(['@', '?', '#', ' ']);
        let end = shown.find('?').unwrap_or(shown.len());
        let begin = "postgres://".len() + user.map_or(0, |user| user.len() + 1);
        let is_shown = user.is_none_or(|user| is_clear(user) && !user.contains('/'))
            && is_clear(&shown[begin..end])
            && is_clear(shown[end..].trim_start_matches('?'))
            && !(user.is_none() && self.0.contains('@'));
        is_shown.then_some(shown)
    }
}

impl fmt::Display for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.shown().as_deref().unwrap_or("postgres://…"))
    }
}

impl fmt::Debug for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_shown_without_password() {
        for (url, shown) in [
            ("postgres://h/db", "postgres://h/db"),
            ("postgres://u@h/db", "postgres://u@h/db"),
            ("postgresql://u:hidden@h:5433/db", "postgres://u@h:5433/db"),
            ("postgres://u:hid/den@h/db", "postgres://u@h/db"),
            (
                "postgres://u:hidden@a:1,b:2/db?sslmode=disable&password=hidden&connect_timeout=3",
                "postgres://u@a:1,b:2/db?sslmode=disable&connect_timeout=3",
            ),
            ("postgres://u@h/db?PASSWORD=hidden", "postgres://u@h/db"),
        ] {
            let address = PostgresAddress::parse(url).unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!(format!("{address:?}"), shown);
            assert_eq!(address.expose(), url);
        }
    }

    #[test]
    fn address_with_unclear_password_is_not_shown() {
        for url in [
            "postgres:u:hidden@h/db",
            "postgres://u:a@hidden@h/db",
            "postgres://u:a?hidden@h/db",
            "postgres://u:hidden?a@h/db",
            "postgres://u:a?hidden@h/db?b=c",
            "postgres://u:hidden#@h@i/db",
            "postgres://h/db?password=hidden@x",
            "postgres://u@h/db?a=b@hidden",
            "postgres://u:p@h/db hidden",
            "postgres://hid/den@h",
        ] {
            let shown = PostgresAddress::parse(url).unwrap().to_string();
            assert_eq!(shown, "postgres://…", "{url}");
        }
    }

    #[test]
    fn address_begins_with_its_scheme() {
        for other in [
            "postgres",
            "sled:postgres:",
            "mysql://h/db",
            "Postgres://h/db",
        ] {
            assert_eq!(PostgresAddress::parse(other), None, "{other}");
        }
    }
}
