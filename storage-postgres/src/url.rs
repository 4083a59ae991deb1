//! Connection strings: URLs and pairs of key and value, as PostgreSQL's own tools accept them.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::error::OpenError;

/// Parsed connection string.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) config: Config,
    /// `None` without `sslmode`.
    tls: Option<bool>,
    /// File of root certificates, of `sslrootcert`.
    pub(crate) root_certificates: Option<PathBuf>,
}

impl Target {
    /// Parses a connection string.
    ///
    /// # Errors
    /// [`OpenError::InvalidUrl`], without any part of the string but names.
    pub(crate) fn parse(string: &str) -> Result<Self, OpenError> {
        let mut target = Self {
            config: Config::new(),
            tls: None,
            root_certificates: None,
        };
        let rest = match string.split_once("://") {
            Some(("postgres" | "postgresql", _)) => target.take_from_url(string)?,
            Some((scheme, _)) if scheme.chars().all(|c| c.is_ascii_alphanumeric()) => {
                return invalid("it must begin with postgres://");
            }
            _ => target.take_from_pairs(string)?,
        };
        target.config = rest.parse().map_err(|error| {
            let reason = crate::error::describe(&error);
            OpenError::InvalidUrl { reason }
        })?;
        if target.config.get_hosts().is_empty() && target.config.get_hostaddrs().is_empty() {
            return invalid("it names no host");
        }
        let missing = [
            ("user", target.config.get_user().is_none()),
            (
                "database",
                target.config.get_dbname().is_none_or(str::is_empty),
            ),
        ];
        let missing: Vec<_> = missing.into_iter().filter(|(_, is)| *is).collect();
        if !missing.is_empty() {
            let missing: Vec<_> = missing.into_iter().map(|(name, _)| name).collect();
            return invalid(&format!(
                "it names no {}; write postgres://USER@HOST/DATABASE",
                missing.join(" and no ")
            ));
        }
        if target.config.get_application_name().is_none() {
            target.config.application_name("knowledge");
        }
        Ok(target)
    }

    /// Takes the parameters that the client library does not know, and returns the other ones.
    fn take_from_url(&mut self, url: &str) -> Result<String, OpenError> {
        let Some((base, query)) = url.split_once('?') else {
            return Ok(url.to_owned());
        };
        let mut others = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value).decode_utf8_lossy();
            if !self.take(name, &value)? {
                others.push(pair);
            }
        }
        if others.is_empty() {
            Ok(base.to_owned())
        } else {
            Ok(format!("{base}?{}", others.join("&")))
        }
    }

    /// Takes the parameters that the client library does not know, and returns the other ones.
    fn take_from_pairs(&mut self, mut rest: &str) -> Result<String, OpenError> {
        let mut others = String::new();
        loop {
            rest = rest.trim_start();
            if rest.is_empty() {
                return Ok(others);
            }
            let Some((name, behind)) = rest.split_once('=') else {
                return invalid("expected pairs of a name and a value, such as host=localhost");
            };
            let behind = behind.trim_start();
            let (value, length) = unquote(behind);
            if !self.take(name.trim_end(), &value)? {
                let quoted = &behind[..length];
                others.push_str(&format!("{}={quoted} ", name.trim_end()));
            }
            rest = &behind[length..];
        }
    }

    /// Takes a parameter, and returns false if it is left to the client library.
    fn take(&mut self, name: &str, value: &str) -> Result<bool, OpenError> {
        match (name, value) {
            ("sslmode", "disable") => self.tls = Some(false),
            ("sslmode", "require" | "verify-ca" | "verify-full") => self.tls = Some(true),
            ("sslmode", _) => {
                return invalid("sslmode must be disable or verify-full");
            }
            ("sslrootcert", "system") => self.root_certificates = None,
            ("sslrootcert", path) => self.root_certificates = Some(path.into()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns one configuration for each host, in the order in which they are tried.
    pub(crate) fn hosts(&self) -> Vec<HostConfig> {
        let config = &self.config;
        let count = config.get_hosts().len().max(config.get_hostaddrs().len());
        (0..count).map(|index| self.host(index)).collect()
    }

    fn host(&self, index: usize) -> HostConfig {
        let all = &self.config;
        let mut config = all.clone_without_hosts();
        let host = all.get_hosts().get(index);
        let address = all.get_hostaddrs().get(index);
        let ports = all.get_ports();
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        config.port(port);
        if let Some(address) = address {
            config.hostaddr(*address);
        }
        let (name, is_local) = match host {
            Some(Host::Tcp(name)) => {
                config.host(name);
                (name.clone(), is_loopback(name))
            }
            #[cfg(unix)]
            Some(Host::Unix(path)) => {
                config.host_path(path);
                (path.display().to_string(), true)
            }
            None => (
                address.map(IpAddr::to_string).unwrap_or_default(),
                address.is_some_and(IpAddr::is_loopback),
            ),
        };
        let is_socket = name.starts_with('/');
        HostConfig {
            name: format!("{name}:{port}"),
            uses_tls: !is_socket && self.tls.unwrap_or(!is_local),
            config,
        }
    }
}

/// Configuration for one host.
pub(crate) struct HostConfig {
    /// Host and port, for messages.
    pub(crate) name: String,
    pub(crate) uses_tls: bool,
    pub(crate) config: Config,
}

/// Copies of a configuration.
trait CloneWithoutHosts {
    /// Copies everything except hosts, addresses and ports.
    fn clone_without_hosts(&self) -> Config;
}

impl CloneWithoutHosts for Config {
    fn clone_without_hosts(&self) -> Config {
        let mut copy = Config::new();
        if let Some(user) = self.get_user() {
            copy.user(user);
        }
        if let Some(password) = self.get_password() {
            copy.password(password);
        }
        if let Some(name) = self.get_dbname() {
            copy.dbname(name);
        }
        if let Some(options) = self.get_options() {
            copy.options(options);
        }
        if let Some(name) = self.get_application_name() {
            copy.application_name(name);
        }
        if let Some(time) = self.get_connect_timeout() {
            copy.connect_timeout(*time);
        }
        if let Some(time) = self.get_tcp_user_timeout() {
            copy.tcp_user_timeout(*time);
        }
        if let Some(time) = self.get_keepalives_interval() {
            copy.keepalives_interval(time);
        }
        if let Some(retries) = self.get_keepalives_retries() {
            copy.keepalives_retries(retries);
        }
        copy.keepalives(self.get_keepalives())
            .keepalives_idle(self.get_keepalives_idle())
            .ssl_negotiation(self.get_ssl_negotiation())
            .channel_binding(self.get_channel_binding());
        copy
    }
}

/// Shows where a connection leads, without the password.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<_> = self.hosts().into_iter().map(|host| host.name).collect();
        f.debug_struct("Target")
            .field("hosts", &hosts)
            .field("database", &self.config.get_dbname())
            .field("user", &self.config.get_user())
            .finish_non_exhaustive()
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Returns the value at the start of `text` and its length there, with quotes and escapes.
fn unquote(text: &str) -> (String, usize) {
    let mut value = String::new();
    let is_quoted = text.starts_with('\'');
    let mut chars = text.char_indices().skip(usize::from(is_quoted));
    while let Some((at, char)) = chars.next() {
        match char {
            '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
            '\'' if is_quoted => return (value, at + 1),
            space if space.is_whitespace() && !is_quoted => return (value, at),
            other => value.push(other),
        }
    }
    (value, text.len())
}

fn invalid<T>(reason: &str) -> Result<T, OpenError> {
    Err(OpenError::InvalidUrl {
        reason: reason.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(string: &str) -> Vec<(String, bool)> {
        let hosts = Target::parse(string).unwrap().hosts();
        hosts
            .into_iter()
            .map(|host| (host.name, host.uses_tls))
            .collect()
    }

    #[test]
    fn url_lists_hosts_in_order() {
        let found = hosts("postgres://u:p@a:1,127.0.0.1:2,b:3/db?application_name=x");
        let expected = [("a:1", true), ("127.0.0.1:2", false), ("b:3", true)];
        assert_eq!(found, expected.map(|(name, tls)| (name.to_owned(), tls)));
    }

    #[test]
    fn tls_is_on_unless_the_host_is_local_or_the_mode_says_so() {
        for (string, tls) in [
            ("postgres://u@db.example/x", true),
            ("postgres://u@db.example/x?sslmode=disable", false),
            ("postgres://u@localhost/x", false),
            ("postgres://u@localhost/x?sslmode=verify-full", true),
            ("postgres://u@%2Fvar%2Frun/x?sslmode=require", false),
            ("host=db.example user=u dbname=x", true),
            ("host=db.example user=u sslmode='disable' dbname=x", false),
        ] {
            assert_eq!(hosts(string)[0].1, tls, "{string}");
        }
    }

    #[test]
    fn pairs_and_url_give_the_same_parameters() {
        let url = "postgresql://me:a%20'b@h:6000/db?sslrootcert=%2Fca.pem&connect_timeout=3";
        let pairs = r"host=h port=6000 user = me password='a \'b' sslrootcert=/ca.pem dbname=db
            connect_timeout=3";
        for string in [url, pairs] {
            let target = Target::parse(string).unwrap();
            assert_eq!(target.config.get_password(), Some(b"a 'b".as_slice()));
            assert_eq!(target.config.get_user(), Some("me"));
            assert_eq!(target.config.get_dbname(), Some("db"));
            assert_eq!(target.root_certificates, Some("/ca.pem".into()));
            assert_eq!(target.config.get_connect_timeout().unwrap().as_secs(), 3);
            assert_eq!(target.hosts()[0].name, "h:6000");
        }
    }

    #[test]
    fn invalid_string_is_rejected_without_its_password() {
        for string in [
            "mysql://u:hidden@h/x",
            "postgres://u:hidden@h:port/x",
            "postgres://u:hidden@h/x?sslmode=prefer",
            "postgres://u:hidden@h/x?unknown=hidden",
            "user=u password=hidden",
            "password=hidden host",
            "hidden",
            "",
        ] {
            let error = Target::parse(string).unwrap_err();
            assert!(matches!(error, OpenError::InvalidUrl { .. }), "{string}");
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("hidden"), "{shown}");
        }
    }

    #[test]
    fn missing_user_or_database_is_named() {
        for (string, missing) in [
            ("postgres://h/x", "no user;"),
            ("postgres://u@h", "no database;"),
            ("postgres://u:p@h/", "no database;"),
            ("postgres://h", "no user and no database;"),
            ("host=h password=p", "no user and no database;"),
        ] {
            let error = Target::parse(string).unwrap_err().to_string();
            assert!(error.contains(missing), "{string}: {error}");
        }
        Target::parse("postgres://h/?user=u&dbname=x").unwrap();
    }

    #[test]
    fn debug_hides_the_password() {
        for string in [
            "postgres://u:hidden@h/x",
            "host=h user=u dbname=x password=hidden",
        ] {
            let shown = format!("{:?}", Target::parse(string).unwrap());
            assert!(!shown.contains("hidden"), "{shown}");
        }
    }
}
