//! Sizes on the command line.

/// `16GiB`, `512MiB`, `4096`: a whole number of bytes or of a unit.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_bytes = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kib" | "k" => 1 << 10,
        "mib" | "m" => 1 << 20,
        "gib" | "g" => 1 << 30,
        "tib" | "t" => 1 << 40,
        _ => return Err(format!("`{text}`: no unit `{unit}`, only KiB, MiB, GiB, TiB")),
    };
    let size = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_bytes));
    match size {
        Some(0) | None => Err(format!("`{text}` is no size, e.g. 16GiB")),
        Some(size) => Ok(size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("16GiB"), Ok(16 << 30));
        assert_eq!(parse_size("512 mib"), Ok(512 << 20));
        assert_eq!(parse_size("7"), Ok(7));
        for bad in ["", "GiB", "0GiB", "1.5GiB", "-1", "16GB", "99999999999TiB"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }
}
