//! Child processes that tests start, and addresses for them.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::{Deref, DerefMut};
use std::process::Child;
use std::sync::atomic::{AtomicU32, Ordering};

/// A child process that is killed when this value is dropped. Unlike a [`Process`](crate::Process),
/// it survives if its parent is killed.
#[derive(Debug)]
pub struct Killed(pub Child);

impl Deref for Killed {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Killed {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns an address of loopback without a listener. Its port is below those that the kernel gives
/// to connections and to listeners of port 0, so that nothing else takes it before it is used.
///
/// # Errors
/// If no port is free.
pub fn free_address() -> io::Result<SocketAddr> {
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 12_000;
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    // Processes that run side by side have other ports.
    let begin = std::process::id().wrapping_mul(97);
    let mut last = None;
    for _ in 0..COUNT {
        let number = begin.wrapping_add(NUMBER.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(FIRST + number % COUNT).unwrap_or_default();
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(listener) => return listener.local_addr(),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::AddrInUse.into()))
}
