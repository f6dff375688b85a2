//! Bodies, with servers on loopback.

use std::time::Duration;

use kueue_check_sources::{Http, HttpRequest, ServerPolicy, Unlisted};
use kueue_check_testenv::Folder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Reads a request from the connection, and begins a response of `length` bytes.
async fn begin(stream: &mut TcpStream, length: usize) {
    let mut request = [0; 4096];
    let _ = stream.read(&mut request).await.unwrap();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
}

fn get(url: &str) -> HttpRequest<'_> {
    HttpRequest {
        who: "the server",
        method: http::Method::GET,
        url,
        headers: Vec::new(),
        body: String::new(),
        ca_file: None,
        certificate: None,
    }
}

#[tokio::test]
async fn servers_that_never_end_their_responses_do_not_delay_others() {
    let folder = Folder::new("http").unwrap();
    let http = Http::new(ServerPolicy {
        folder: folder.path().to_owned(),
        servers: Vec::new(),
        unlisted: Unlisted::WithoutCredentials,
        setting: "SOURCES",
    });
    let slow = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let slow_url = format!("http://{}", slow.local_addr().unwrap());
    let mut open = Vec::new();
    for _ in 0..8 {
        let (http, url) = (http.clone(), slow_url.clone());
        tokio::spawn(async move { http.send(get(&url)).await });
        let (mut stream, _) = slow.accept().await.unwrap();
        begin(&mut stream, 100).await;
        stream.write_all(b"x").await.unwrap();
        open.push(stream);
    }
    let fast = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let fast_url = format!("http://{}", fast.local_addr().unwrap());
    for size in [10, 1024 * 1024] {
        let response = http.send(get(&fast_url));
        let serve = async {
            let (mut stream, _) = fast.accept().await.unwrap();
            begin(&mut stream, size).await;
            let _ = stream.write_all(&vec![b'x'; size]).await;
        };
        let both = async { tokio::join!(response, serve).0 };
        let response = tokio::time::timeout(Duration::from_secs(10), both).await;
        assert_eq!(response.unwrap().unwrap().body.len(), size);
    }
}
