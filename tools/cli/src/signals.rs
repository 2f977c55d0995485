//! Removes half-written files if a signal ends the process.

/// Starts to wait for the signals that end a process. At a signal, files that are being written are removed, and the
/// process ends as it would have. A signal that the process was started to ignore, as `nohup` does, stays ignored.
pub(crate) fn start() {
    #[cfg(unix)]
    unix::start();
}

#[cfg(unix)]
mod unix {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::emulate_default_handler;

    pub(super) fn start() {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = ignored(&status);
        let all = [SIGINT, SIGTERM, SIGHUP].into_iter();
        let Ok(mut signals) = Signals::new(all.filter(|signal| (ignored >> (signal - 1)) & 1 == 0))
        else {
            return;
        };
        std::thread::spawn(move || {
            for signal in signals.forever() {
                optc::remove_drafts();
                crate::terminal::finish();
                // The call returns if the signal cannot be raised again; then the next one is tried.
                let _ = emulate_default_handler(signal);
            }
        });
    }

    /// The ignored signals of a process, bit n for signal n + 1, from its status file on Linux; none on other systems.
    pub(super) fn ignored(status: &str) -> u64 {
        let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .unwrap_or(0)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::unix::ignored;

    #[test]
    fn ignored_signals_are_read() {
        let status = "Name:\toptc\nSigBlk:\t0000000000000002\nSigIgn:\t0000000000001001\n";
        assert_eq!(ignored(status), 0x1001);
        assert_eq!(ignored("Name:\toptc\n"), 0);
    }
}
