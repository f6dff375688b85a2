//! What the process itself takes, under the names that Prometheus' client libraries share.

use std::fs;

/// The metrics of this process; empty where the system does not tell (only Linux does).
pub(super) fn text() -> String {
    fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| resident(&status))
        .map(sample)
        .unwrap_or_default()
}

/// One line, and what it means.
pub(super) fn sample(bytes: u64) -> String {
    format!(
        "# HELP process_resident_memory_bytes Resident memory of the process.\n# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes {bytes}\n"
    )
}

/// Bytes of resident memory, from the text of `/proc/PID/status` (proc(5): `VmRSS`, in kB of 1024
/// bytes).
fn resident(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_from_the_status() {
        let status = "Name:\tcheck\nVmHWM:\t  9000 kB\nVmRSS:\t    2048 kB\nThreads:\t3\n";
        assert_eq!(resident(status), Some(2_097_152));
        assert_eq!(resident("VmRSS: none"), None);
        assert_eq!(resident(""), None);
    }
}
