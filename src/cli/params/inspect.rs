//! `twinlock params inspect`

use std::path::PathBuf;

use twinlock::Result;
use twinlock::groth16::params::{Inspection, inspect};

use crate::cli::output::{print, print_json, size_text, table};
use crate::cli::{Outcome, invalid};

/// Print a file's sections: counts, offsets, bytes. Reads no points
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: twinlock params inspect circuit.params --strict")]
pub struct Args {
    /// The parameter file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Bytes after the last section, or counts that do not fit each other, are an error
    #[arg(long)]
    strict: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<Outcome> {
    let inspection = inspect(&args.file)?;
    if args.strict {
        inspection.require_no_trailing_bytes()?;
        if !inspection.problems.is_empty() {
            return Err(invalid(inspection.file.clone(), inspection.problems.join("; ")));
        }
    }
    if args.json {
        print_json(&inspection)?;
    } else {
        print(&text(&inspection))?;
    }
    Ok(Outcome::Good)
}

/// The section table and what is odd about it.
pub fn text(inspection: &Inspection) -> String {
    let mut rows = vec![["section", "points", "offset", "bytes"].map(str::to_owned).to_vec()];
    for section in &inspection.sections {
        rows.push(vec![
            section.name.to_owned(),
            section.count.to_string(),
            section.offset.to_string(),
            section.size_bytes.to_string(),
        ]);
    }
    let trailing = inspection.trailing_bytes;
    let size_bytes = inspection.size_bytes;
    let mut text = table(&rows, 1);
    text += &format!("file: {size_bytes} bytes ({})\n", size_text(size_bytes));
    text += &format!("after the last section: {trailing} bytes\n");
    for problem in &inspection.problems {
        text += &format!("problem: {problem}\n");
    }
    text
}
