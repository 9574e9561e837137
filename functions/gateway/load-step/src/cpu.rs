//! Time of the processor that this process has used, its threads included.

use std::time::Duration;

/// File in which Linux reports it (proc(5), `/proc/pid/stat`).
const STAT: &str = "/proc/self/stat";
/// Length of a tick of its times. Linux shows 100 ticks a second, whatever it counts itself.
const TICK: Duration = Duration::from_millis(10);
/// Fields from the state to the time in user mode, which is followed by the time in the kernel.
const BEFORE_USER: usize = 11;

/// Processor time of the process at some moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessorTime(Duration);

impl ProcessorTime {
    /// Reads the time that was used until now; zero where there is no such file. The kernel writes
    /// the file as it is read, so this does not wait for a disk.
    pub(crate) fn now() -> Self {
        let stat = std::fs::read_to_string(STAT).ok();
        Self(stat.and_then(|stat| used(&stat)).unwrap_or_default())
    }

    /// Returns the time that was used since then.
    pub(crate) fn used(self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }
}

fn used(stat: &str) -> Option<Duration> {
    // The second field is a name in parentheses, which may have spaces and parentheses itself.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split_ascii_whitespace().skip(BEFORE_USER);
    let mut ticks = || fields.next()?.parse::<u32>().ok();
    let (user, kernel) = (ticks()?, ticks()?);
    Some(TICK.saturating_mul(user.saturating_add(kernel)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_user_and_kernel_are_added() {
        let stat = "4242 (a ) name) R 1 4242 4242 0 -1 4194304 900 0 3 0 250 75 0 0 20 0 5 0 100 0 0";
        assert_eq!(used(stat), Some(Duration::from_millis(3_250)));
        assert_eq!(used("4242 (name"), None);
        assert_eq!(used("4242 (name) R 1"), None);
    }

    #[test]
    fn what_this_process_computes_is_seen() {
        let before = ProcessorTime::now();
        let begin = std::time::Instant::now();
        let mut sum = 0_u64;
        while begin.elapsed() < Duration::from_millis(300) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(before.used() > Duration::ZERO, "{sum}");
    }
}
