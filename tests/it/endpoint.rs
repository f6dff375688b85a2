//! The admin endpoint and the probes for a client on the pod network. In real time.

use std::future::pending;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use kube::client::ClientBuilder;
use kube::{Client, Config};
use kueue_check::Clock;
use kueue_check::admin::{Certificates, Endpoint, probes, router, serve};
use kueue_check::prelude::*;
use kueue_check::runtime::{Runtime, RuntimeHandle};
use kueue_check_sim::{apiserver::ApiServer, definitions};
use kueue_check_testenv::Folder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};

#[admission_check(controller = "example.com/open")]
async fn open() -> Verdict {
    Verdict::ready("open")
}

/// Returns a running runtime.
fn running() -> RuntimeHandle {
    let server = ApiServer::with_definitions(Clock::system(), definitions::kueue());
    let runtime = Runtime::builder(server.client())
        .check(open)
        .build()
        .unwrap();
    let handle = runtime.handle();
    tokio::spawn(runtime.run(pending()));
    handle
}

/// Returns the response to a GET without encryption, headers included.
async fn get(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    Ok(response)
}

/// Returns true if the server has ended the connection.
fn is_closed(stream: &TcpStream) -> bool {
    match stream.try_read(&mut [0; 1]) {
        Ok(0) => true,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
        Ok(_) => false,
    }
}

#[tokio::test]
async fn idle_connections_are_bounded_and_block_no_other_client() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, running()));
    let mut idle = Vec::new();
    for _ in 0..200 {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    let response = timeout(Duration::from_secs(3), get(address, "/livez")).await;
    let response = response.expect("the probe's time").unwrap();
    assert!(response.ends_with("\r\n\r\nok\n"), "{response}");
    // The end of a connection may arrive later.
    let all_closed = async {
        while idle.iter().filter(|stream| is_closed(stream)).count() < 200 - 64 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(
        timeout(Duration::from_secs(3), all_closed).await.is_ok(),
        "idle connections stay open"
    );
}

#[tokio::test]
async fn a_head_that_never_ends_is_cut_off() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, running()));
    let mut slow = TcpStream::connect(address).await.unwrap();
    let began = Instant::now();
    let _ = slow.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n").await;
    while !is_closed(&slow) {
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "it is still open"
        );
        let _ = slow.write_all(b"A: b\r\n").await;
        sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn probes_give_no_reasons_and_nothing_else() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let without_kueue = ApiServer::new(Clock::system()).client();
    let runtime = Runtime::builder(without_kueue).check(open).build().unwrap();
    tokio::spawn(Endpoint::new(probes(runtime.handle())).serve(listener));
    tokio::spawn(runtime.run(pending()));
    for (path, status, body) in [
        ("/livez", "200 OK", "ok\n"),
        ("/readyz", "503 Service Unavailable", "not ready\n"),
        ("/metrics", "404 Not Found", ""),
        ("/diagnostics", "404 Not Found", ""),
    ] {
        let response = get(address, path).await.unwrap();
        assert!(response.contains(status), "{path}: {response}");
        assert!(
            response.ends_with(&format!("\r\n\r\n{body}")),
            "{path}: {response}"
        );
    }
}

/// Writes a certificate for 127.0.0.1 to the files of an endpoint. Returns the certificate.
fn write_certificate(folder: &Path) -> Vec<u8> {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let write = |name: &str, tag: &str, der: Vec<u8>| {
        let new = folder.join(format!("{name}.new"));
        std::fs::write(&new, pem::encode(&pem::Pem::new(tag, der))).unwrap();
        std::fs::rename(&new, folder.join(name)).unwrap();
    };
    write("tls.crt", "CERTIFICATE", made.cert.der().to_vec());
    write("tls.key", "PRIVATE KEY", made.signing_key.serialize_der());
    made.cert.der().to_vec()
}

/// Makes a client without a token that trusts this certificate and no other.
fn trusting(certificate: &[u8], address: SocketAddr) -> Client {
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    config.root_cert = Some(vec![certificate.to_vec()]);
    config.default_retry = false;
    ClientBuilder::try_from(config).unwrap().build()
}

/// Returns the status for a request without a token; `None` without a connection.
async fn refusal(client: &Client) -> Option<u16> {
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    match client.request_text(request).await {
        Err(kube::Error::Api(status)) => Some(status.code),
        Err(_) => None,
        Ok(text) => panic!("shown without a token: {text}"),
    }
}

#[tokio::test]
async fn a_certificate_that_is_renewed_is_served_without_a_restart() {
    let folder = Folder::new("kueue-check-admin").unwrap();
    let first = write_certificate(folder.path());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let api = ApiServer::new(Clock::system()).client();
    let endpoint = Endpoint::new(router(running()))
        .secure(api, Certificates::from_folder(folder.path()).unwrap());
    tokio::spawn(endpoint.serve(listener));
    assert_eq!(refusal(&trusting(&first, address)).await, Some(401));

    let second = write_certificate(folder.path());
    let client = trusting(&second, address);
    let began = Instant::now();
    while refusal(&client).await != Some(401) {
        assert!(began.elapsed() < Duration::from_secs(30), "not reloaded");
        sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(refusal(&trusting(&first, address)).await, None);
    // In clear text there is no response.
    assert_ne!(
        get(address, "/livez").await.unwrap_or_default().get(..4),
        Some("HTTP")
    );
}
