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

/// Sizes for devices: `16GiB` for each, `cuda:0=16GiB` for one, or a list of such.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceSizes {
    /// For every device that is not named.
    pub all: Option<u64>,
    /// By name.
    pub each: Vec<(String, u64)>,
}

/// Parses [`DeviceSizes`].
pub fn parse_device_sizes(text: &str) -> Result<DeviceSizes, String> {
    let mut sizes = DeviceSizes::default();
    for item in text.split(',') {
        match item.split_once('=') {
            None => {
                if sizes.all.replace(parse_size(item.trim())?).is_some() {
                    return Err(format!("`{text}`: two sizes without a device's name"));
                }
            }
            Some((name, size)) => {
                let (name, size) = (name.trim(), parse_size(size.trim())?);
                if name.is_empty() || sizes.each.iter().any(|(other, _)| other == name) {
                    return Err(format!("`{text}`: device `{name}` is named twice or not at all"));
                }
                sizes.each.push((name.to_owned(), size));
            }
        }
    }
    Ok(sizes)
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

    #[test]
    fn devices_have_sizes() {
        let sizes = |all, each: &[(&str, u64)]| {
            let each = each.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect();
            Ok(DeviceSizes { all, each })
        };
        assert_eq!(parse_device_sizes("16GiB"), sizes(Some(16 << 30), &[]));
        let two = [("cuda:0", 16 << 30), ("cuda:1", 8 << 30)];
        assert_eq!(parse_device_sizes("cuda:0=16GiB, cuda:1 = 8GiB"), sizes(None, &two));
        assert_eq!(parse_device_sizes("4GiB,wgsl=1k"), sizes(Some(4 << 30), &[("wgsl", 1024)]));
        for bad in ["", "1,2", "=1", "a=", "a=1,a=2", "a=1,", "a=b=1"] {
            assert!(parse_device_sizes(bad).is_err(), "{bad}");
        }
    }
}
