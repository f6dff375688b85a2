//! The server policy: which servers may be queried, and which files may be sent to them.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;

use crate::SourceError;

/// A policy for the servers that the parameters of a check may name.
///
/// A user who may edit the parameters chooses a URL and a file. The deployment decides whether the
/// server may be queried, and whether the file may be sent there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerPolicy {
    /// The folder below which credentials are. No other file is read.
    pub folder: PathBuf,
    /// The servers that may be queried.
    pub servers: Vec<AllowedServer>,
    /// What applies while `servers` is empty.
    pub unlisted: Unlisted,
    /// Where the deployment sets the servers, for errors: a variable or a flag.
    pub setting: &'static str,
}

/// What applies while no server is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlisted {
    /// No server may be queried.
    Refuse,
    /// Every server may be queried, but none with credentials.
    WithoutCredentials,
}

/// A server that parameters may name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AllowedServer {
    /// Its scheme, host and port.
    #[serde(rename = "url", deserialize_with = "origin")]
    pub origin: Origin,
    /// The folder, below that of all credentials, whose files may be sent to it; `.` for all files.
    /// Without it the server is queried without credentials.
    #[serde(default)]
    pub credentials: Option<PathBuf>,
    /// Whether they may be sent over plain HTTP, where every host on the way can read them.
    #[serde(default)]
    pub allow_insecure: bool,
}

/// Scheme, host and port of a URL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    secure: bool,
    host: String,
    port: u16,
}

impl ServerPolicy {
    /// Returns an error unless the server of `uri` may be queried without credentials.
    ///
    /// # Errors
    /// Names the server that is not listed, and the setting.
    pub fn allow_request(&self, uri: &http::Uri) -> Result<(), String> {
        let origin = Origin::of(uri)?;
        let open = self.servers.is_empty() && self.unlisted == Unlisted::WithoutCredentials;
        if open || self.server(&origin).is_some() {
            return Ok(());
        }
        Err(format!(
            "{origin} is not among the servers that may be queried ({} of the deployment)",
            self.setting
        ))
    }

    /// Returns the folder whose files may be sent to the server of `uri`.
    ///
    /// # Errors
    /// States why none may be sent.
    pub fn allow_sending(&self, uri: &http::Uri) -> Result<&Path, String> {
        let origin = Origin::of(uri)?;
        let setting = self.setting;
        let refuse = |why: &str| Err(format!("none may be sent to {origin}: {why}"));
        let Some(server) = self.server(&origin) else {
            return refuse(&format!("{setting} of the deployment does not name it"));
        };
        let Some(folder) = &server.credentials else {
            return refuse(&format!(
                "{setting} of the deployment names it without credentials"
            ));
        };
        if !origin.secure && !server.allow_insecure {
            return refuse(
                "it is queried over plain http; use https, or set allowInsecure in the deployment",
            );
        }
        Ok(folder)
    }

    /// Returns the content of `file`, without the space around it, to be sent to `url`. The file is
    /// read each time, so that it can be rotated.
    ///
    /// # Errors
    /// [`SourceError::Credentials`]: it cannot be read, is not one line, or may not be sent there.
    pub async fn read(&self, file: &str, url: &str) -> Result<String, SourceError> {
        let uri = url
            .parse()
            .map_err(|_| SourceError::Credentials("the URL is invalid".to_owned()))?;
        let folder = self.allow_sending(&uri).map_err(SourceError::Credentials)?;
        let refuse = |problem: String| SourceError::Credentials(format!("{file}: {problem}"));
        let path = self.below(folder, Path::new(file)).await.map_err(refuse)?;
        let text = tokio::fs::read_to_string(path)
            .await
            .map_err(|error| refuse(error.kind().to_string()))?;
        let text = text.trim();
        if text.is_empty() || text.chars().any(char::is_control) {
            return Err(refuse("it must have one line".to_owned()));
        }
        Ok(text.to_owned())
    }

    /// Returns the bytes of `file`, which authenticate to the server of `uri`.
    pub(crate) async fn read_file(
        &self,
        file: &str,
        uri: &http::Uri,
    ) -> Result<Vec<u8>, SourceError> {
        let folder = self.allow_sending(uri).map_err(SourceError::Credentials)?;
        let refuse = |problem: String| SourceError::Credentials(format!("{file}: {problem}"));
        let path = self.below(folder, Path::new(file)).await.map_err(refuse)?;
        let bytes = tokio::fs::read(path).await;
        bytes.map_err(|error| refuse(error.kind().to_string()))
    }

    /// Returns the path of a file that is not sent.
    pub(crate) async fn local(&self, file: &Path) -> Result<PathBuf, String> {
        self.below(Path::new(""), file).await
    }

    /// Returns the path of `file`, which is relative to the folder of all credentials, if it is in
    /// `folder`. Links are followed before the check, because mounted Secrets consist of links.
    async fn below(&self, folder: &Path, file: &Path) -> Result<PathBuf, String> {
        let folder = self.folder.join(folder);
        let outside = || format!("credentials are read only below {}", folder.display());
        let all = tokio::fs::canonicalize(&self.folder)
            .await
            .map_err(|_| outside())?;
        let allowed = tokio::fs::canonicalize(&folder)
            .await
            .map_err(|_| outside())?;
        let path = tokio::fs::canonicalize(all.join(file))
            .await
            .map_err(|error| error.kind().to_string())?;
        if allowed.starts_with(&all) && path.starts_with(&allowed) {
            Ok(path)
        } else {
            Err(outside())
        }
    }

    fn server(&self, origin: &Origin) -> Option<&AllowedServer> {
        self.servers.iter().find(|server| server.origin == *origin)
    }
}

impl AllowedServer {
    /// Parses a list of servers in JSON, such as `[{"url": "https://prometheus.monitoring:9090",
    /// "credentials": "prometheus"}]`. An empty text has none.
    ///
    /// # Errors
    /// The problem with the list.
    pub fn list(text: &str) -> Result<Vec<Self>, String> {
        if text.trim().is_empty() {
            return Ok(Vec::new());
        }
        let servers: Vec<Self> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        for (number, server) in servers.iter().enumerate() {
            let origin = &server.origin;
            if servers[..number]
                .iter()
                .any(|other| other.origin == *origin)
            {
                return Err(format!("{origin} stands there twice"));
            }
            if server.credentials.is_some() && !origin.secure && !server.allow_insecure {
                return Err(format!(
                    "credentials for {origin} would be sent over plain http: use https, or set allowInsecure"
                ));
            }
        }
        Ok(servers)
    }
}

/// Parses the value of a flag: `https://HOST[:PORT]`, with `=FOLDER` if the files of a folder may
/// be sent to it. Files over plain HTTP require a list, except to a loopback address, which no
/// other host can read.
impl FromStr for AllowedServer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (url, folder) = match text.split_once('=') {
            Some((url, folder)) => (url, Some(folder)),
            None => (text, None),
        };
        let origin: Origin = url.parse()?;
        if folder == Some("") {
            return Err(format!("`{text}`: the folder after `=` is missing"));
        }
        let is_loopback = origin.is_loopback();
        if folder.is_some() && !origin.secure && !is_loopback {
            return Err(format!(
                "credentials for {origin} would be sent over plain http: use https"
            ));
        }
        Ok(Self {
            origin,
            credentials: folder.map(PathBuf::from),
            allow_insecure: is_loopback,
        })
    }
}

fn origin<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Origin, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(serde::de::Error::custom)
}

impl Origin {
    /// Returns true if its host is written as a loopback address. A name may resolve to another
    /// one.
    fn is_loopback(&self) -> bool {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        host.parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
    }

    /// Returns the origin of `uri`.
    ///
    /// # Errors
    /// It is not an http or https URL with a host.
    pub fn of(uri: &http::Uri) -> Result<Self, String> {
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("its URL is neither http nor https".to_owned()),
        };
        let host = uri.host().filter(|host| !host.is_empty());
        Ok(Self {
            secure,
            host: host.ok_or("its URL has no host")?.to_ascii_lowercase(),
            port: uri.port_u16().unwrap_or(if secure { 443 } else { 80 }),
        })
    }
}

/// Parses `https://prometheus.monitoring:9090`: only a scheme, a host and a port.
impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("`{text}` is not https://HOST or https://HOST:PORT");
        let uri: http::Uri = text.parse().map_err(|_| expected())?;
        let authority = uri.authority().map(http::uri::Authority::as_str);
        let bare = matches!(uri.path(), "" | "/")
            && uri.query().is_none()
            && authority.is_some_and(|authority| !authority.contains('@'));
        let origin = Self::of(&uri).map_err(|_| expected())?;
        if bare { Ok(origin) } else { Err(expected()) }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_or_rejected_with_a_reason() {
        for (text, expected) in [
            ("", Ok(vec![])),
            ("[]", Ok(vec![])),
            (
                r#"[{"url": "https://A.example/", "credentials": "a"}, {"url": "http://b:9090"}]"#,
                Ok(vec!["https://a.example:443", "http://b:9090"]),
            ),
            (
                r#"[{"url": "http://b", "credentials": "b", "allowInsecure": true}]"#,
                Ok(vec!["http://b:80"]),
            ),
            (
                r#"[{"url": "http://b", "credentials": "b"}]"#,
                Err("plain http: use https, or set allowInsecure"),
            ),
            (
                r#"[{"url": "https://b"}, {"url": "https://b:443/"}]"#,
                Err("https://b:443 stands there twice"),
            ),
            (
                r#"[{"url": "prometheus:9090"}]"#,
                Err("is not https://HOST"),
            ),
            (r#"[{"url": "ftp://b"}]"#, Err("is not https://HOST")),
            (r#"[{"url": "https://b/path"}]"#, Err("is not https://HOST")),
            (r#"[{"url": "https://u@b"}]"#, Err("is not https://HOST")),
            (r#"[{"url": "https://b?q"}]"#, Err("is not https://HOST")),
            (r#"[{"host": "b"}]"#, Err("unknown field `host`")),
            ("prometheus", Err("expected value")),
        ] {
            let read = AllowedServer::list(text);
            match (&read, &expected) {
                (Ok(servers), Ok(origins)) => {
                    let read: Vec<String> = servers
                        .iter()
                        .map(|server| server.origin.to_string())
                        .collect();
                    assert_eq!(read, *origins, "{text}");
                }
                (Err(problem), Err(part)) => assert!(problem.contains(part), "{text}: {problem}"),
                _ => panic!("{text}: {read:?}"),
            }
        }
    }

    #[test]
    fn credentials_are_bound_to_scheme_host_and_port() {
        let servers = AllowedServer::list(
            r#"[{"url": "https://a:9090", "credentials": "a"}, {"url": "http://plain", "credentials": ".", "allowInsecure": true}, {"url": "https://open"}]"#,
        );
        let none = ServerPolicy {
            folder: PathBuf::from("/var/run/secrets/check"),
            servers: Vec::new(),
            unlisted: Unlisted::WithoutCredentials,
            setting: "SOURCES",
        };
        let closed = ServerPolicy {
            unlisted: Unlisted::Refuse,
            ..none.clone()
        };
        let allowed = ServerPolicy {
            servers: servers.unwrap(),
            ..none.clone()
        };
        for (credentials, url, may_query, sent) in [
            (&allowed, "https://a:9090/api/v1/query", true, Some("a")),
            (&allowed, "https://A:9090", true, Some("a")),
            (&allowed, "https://a", false, None),
            (&allowed, "https://a:9091", false, None),
            (&allowed, "http://a:9090", false, None),
            (&allowed, "https://b:9090", false, None),
            (&allowed, "https://a:9090.evil.example", false, None),
            (&allowed, "http://plain/x", true, Some(".")),
            (&allowed, "https://plain", false, None),
            (&allowed, "https://open", true, None),
            (&none, "https://a:9090", true, None),
            (&none, "http://a", true, None),
            (&closed, "https://a:9090", false, None),
            (&closed, "http://169.254.169.254/latest", false, None),
            (&closed, "http://127.0.0.1", false, None),
        ] {
            let Ok(uri) = url.parse::<http::Uri>() else {
                assert!(!may_query && sent.is_none(), "{url}");
                continue;
            };
            assert_eq!(credentials.allow_request(&uri).is_ok(), may_query, "{url}");
            let folder = credentials.allow_sending(&uri).ok();
            assert_eq!(folder, sent.map(Path::new), "{url}");
        }
        // Built by hand, without the validation of a list.
        let by_hand = ServerPolicy {
            servers: vec![AllowedServer {
                origin: "http://a".parse().unwrap(),
                credentials: Some(".".into()),
                allow_insecure: false,
            }],
            ..none
        };
        let problem = by_hand.allow_sending(&http::Uri::from_static("http://a"));
        assert!(problem.unwrap_err().contains("use https"));
    }
    #[test]
    fn a_flag_names_a_server_and_the_folder_of_its_credentials() {
        for (text, expected) in [
            ("https://a.example", Ok(("https://a.example:443", None))),
            (
                "https://a:8443=hooks",
                Ok(("https://a:8443", Some("hooks"))),
            ),
            ("http://a", Ok(("http://a:80", None))),
            ("http://a=hooks", Err("plain http: use https")),
            ("http://localhost=hooks", Err("plain http: use https")),
            (
                "http://127.0.0.1.example=hooks",
                Err("plain http: use https"),
            ),
            ("http://10.0.0.1=hooks", Err("plain http: use https")),
            (
                "http://127.0.0.1:8080=hooks",
                Ok(("http://127.0.0.1:8080", Some("hooks"))),
            ),
            ("http://[::1]=hooks", Ok(("http://[::1]:80", Some("hooks")))),
            ("https://a=", Err("the folder after `=` is missing")),
            ("a.example", Err("is not https://HOST")),
        ] {
            match (text.parse::<AllowedServer>(), expected) {
                (Ok(server), Ok((origin, folder))) => {
                    assert_eq!(server.origin.to_string(), origin);
                    assert_eq!(server.credentials.as_deref(), folder.map(Path::new));
                    assert!(server.origin.secure || folder.is_none() || server.allow_insecure);
                }
                (Err(problem), Err(part)) => assert!(problem.contains(part), "{text}: {problem}"),
                (read, _) => panic!("{text}: {read:?}"),
            }
        }
    }
}
