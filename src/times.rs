//! Times as they are shown.

use std::time::Duration;

/// Milliseconds, to the microsecond: as fine as anyone reads.
pub fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
