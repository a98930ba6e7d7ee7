//! `twinlock devices`

use serde::Serialize;
use twinlock::{Result, registry};

use super::Outcome;
use super::output::{print, print_json, size_text, table};

/// List the devices that were looked for, and why one cannot be used
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: twinlock devices --json")]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Listing {
    /// Backends of this build, the preferred first.
    backends: Vec<&'static str>,
    devices: Vec<Entry>,
}

#[derive(Debug, Serialize)]
struct Entry {
    name: String,
    usable: bool,
    #[serde(flatten)]
    details: Details,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Details {
    Usable { model: String, driver: String, memory_bytes: u64, max_lg_domain: u32 },
    Unusable { reason: String },
}

pub fn run(args: &Args) -> Result<Outcome> {
    let backends = registry::backends().iter().map(|backend| backend.name()).collect();
    let devices = registry::discover()
        .into_iter()
        .chain(registry::not_built())
        .map(|found| Entry {
            name: found.name,
            usable: found.usable.is_ok(),
            details: match found.usable {
                Ok(info) => Details::Usable {
                    model: info.model,
                    driver: info.driver,
                    memory_bytes: info.memory_bytes,
                    max_lg_domain: info.max_lg_domain,
                },
                Err(reason) => Details::Unusable { reason },
            },
        })
        .collect();
    let listing = Listing { backends, devices };
    if args.json {
        print_json(&listing)?;
    } else {
        print(&text(&listing))?;
    }
    Ok(Outcome::Good)
}

fn text(listing: &Listing) -> String {
    let mut rows = vec![["device", "model", "driver", "memory"].map(str::to_owned).to_vec()];
    let mut unusable = String::new();
    for entry in &listing.devices {
        match &entry.details {
            Details::Usable { model, driver, memory_bytes, .. } => rows.push(vec![
                entry.name.clone(),
                model.clone(),
                driver.clone(),
                size_text(*memory_bytes),
            ]),
            Details::Unusable { reason } => {
                unusable += &format!("{} cannot be used: {reason}\n", entry.name);
            }
        }
    }
    table(&rows, 3) + &unusable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unusable_device_says_why() {
        let details = Details::Unusable { reason: "no driver".into() };
        let entry = Entry { name: "cuda".into(), usable: false, details };
        let listing = Listing { backends: vec!["cuda"], devices: vec![entry] };
        assert!(text(&listing).contains("cuda cannot be used: no driver"));
        let json = serde_json::to_value(&listing).unwrap();
        assert_eq!(json["devices"][0]["reason"], "no driver");
        assert_eq!(json["devices"][0]["usable"], false);
    }
}
