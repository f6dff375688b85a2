//! Metrics of the process, under the names that Prometheus' client libraries share, and of its
//! tokio runtime.

use std::fs;
use std::sync::OnceLock;

use tokio::runtime::Handle;

use crate::check::MetricsText;

/// Returns the metrics of this process and of the current tokio runtime. Those of the process are
/// empty where the system has no `/proc` (only Linux has).
pub(super) fn text() -> String {
    let mut text = MetricsText::new();
    Process::read().add_to(&mut text);
    Runtime::read().add_to(&mut text);
    text.finish()
}

/// Returns every metric of [`text`] with a made-up sample.
pub(super) fn sample() -> String {
    let mut text = MetricsText::new();
    Process {
        cpu_seconds: Some(0.0),
        resident_bytes: Some(0),
        virtual_bytes: Some(0),
        threads: Some(0),
        start_seconds: Some(0.0),
        open_fds: Some(0),
        max_fds: Some(0),
    }
    .add_to(&mut text);
    Runtime::default().add_to(&mut text);
    text.finish()
}

/// The kernel's figures of this process.
#[derive(Debug, Default, PartialEq)]
struct Process {
    cpu_seconds: Option<f64>,
    resident_bytes: Option<u64>,
    virtual_bytes: Option<u64>,
    threads: Option<u64>,
    start_seconds: Option<f64>,
    open_fds: Option<u64>,
    max_fds: Option<u64>,
}

impl Process {
    fn read() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (status, stat) = (read("/proc/self/status"), read("/proc/self/stat"));
        let ticks = ticks_per_second();
        let fds = fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
        Self {
            cpu_seconds: cpu_ticks(&stat).map(|spent| seconds(spent, ticks)),
            resident_bytes: bytes_of(&status, "VmRSS"),
            virtual_bytes: bytes_of(&status, "VmSize"),
            threads: line_of(&status, "Threads").and_then(|text| text.parse().ok()),
            start_seconds: start_seconds(&stat, ticks),
            // One of them is the folder that is being read.
            open_fds: fds.map(|fds| fds.saturating_sub(1) as u64),
            max_fds: max_fds(&read("/proc/self/limits")),
        }
    }

    fn add_to(&self, text: &mut MetricsText) {
        if let Some(seconds) = self.cpu_seconds {
            text.counter(
                "process_cpu_seconds",
                "Total user and system CPU time spent in seconds.",
            )
            .sample(&[], seconds);
        }
        if let Some(seconds) = self.start_seconds {
            text.gauge(
                "process_start_time_seconds",
                "Start time of the process since unix epoch in seconds.",
            )
            .sample(&[], seconds);
        }
        for (name, help, value) in [
            (
                "process_resident_memory_bytes",
                "Resident memory size in bytes.",
                self.resident_bytes,
            ),
            (
                "process_virtual_memory_bytes",
                "Virtual memory size in bytes.",
                self.virtual_bytes,
            ),
            (
                "process_open_fds",
                "Number of open file descriptors.",
                self.open_fds,
            ),
            (
                "process_max_fds",
                "Maximum number of open file descriptors.",
                self.max_fds,
            ),
            (
                "process_threads",
                "Number of OS threads in the process.",
                self.threads,
            ),
        ] {
            if let Some(value) = value {
                text.gauge(name, help).count(&[], value);
            }
        }
    }
}

/// tokio's figures of the runtime that serves the endpoint, which is that of the checks.
#[derive(Debug, Default)]
struct Runtime {
    workers: u64,
    alive_tasks: u64,
    global_queue_depth: u64,
    busy_seconds: f64,
}

impl Runtime {
    fn read() -> Self {
        let Ok(handle) = Handle::try_current() else {
            return Self::default();
        };
        let metrics = handle.metrics();
        let workers = metrics.num_workers();
        Self {
            workers: workers as u64,
            alive_tasks: metrics.num_alive_tasks() as u64,
            global_queue_depth: metrics.global_queue_depth() as u64,
            busy_seconds: busy_seconds(&metrics, workers),
        }
    }

    fn add_to(&self, text: &mut MetricsText) {
        text.gauge("tokio_workers", "Worker threads of the tokio runtime.")
            .count(&[], self.workers);
        text.gauge(
            "tokio_alive_tasks",
            "Tasks of the tokio runtime that have not ended.",
        )
        .count(&[], self.alive_tasks);
        text.gauge(
            "tokio_global_queue_depth",
            "Tasks that wait for a worker in the tokio runtime's global queue.",
        )
        .count(&[], self.global_queue_depth);
        text.counter(
            "tokio_worker_busy_seconds",
            "Time in which workers of the tokio runtime ran tasks, summed over workers.",
        )
        .sample(&[], self.busy_seconds);
    }
}

#[cfg(target_has_atomic = "64")]
fn busy_seconds(metrics: &tokio::runtime::RuntimeMetrics, workers: usize) -> f64 {
    (0..workers)
        .map(|worker| metrics.worker_total_busy_duration(worker).as_secs_f64())
        .sum()
}

/// tokio does not count it on this platform.
#[cfg(not(target_has_atomic = "64"))]
fn busy_seconds(_: &tokio::runtime::RuntimeMetrics, _: usize) -> f64 {
    0.0
}

/// Returns the field `name` of the text of `/proc/PID/status` (proc(5)).
fn line_of<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = status.lines().filter_map(|line| line.split_once(':'));
    lines
        .find(|(field, _)| *field == name)
        .map(|(_, value)| value.trim())
}

/// Returns the same of a field in kB, which are 1,024 bytes.
fn bytes_of(status: &str, name: &str) -> Option<u64> {
    let kilobytes = line_of(status, name)?.strip_suffix("kB")?;
    kilobytes.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the field of `/proc/PID/stat` with this number in proc(5). The second one is a name in
/// parentheses, which may contain spaces and parentheses.
fn stat_field(stat: &str, number: usize) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name
        .split_whitespace()
        .nth(number.checked_sub(3)?)?
        .parse()
        .ok()
}

fn cpu_ticks(stat: &str) -> Option<u64> {
    stat_field(stat, 14)?.checked_add(stat_field(stat, 15)?)
}

/// Returns the start of the process: the boot of the machine, and the ticks since then. Read once.
fn start_seconds(stat: &str, ticks: u64) -> Option<f64> {
    static STARTED: OnceLock<Option<f64>> = OnceLock::new();
    *STARTED.get_or_init(|| {
        let boot = boot_seconds(&fs::read_to_string("/proc/stat").ok()?)?;
        Some(seconds(boot, 1) + seconds(stat_field(stat, 22)?, ticks))
    })
}

fn boot_seconds(stat: &str) -> Option<u64> {
    let boot = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    boot.trim().parse().ok()
}

/// Returns the soft limit, from the text of `/proc/PID/limits`; `None` if there is no limit.
fn max_fds(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[expect(clippy::cast_precision_loss, reason = "seconds")]
fn seconds(ticks: u64, per_second: u64) -> f64 {
    ticks as f64 / per_second.max(1) as f64
}

/// Returns how many clock ticks a second has: the kernel passes it to the process at its start
/// (`AT_CLKTCK`, getauxval(3)). Otherwise 100, as on each platform of Rust's Linux. Read once.
fn ticks_per_second() -> u64 {
    static TICKS: OnceLock<u64> = OnceLock::new();
    *TICKS.get_or_init(|| {
        let vector = fs::read("/proc/self/auxv").unwrap_or_default();
        clock_ticks(&vector).unwrap_or(100)
    })
}

/// Returns `AT_CLKTCK` of an auxiliary vector: pairs of machine words.
fn clock_ticks(vector: &[u8]) -> Option<u64> {
    const AT_CLKTCK: usize = 17;
    const WORD: usize = size_of::<usize>();
    let word = |bytes: &[u8]| bytes.try_into().map(usize::from_ne_bytes).ok();
    let mut pairs = vector.chunks_exact(2 * WORD);
    let pair = pairs.find(|pair| word(&pair[..WORD]) == Some(AT_CLKTCK))?;
    word(&pair[WORD..])
        .map(|ticks| ticks as u64)
        .filter(|n| *n > 0)
}

#[cfg(test)]
mod tests {
    use kueue_check_testenv::exposition;

    use super::*;

    #[test]
    fn what_the_kernel_reports_is_read() {
        let status = "Name:\tcheck\nVmHWM:\t  9000 kB\nVmSize:\t 4096 kB\nVmRSS:\t    2048 kB\nThreads:\t3\n";
        assert_eq!(bytes_of(status, "VmRSS"), Some(2_097_152));
        assert_eq!(bytes_of(status, "VmSize"), Some(4_194_304));
        assert_eq!(line_of(status, "Threads"), Some("3"));
        assert_eq!(bytes_of("VmRSS: none", "VmRSS"), None);
        assert_eq!(bytes_of("", "VmRSS"), None);
        let stat = "7 (a) b) (c) S 1 7 7 0 -1 4194560 1 0 0 0 130 20 0 0 20 0 3 0 5000 1 2";
        assert_eq!(cpu_ticks(stat), Some(150));
        assert_eq!(stat_field(stat, 22), Some(5_000));
        assert_eq!(stat_field("7 a", 22), None);
        assert_eq!(
            boot_seconds("cpu  1 2\nbtime 1700000000\nprocesses 3\n"),
            Some(1_700_000_000)
        );
        let limits = |soft: &str| {
            format!(
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max open files            {soft}                 524288               files     \n"
            )
        };
        assert_eq!(max_fds(&limits("1024")), Some(1_024));
        assert_eq!(max_fds(&limits("unlimited")), None);
        let pair = |name: usize, value: usize| [name.to_ne_bytes(), value.to_ne_bytes()].concat();
        let vector = [pair(6, 4_096), pair(17, 250), pair(0, 0)].concat();
        assert_eq!(clock_ticks(&vector), Some(250));
        assert_eq!(clock_ticks(&pair(17, 0)), None);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[cfg(target_os = "linux")]
    async fn the_metrics_of_this_process_are_true() {
        let held = fs::File::open("/proc/self/status").unwrap();
        let samples = exposition::parse(&(text() + "# EOF\n")).unwrap();
        let value = |name: &str| {
            let mut samples = samples.iter().filter(|sample| sample.name == name);
            samples.next().unwrap_or_else(|| panic!("no {name}")).value
        };
        assert!(value("process_cpu_seconds_total") < 3_600.0);
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_virtual_memory_bytes") > value("process_resident_memory_bytes"));
        assert!(value("process_threads") >= 3.0);
        assert!(value("process_open_fds") >= 4.0);
        assert!(value("process_open_fds") < value("process_max_fds"));
        let now = crate::Clock::system().now().as_second();
        #[expect(clippy::cast_precision_loss, reason = "seconds")]
        let age = now as f64 - value("process_start_time_seconds");
        assert!((-2.0..3_600.0).contains(&age), "{age} s old");
        assert!((value("tokio_workers") - 2.0).abs() < f64::EPSILON);
        assert!(value("tokio_global_queue_depth") < 1_000.0);
        assert!(value("tokio_worker_busy_seconds_total") < 3_600.0);
        let alive = value("tokio_alive_tasks");
        let _task = tokio::spawn(std::future::pending::<()>());
        let more = exposition::parse(&(text() + "# EOF\n")).unwrap();
        let more = more
            .iter()
            .find(|sample| sample.name == "tokio_alive_tasks");
        assert!(more.unwrap().value >= alive + 1.0);
        drop(held);
    }

    #[test]
    fn the_sample_has_every_metric() {
        let names = |text: String| {
            let samples = exposition::parse(&(text + "# EOF\n")).unwrap();
            samples
                .into_iter()
                .map(|sample| sample.name)
                .collect::<Vec<_>>()
        };
        let made_up = names(sample());
        assert_eq!(made_up.len(), 11, "{made_up:?}");
        assert_eq!(
            names(text()),
            made_up,
            "where /proc is mounted, and files are limited"
        );
    }
}
