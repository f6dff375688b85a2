//! TLS with authorities and certificates from files, with a real server on loopback.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use kueue_check_sources::{
    AllowedServer, ClientCertificate, Http, HttpRequest, ServerPolicy, SourceError, Unlisted,
};
use kueue_check_testenv::Folder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

type Pair = rcgen::CertifiedKey<rcgen::KeyPair>;

fn certificate() -> Pair {
    rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap()
}

fn certificate_pem(pair: &Pair) -> String {
    pem::encode(&pem::Pem::new("CERTIFICATE", pair.cert.der().to_vec()))
}

fn key_pem(pair: &Pair) -> String {
    pem::encode(&pem::Pem::new(
        "PRIVATE KEY",
        pair.signing_key.serialize_der(),
    ))
}

/// Starts a server with the certificate `own`, which requests one by `client` if there is any. Its
/// response is 200.
async fn server(own: &Pair, client: Option<&Pair>) -> String {
    let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = match client {
        None => builder.with_no_client_auth(),
        Some(client) => {
            let mut roots = RootCertStore::empty();
            roots.add(client.cert.der().clone()).unwrap();
            let provider = Arc::new(default_provider());
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let config = builder.with_single_cert(vec![own.cert.der().clone()], key);
    let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    return;
                };
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let response = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                let _ = stream.write_all(response).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    url
}

async fn send(
    folder: &Folder,
    url: &str,
    bound: bool,
    ca_file: Option<&str>,
    certificate: Option<(&str, &str)>,
) -> Result<u16, SourceError> {
    let policy = ServerPolicy {
        folder: folder.path().to_owned(),
        servers: vec![AllowedServer {
            origin: url.parse().unwrap(),
            credentials: bound.then(|| "own".into()),
            allow_insecure: false,
        }],
        unlisted: Unlisted::Refuse,
        setting: "--allow-host",
    };
    let certificate = certificate.map(|(certificate_file, key_file)| ClientCertificate {
        certificate_file,
        key_file,
    });
    let http = Http::new(policy).deadline(Duration::from_secs(10));
    let reply = http
        .send(HttpRequest {
            who: "the server",
            method: Method::POST,
            url: &format!("{url}/x"),
            headers: Vec::new(),
            body: "{}".to_owned(),
            ca_file,
            certificate,
        })
        .await?;
    Ok(reply.status.as_u16())
}

#[tokio::test]
async fn authorities_and_certificates_come_from_files_of_the_server() {
    let (own, client, stranger) = (certificate(), certificate(), certificate());
    let folder = Folder::new("sources").unwrap();
    folder.write("ca.crt", &certificate_pem(&own)).unwrap();
    folder
        .write("own/tls.crt", &certificate_pem(&client))
        .unwrap();
    folder.write("own/tls.key", &key_pem(&client)).unwrap();
    folder
        .write("own/stranger.crt", &certificate_pem(&stranger))
        .unwrap();
    folder
        .write("own/stranger.key", &key_pem(&stranger))
        .unwrap();
    folder.write("own/none.crt", "nothing").unwrap();
    folder
        .write("theirs/tls.crt", &certificate_pem(&client))
        .unwrap();
    folder.write("theirs/tls.key", &key_pem(&client)).unwrap();
    let open = server(&own, None).await;
    let closed = server(&own, Some(&client)).await;
    let ours = Some(("own/tls.crt", "own/tls.key"));
    let ca = Some("ca.crt");
    for (case, url, bound, ca_file, certificate, expected) in [
        ("trusted by its authority", &open, false, ca, None, Ok(200)),
        (
            "the system's authorities",
            &open,
            false,
            None,
            None,
            Err(("Unreachable", "certificate")),
        ),
        (
            "by plain words",
            &open,
            false,
            Some("own/none.crt"),
            None,
            Err(("CredentialsUnusable", "there is none")),
        ),
        ("with a certificate", &closed, true, ca, ours, Ok(200)),
        ("without one", &closed, true, ca, None, Err(("", ""))),
        (
            "a stranger's",
            &closed,
            true,
            ca,
            Some(("own/stranger.crt", "own/stranger.key")),
            Err(("", "")),
        ),
        (
            "not bound to the server",
            &closed,
            false,
            ca,
            ours,
            Err(("CredentialsUnusable", "without credentials")),
        ),
        (
            "of another server",
            &closed,
            true,
            ca,
            Some(("theirs/tls.crt", "theirs/tls.key")),
            Err(("CredentialsUnusable", "only below")),
        ),
        (
            "the wrong key",
            &closed,
            true,
            ca,
            Some(("own/tls.crt", "own/stranger.key")),
            Err(("CredentialsUnusable", "the client certificate")),
        ),
        (
            "no certificate",
            &closed,
            true,
            ca,
            Some(("own/none.crt", "own/tls.key")),
            Err(("CredentialsUnusable", "it has no certificate")),
        ),
        (
            "no key",
            &closed,
            true,
            ca,
            Some(("own/tls.crt", "own/none.crt")),
            Err(("CredentialsUnusable", "it has no private key")),
        ),
        (
            "a missing file",
            &closed,
            true,
            ca,
            Some(("own/gone", "own/tls.key")),
            Err(("CredentialsUnusable", "not found")),
        ),
    ] {
        match (
            send(&folder, url, bound, ca_file, certificate).await,
            expected,
        ) {
            (Ok(status), Ok(expected)) => assert_eq!(status, expected, "{case}"),
            (Err(error), Err((reason, part))) => {
                // Servers differ in what they do with a rejected connection.
                let any = reason.is_empty();
                assert!(any || error.reason() == reason, "{case}: {error:?}");
                assert!(error.to_string().contains(part), "{case}: {error}");
            }
            (result, _) => panic!("{case}: {result:?}"),
        }
    }
    // Over plain HTTP there is no TLS to authenticate in.
    let plain = closed.replace("https", "http");
    let error = send(&folder, &plain, true, None, ours).await.unwrap_err();
    assert!(error.to_string().contains("needs https"), "{error}");
}
