//! A child process that does not outlive its parent.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// A running program. It ends when this value is dropped, and also when this process is killed. A
/// shell in between kills the program: its standard input is a pipe from this process, which then
/// breaks. If the shell itself is killed, its process group is killed when this value is dropped.
#[derive(Debug)]
pub struct Process {
    shell: Child,
    pipe: Option<ChildStdin>,
    id: u32,
}

/// Takes the folder to remove at the end (or nothing), the program's log, the program and its
/// arguments. Prints the program's id. Writing `keep` to it keeps the folder.
const GUARD: &str = r#"folder=$1; log=$2; shift 2; "$@" </dev/null >>"$log" 2>&1 & child=$!; echo $child; word=$(cat); kill -9 $child; wait $child; [ -z "$folder" ] || [ "$word" = keep ] || rm -rf "$folder""#;

/// How much a Go program's heap grows between two collections of garbage, in percent, and the size
/// of its memory from which it collects more often, unless the environment has other values. With
/// Go's default of 100 %, a busy API server spends a third of its processor time on collections.
const GARBAGE: [(&str, &str); 2] = [("GOGC", "400"), ("GOMEMLIMIT", "2GiB")];

impl Process {
    /// Starts `program`, which writes to `log`. When it ends, `folder` is removed.
    ///
    /// # Errors
    /// If the log can't be written, or there is no shell.
    pub fn start(
        program: &Path,
        arguments: &[String],
        log: &Path,
        folder: Option<&Path>,
    ) -> io::Result<Self> {
        Self::start_with(program, arguments, &[], log, folder)
    }

    /// As [`start`](Self::start), with variables in the program's environment.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(
        program: &Path,
        arguments: &[String],
        environment: &[(&str, String)],
        log: &Path,
        folder: Option<&Path>,
    ) -> io::Result<Self> {
        let of_guard = File::options().create(true).append(true).open(log)?;
        let garbage = GARBAGE
            .into_iter()
            .filter(|(name, _)| std::env::var_os(name).is_none());
        let mut shell = Command::new("sh")
            .args(["-c", GUARD, "sh"])
            .arg(folder.unwrap_or(Path::new("")))
            .arg(log)
            .arg(program)
            .args(arguments)
            .envs(garbage)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(of_guard)
            .process_group(0)
            .spawn()?;
        let pipe = shell.stdin.take();
        let mut line = String::new();
        if let Some(stdout) = shell.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let id = line.trim().parse().map_err(io::Error::other)?;
        Ok(Self { shell, pipe, id })
    }

    /// Returns the program's process id. No other process has it until this is dropped.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Sends a signal, such as `TERM`, to the program.
    ///
    /// # Errors
    /// If it has ended, or there is no `kill`.
    pub fn signal(&self, name: &str) -> io::Result<()> {
        let id = self.id.to_string();
        let mut kill = Command::new("kill");
        kill.args(["-s", name, &id]).stderr(Stdio::null());
        if kill.status()?.success() {
            return Ok(());
        }
        Err(io::Error::other(format!("{id} does not take SIG{name}")))
    }

    /// Returns true until the program has ended; a stopped program has not.
    pub fn is_running(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/stat", self.id));
        status.is_ok_and(|status| !status.contains(") Z ") && !status.contains(") X "))
    }

    /// Ends the program, and keeps the folder.
    pub(crate) fn stop(mut self) -> io::Result<()> {
        match &mut self.pipe {
            Some(pipe) => pipe.write_all(b"keep"),
            None => Ok(()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.pipe = None;
        let group = format!("-{}", self.shell.id());
        let ended = self.shell.wait();
        if ended.is_ok_and(|status| status.signal().is_some()) {
            let _ = Command::new("kill")
                .args(["-s", "KILL", "--", &group])
                .status();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Folder;

    #[test]
    fn the_program_ends_though_its_shell_was_killed() {
        let folder = Folder::new("process").unwrap();
        let log = folder.path().join("log");
        let arguments = ["600".to_owned()];
        let mut process = Process::start("sleep".as_ref(), &arguments, &log, None).unwrap();
        assert!(process.is_running());
        let status = format!("/proc/{}/stat", process.id());
        process.shell.kill().unwrap();
        drop(process);
        let runs = || std::fs::read_to_string(&status).is_ok_and(|stat| !stat.contains(") Z "));
        let mut reads = 0;
        while runs() {
            reads += 1;
            assert!(reads < 100_000, "the program runs");
        }
    }

    #[test]
    fn a_program_takes_signals_and_has_its_environment() {
        let folder = Folder::new("signals").unwrap();
        let log = folder.path().join("log");
        let script = "trap 'echo $WORD; exit' TERM; echo ready; while :; do sleep 0.01; done";
        let arguments = ["-c", script].map(str::to_owned);
        let environment = [("WORD", "bye".to_owned())];
        let process =
            Process::start_with("sh".as_ref(), &arguments, &environment, &log, None).unwrap();
        let has = |word: &str| fs::read_to_string(&log).is_ok_and(|text| text.contains(word));
        let mut reads = 0;
        let mut until = |holds: &dyn Fn() -> bool| {
            while !holds() {
                reads += 1;
                assert!(reads < 1_000_000, "{:?}", fs::read_to_string(&log));
            }
        };
        until(&|| has("ready"));
        process.signal("STOP").unwrap();
        process.signal("TERM").unwrap();
        assert!(process.is_running(), "it stands still");
        process.signal("CONT").unwrap();
        until(&|| !process.is_running());
        assert!(has("bye"));
        drop(process);
    }
}
