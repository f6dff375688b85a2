//! The certificate of the admin endpoint: made at start, or read from files and reloaded.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// The files of a Secret of type `kubernetes.io/tls`.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// The certificate and the key of an [`Endpoint`](super::Endpoint), served with TLS 1.2 and 1.3.
///
/// ```
/// # use kueue_check::admin::Certificates;
/// assert!(Certificates::self_signed(["localhost"]).is_ok());
/// let error = Certificates::from_folder("/does/not/exist").unwrap_err().to_string();
/// assert!(error.starts_with("cannot read /does/not/exist/tls.crt: "), "{error}");
/// ```
#[derive(Clone, Debug)]
pub struct Certificates {
    current: Arc<Mutex<Current>>,
    /// The folder of the files; `None` for a self-signed certificate.
    folder: Option<PathBuf>,
}

#[derive(Debug)]
struct Current {
    config: Arc<ServerConfig>,
    /// The content of the files.
    files: Files,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// Why there is no valid certificate.
///
/// ```
/// # use kueue_check::admin::{CertificateError, Certificates};
/// let error = Certificates::from_folder("/does/not/exist").unwrap_err();
/// assert!(matches!(error, CertificateError::Read { file, .. } if file.ends_with("tls.crt")));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}; mount a Secret of type kubernetes.io/tls", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file has other content.
    #[error("cannot use {}: {reason}; it must hold PEM", file.display())]
    Malformed {
        /// The file.
        file: PathBuf,
        /// The cause.
        reason: String,
    },
    /// Certificate and key do not match, or none could be made.
    #[error("cannot serve with this certificate and key: {0}")]
    Invalid(String),
}

impl Certificates {
    /// Makes a new key and a self-signed certificate for `names`. Clients cannot verify it, so it
    /// protects against eavesdropping, and not against a server in between.
    ///
    /// # Errors
    /// If a name is not a DNS name, or the system has no random numbers.
    pub fn self_signed<I>(names: I) -> Result<Self, CertificateError>
    where
        I: IntoIterator<Item: Into<String>>,
    {
        let invalid = |error: rcgen::Error| CertificateError::Invalid(error.to_string());
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let made = rcgen::generate_simple_self_signed(names).map_err(invalid)?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let config = config(vec![made.cert.der().clone()], key.into())?;
        Ok(Self::new(config, Files::default(), None))
    }

    /// Reads `tls.crt` and `tls.key` in `folder`, as PEM. An endpoint reads them again every 10 s.
    /// If they are invalid then, it logs that and keeps the last certificate.
    ///
    /// # Errors
    /// If they are invalid now.
    pub fn from_folder(folder: impl Into<PathBuf>) -> Result<Self, CertificateError> {
        let folder = folder.into();
        let files = Files::read(&folder)?;
        let config = files.config(&folder)?;
        Ok(Self::new(config, files, Some(folder)))
    }

    fn new(config: Arc<ServerConfig>, files: Files, folder: Option<PathBuf>) -> Self {
        let current = Arc::new(Mutex::new(Current { config, files }));
        Self { current, folder }
    }

    /// Returns the configuration for the next connection.
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current.config)
    }

    /// Reads the files again. Blocks for as long as the file system does.
    pub(super) fn reload(&self) {
        let Some(folder) = &self.folder else { return };
        match self.try_reload(folder) {
            Ok(true) => tracing::info!(folder = %folder.display(), "certificate reloaded"),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "cannot reload certificate; keeping the last"),
        }
    }

    /// Reads the files, and returns true if they have changed.
    fn try_reload(&self, folder: &Path) -> Result<bool, CertificateError> {
        let files = Files::read(folder)?;
        let unchanged = |current: &Current| current.files == files;
        if unchanged(&self.current.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(false);
        }
        let config = files.config(folder)?;
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Current { config, files };
        Ok(true)
    }
}

impl Files {
    fn read(folder: &Path) -> Result<Self, CertificateError> {
        let read = |name| {
            let file = folder.join(name);
            std::fs::read(&file).map_err(|source| CertificateError::Read { file, source })
        };
        Ok(Self {
            certificate: read(CERTIFICATE)?,
            key: read(KEY)?,
        })
    }

    fn config(&self, folder: &Path) -> Result<Arc<ServerConfig>, CertificateError> {
        let malformed = |name: &str, reason: String| CertificateError::Malformed {
            file: folder.join(name),
            reason,
        };
        let chain = CertificateDer::pem_slice_iter(&self.certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| malformed(CERTIFICATE, error.to_string()))?;
        if chain.is_empty() {
            return Err(malformed(CERTIFICATE, "it has no certificate".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|error| malformed(KEY, error.to_string()))?;
        config(chain, key)
    }
}

fn config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, CertificateError> {
    let invalid = |error: tokio_rustls::rustls::Error| CertificateError::Invalid(error.to_string());
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(invalid)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(invalid)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_became_unusable_change_nothing_and_a_new_pair_does() {
        let folder = std::env::temp_dir().join(format!("kueue-check-tls-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let write = |certificate: &str, key: &str| {
            std::fs::write(folder.join(CERTIFICATE), certificate).unwrap();
            std::fs::write(folder.join(KEY), key).unwrap();
        };
        let pair = || {
            let made =
                rcgen::generate_simple_self_signed(["check.example.com".to_owned()]).unwrap();
            let block = |tag: &str, der: &[u8]| pem::encode(&pem::Pem::new(tag, der));
            let key = made.signing_key.serialize_der();
            (
                block("CERTIFICATE", made.cert.der()),
                block("PRIVATE KEY", &key),
            )
        };
        let (certificate, key) = pair();
        write(&certificate, &key);
        let certificates = Certificates::from_folder(&folder).unwrap();
        let first = certificates.config();
        let same = |certificates: &Certificates| Arc::ptr_eq(&first, &certificates.config());

        for (certificate, key, expected) in [
            (certificate.as_str(), "", "tls.key: "),
            ("nothing", key.as_str(), "tls.crt: it has no certificate"),
            (pair().0.as_str(), key.as_str(), "cannot serve with this"),
        ] {
            write(certificate, key);
            let error = certificates.try_reload(&folder).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(same(&certificates));
        }
        write(&certificate, &key);
        assert!(!certificates.try_reload(&folder).unwrap());
        let (certificate, key) = pair();
        write(&certificate, &key);
        assert!(certificates.try_reload(&folder).unwrap());
        assert!(!same(&certificates));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
