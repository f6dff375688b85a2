//! A running `kueue-check-try`.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long anything may take to begin.
const START_TIMEOUT: Duration = Duration::from_secs(180);

/// The program, in a process group of its own as in a terminal, with a copy of the samples.
pub(crate) struct Running {
    pub(crate) child: Child,
    lines: Receiver<String>,
    reads: Arc<AtomicBool>,
    seen: Vec<String>,
    folder: PathBuf,
}

impl Running {
    /// Runs it on the maintenance window; `name` names the test.
    pub(crate) fn start(name: &str, arguments: &[&str]) -> Self {
        Self::start_program(&example("maintenance_window"), name, arguments)
    }

    /// Runs it on a program.
    pub(crate) fn start_program(program: &Path, name: &str, arguments: &[&str]) -> Self {
        let folder = std::env::temp_dir().join(format!("try-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let samples = folder.join("samples.yaml");
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        fs::copy(own.join("maintenance_window.yaml"), &samples).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_kueue-check-try"))
            .arg(program)
            .arg(&samples)
            .args(arguments)
            .env("TMPDIR", &folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let reads = Arc::new(AtomicBool::new(true));
        Self {
            child,
            lines: in_background(lines, Arc::clone(&reads)),
            reads,
            seen: Vec::new(),
            folder,
        }
    }

    pub(crate) fn samples(&self) -> PathBuf {
        self.folder.join("samples.yaml")
    }

    /// Waits for a line with this text.
    pub(crate) fn expect(&mut self, text: &str) -> String {
        self.line(text, START_TIMEOUT)
            .unwrap_or_else(|| panic!("no line with `{text}`; seen: {:#?}", self.seen))
    }

    /// Returns the next line with this text; `None` if there is none within that time.
    pub(crate) fn line(&mut self, text: &str, within: Duration) -> Option<String> {
        let end = now() + within;
        while let Ok(line) = self
            .lines
            .recv_timeout(end.saturating_duration_since(now()))
        {
            self.seen.push(line.clone());
            if line.contains(text) {
                return Some(line);
            }
        }
        None
    }

    /// Returns the path of the kubeconfig that it prints.
    pub(crate) fn kubeconfig(&mut self) -> PathBuf {
        let line = self.expect("KUBECONFIG=");
        line.split_once("KUBECONFIG=").unwrap().1.into()
    }

    /// Waits for its end.
    pub(crate) fn ended(&mut self, within: Duration) -> Option<ExitStatus> {
        eventually(within, || self.child.try_wait().unwrap())
    }

    /// Returns the running processes that it has started, and their command lines.
    pub(crate) fn children(&self) -> Vec<(u32, String)> {
        let own = self.child.id().to_string();
        processes()
            .filter(|(_, parent, _)| *parent == own)
            .map(|(id, _, line)| (id, line))
            .collect()
    }

    /// Returns the processes that it has started, those that they have started, and so on.
    #[cfg(feature = "real")]
    pub(crate) fn descendants(&self) -> Vec<(u32, String)> {
        let (mut parents, mut found) = (vec![self.child.id().to_string()], Vec::new());
        while let Some(parent) = parents.pop() {
            for (id, _, line) in processes().filter(|(_, other, _)| *other == parent) {
                parents.push(id.to_string());
                found.push((id, line));
            }
        }
        found
    }

    /// Closes the pipe of its output at the next line.
    pub(crate) fn stop_reading(&self) {
        self.reads.store(false, Ordering::Relaxed);
    }

    /// Returns its output to the standard error. It must have ended.
    pub(crate) fn error(&mut self) -> String {
        let mut text = String::new();
        let error = self.child.stderr.as_mut().unwrap();
        error.read_to_string(&mut text).unwrap();
        text
    }

    /// Returns the files that remain in the directory for temporary files.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "samples.yaml").collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Reads lines until they end; an unread pipe would fill up.
fn in_background(lines: Lines<BufReader<ChildStdout>>, reads: Arc<AtomicBool>) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let _ = sender.send(line);
            if !reads.load(Ordering::Relaxed) {
                return;
            }
        }
    });
    receiver
}

/// Returns an example's program, which cargo builds with the tests.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    profile.join("examples").join(name)
}

/// Returns each process: its number, its parent's, and its command line.
fn processes() -> impl Iterator<Item = (u32, String, String)> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| {
        let id: u32 = entry.file_name().to_str()?.parse().ok()?;
        let status = fs::read_to_string(entry.path().join("stat")).ok()?;
        // The name may have spaces; it ends with the last parenthesis.
        let mut fields = status.rsplit_once(')')?.1.split_whitespace();
        if fields.next()? == "Z" {
            return None;
        }
        let parent = fields.next()?.to_owned();
        let line = fs::read_to_string(entry.path().join("cmdline")).ok()?;
        Some((id, parent, line.replace('\0', " ")))
    })
}

/// Returns true if the process exists and is not a zombie.
pub(crate) fn runs(id: u32) -> bool {
    processes().any(|(other, _, _)| other == id)
}

/// Sends a signal, as `kill` in a shell does. A negative number is a process group.
pub(crate) fn kill(signal: &str, to: i64) {
    let status = Command::new("kill")
        .args(["-s", signal, "--", &to.to_string()])
        .status();
    assert!(status.unwrap().success());
}

/// Repeats `found` until it returns a value.
#[expect(clippy::disallowed_methods, reason = "the processes are real")]
pub(crate) fn eventually<T>(within: Duration, mut found: impl FnMut() -> Option<T>) -> Option<T> {
    let end = now() + within;
    loop {
        if let Some(found) = found() {
            return Some(found);
        }
        if now() > end {
            return None;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[expect(clippy::disallowed_methods, reason = "the processes are real")]
fn now() -> Instant {
    Instant::now()
}
