//! Where and when a measurement was made.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// The machine and the time, to be printed beside figures.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor, in its own words.
    pub cpu_model: String,
    /// Threads that run at once.
    pub cores: usize,
    /// UTC, e.g. `2026-01-31T12:00:00Z`.
    pub date: String,
}

impl Machine {
    /// This machine, now.
    pub fn here() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { cpu_model: cpu_model(), cores, date: utc(now) }
    }
}

fn cpu_model() -> String {
    let listing = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = listing.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    });
    model.unwrap_or_else(|| format!("unknown {}", std::env::consts::ARCH))
}

/// The date of a time since 1970. Years are counted from March, so that the leap day ends one.
fn utc(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs();
    // 719,468 days lie between March 1 of year 0 and 1970; 146,097 days are 400 years.
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months from March on have 31, 30, 31, 30, 31 days, and again: 153 in five.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_200, "2024-03-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(Duration::from_secs(seconds)), date);
        }
    }
}
