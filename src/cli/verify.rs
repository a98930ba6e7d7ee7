//! `twinlock verify`

use std::path::PathBuf;

use serde::Serialize;
use twinlock::groth16::proof::Proof;
use twinlock::groth16::verifier::{PreparedVerifyingKey, prepare_verifying_key, verify_proof};
use twinlock::{Error, Result};

use super::circuit::KeyedCircuitArgs;
use super::document::{ProofFile, StatedProof};
use super::output::{print, print_json};
use super::{Outcome, invalid};

/// Verify the proofs in a file that `prove` wrote
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code: 0 every proof is valid, 1 one is not, 2 error.\n\n\
    Example: twinlock verify sapling-spend --proof spend.json")]
pub struct Args {
    #[command(flatten)]
    circuit: KeyedCircuitArgs,
    /// The file
    #[arg(long, value_name = "FILE")]
    proof: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Verdict {
    circuit: &'static str,
    label: String,
    valid: bool,
    proofs: Vec<ProofVerdict>,
}

#[derive(Debug, Serialize)]
struct ProofVerdict {
    valid: bool,
    /// Why not, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

pub fn run(args: &Args) -> Result<Outcome> {
    let circuit = args.circuit.find()?;
    let file = ProofFile::read(&args.proof)?;
    let label = circuit.label();
    if label != file.label {
        let problem = format!("its proofs are of `{}`, and `{label}` was asked for", file.label);
        return Err(invalid(args.proof.display().to_string(), problem));
    }
    let key = prepare_verifying_key(&args.circuit.verifying_key(circuit.as_ref())?)?;
    let proofs = (file.proofs.iter().enumerate())
        .map(|(at, stated)| verdict(&key, stated, at))
        .collect::<Result<Vec<_>>>()?;
    let valid = proofs.iter().all(|proof| proof.valid);
    let verdict = Verdict { circuit: circuit.info().name, label, valid, proofs };
    if args.json {
        print_json(&verdict)?;
    } else {
        print(&text(&verdict))?;
    }
    Ok(if valid { Outcome::Good } else { Outcome::Bad })
}

/// Bytes that are no proof at all are an invalid proof; text that is no such bytes is an error.
fn verdict(key: &PreparedVerifyingKey, stated: &StatedProof, at: usize) -> Result<ProofVerdict> {
    let inputs = stated.inputs(at)?;
    let proof = match Proof::from_bytes(&stated.proof_bytes(at)?) {
        Ok(proof) => proof,
        Err(Error::Malformed { problem, .. }) => {
            return Ok(ProofVerdict { valid: false, reason: Some(problem) });
        }
        Err(error) => return Err(error),
    };
    let valid = verify_proof(key, &proof, &inputs).map_err(|error| match error {
        Error::Shape { what, expected, found } => {
            Error::Shape { what: format!("{what} of proof {at}"), expected, found }
        }
        other => other,
    })?;
    Ok(ProofVerdict { valid, reason: None })
}

fn text(verdict: &Verdict) -> String {
    let mut text = String::new();
    for (at, proof) in verdict.proofs.iter().enumerate() {
        let word = if proof.valid { "valid" } else { "INVALID" };
        let reason = proof.reason.as_ref().map(|reason| format!(" ({reason})"));
        text += &format!("proof {at}: {word}{}\n", reason.unwrap_or_default());
    }
    text
}
