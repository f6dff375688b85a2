//! Real servers on loopback, which send the bytes that a test sets.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kueue_check_rule::{ServerPolicy, Unlisted};
use kueue_check_testenv::Folder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Returns the policy of a check that may send the files of `folder` to the server of `url`.
pub(crate) fn policy(folder: &Folder, url: &str) -> ServerPolicy {
    ServerPolicy {
        folder: folder.path().to_owned(),
        ..open(&[&format!("{url}=.")])
    }
}

/// Returns the policy of a check that may query these servers without credentials.
pub(crate) fn open(urls: &[&str]) -> ServerPolicy {
    ServerPolicy {
        folder: "/nonexistent".into(),
        servers: urls.iter().map(|url| url.parse().unwrap()).collect(),
        unlisted: Unlisted::Refuse,
        setting: "--allow-host",
    }
}

/// A reply of a server.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// These bytes, after which the connection is closed.
    Raw(Vec<u8>),
    /// These bytes, and then many of `filler`.
    Endless {
        head: String,
        filler: &'static [u8],
        bytes: usize,
    },
    /// These bytes, one every 50 ms.
    Drip(String),
    /// No reply, for ever.
    Silence,
}

impl Reply {
    /// Returns a JSON document with this status.
    pub(crate) fn json(status: u16, body: &str) -> Self {
        Self::with_headers(status, "content-type: application/json\r\n", body)
    }

    pub(crate) fn with_headers(status: u16, headers: &str, body: &str) -> Self {
        let head = format!(
            "HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\n\r\n",
            body.len()
        );
        Self::Raw([head.as_bytes(), body.as_bytes()].concat())
    }
}

/// A request as received.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// The first line and the headers.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// Makes the reply to a request.
type Handler = dyn Fn(&Received) -> Reply + Send + Sync;

/// A server that ends with the test.
pub(crate) struct Server {
    pub(crate) url: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Server {
    pub(crate) async fn start(
        handler: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::<Mutex<Vec<Received>>>::default();
        let handler: Arc<Handler> = Arc::new(handler);
        let log = Arc::clone(&received);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&log), Arc::clone(&handler)));
            }
        });
        Self { url, received }
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

async fn serve(mut stream: TcpStream, log: Arc<Mutex<Vec<Received>>>, handler: Arc<Handler>) {
    let Some(request) = read(&mut stream).await else {
        return;
    };
    log.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(request.clone());
    // The client may close the connection at any time.
    let _ = write(&mut stream, handler(&request)).await;
    let _ = stream.shutdown().await;
}

async fn read(stream: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let received = Received {
            head: head.to_owned(),
            body: body.to_owned(),
        };
        let length = received
            .header("content-length")
            .map_or(0, |value| value.parse().unwrap());
        if body.len() >= length {
            return Some(received);
        }
    }
}

async fn write(stream: &mut TcpStream, reply: Reply) -> std::io::Result<()> {
    match reply {
        Reply::Raw(bytes) => stream.write_all(&bytes).await,
        Reply::Endless {
            head,
            filler,
            bytes,
        } => {
            stream.write_all(head.as_bytes()).await?;
            for _ in 0..bytes / filler.len() {
                stream.write_all(filler).await?;
            }
            Ok(())
        }
        Reply::Drip(text) => {
            for byte in text.as_bytes() {
                stream.write_all(&[*byte]).await?;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Ok(())
        }
        Reply::Silence => std::future::pending().await,
    }
}
