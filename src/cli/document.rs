//! The JSON document that `prove` writes and `verify` reads.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use blstrs::Scalar;
use serde::{Deserialize, Serialize};
use twinlock::bench::milliseconds;
use twinlock::groth16::proof::Proof;
use twinlock::scheduler::occupancy::Occupancy;
use twinlock::{Error, Result};
use twinlock_api::KernelTime;

/// More than some ten thousand proofs with a few dozen inputs take.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// What `prove` prints.
#[derive(Debug, Serialize)]
pub struct Document {
    pub circuit: &'static str,
    /// With the options that make a difference to the key.
    pub label: String,
    pub device: String,
    /// The circuit's own, without the rows for inputs.
    pub constraints: usize,
    /// With one row more for each input, ONE included.
    pub constraints_with_input_rows: usize,
    pub domain: usize,
    pub times_ms: Times,
    /// How long partitions held each device.
    pub devices: BTreeMap<String, Occupancy>,
    /// How much of the job kernels ran on it, where they were timed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kernels: BTreeMap<String, Kernels>,
    pub proofs: Vec<ProofEntry>,
}

/// A device's kernels during the job, by its own clock.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Kernels {
    pub count: u64,
    /// From the first one's start to the last one's end.
    pub span_ms: f64,
    /// Time within the span in which at least one ran.
    pub busy_ms: f64,
    /// `busy_ms` over `span_ms`.
    pub share: f64,
}

impl From<KernelTime> for Kernels {
    fn from(time: KernelTime) -> Self {
        let KernelTime { count, span, busy } = time;
        let (span_ms, busy_ms) = (milliseconds(span), milliseconds(busy));
        Self { count, span_ms, busy_ms, share: time.share() }
    }
}

/// Milliseconds, summed over the proofs.
#[derive(Debug, Default, Serialize)]
pub struct Times {
    /// Opening the device, and reading or generating the key.
    pub load: f64,
    pub synthesis: f64,
    /// From the assignment to the proof.
    pub prove: f64,
    /// The check of each proof before it is given out.
    pub verify: f64,
    /// From the first partition's start to the last proof; not a sum.
    pub job: f64,
}

#[derive(Debug, Serialize)]
pub struct ProofEntry {
    /// 192 bytes: A, B, C compressed.
    pub proof: String,
    /// 32 bytes each, little-endian; without the constant ONE.
    pub public_inputs: Vec<String>,
    pub verified: bool,
    pub device: String,
}

/// What `verify` takes of a document.
#[derive(Debug, Deserialize)]
pub struct ProofFile {
    pub label: String,
    pub proofs: Vec<StatedProof>,
}

/// A proof and what it claims to prove, as text.
#[derive(Debug, Deserialize)]
pub struct StatedProof {
    pub proof: String,
    pub public_inputs: Vec<String>,
}

impl ProofFile {
    /// Reads a document.
    pub fn read(path: &Path) -> Result<Self> {
        let io = |e| Error::io(path, e);
        let mut bytes = Vec::new();
        // Asked first: to open a pipe is to wait for its writer.
        if !fs::metadata(path).map_err(io)?.is_file() {
            return Err(io(std::io::Error::other("not a regular file")));
        }
        let file = File::open(path).map_err(io)?;
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(Error::Limit {
                what: format!("{}: bytes of a proof file, at least", path.display()),
                value: bytes.len() as u64,
                limit: MAX_FILE_BYTES,
            });
        }
        let named = |problem: String| malformed(format!("{}: {problem}", path.display()));
        let file: Self = serde_json::from_slice(&bytes).map_err(|e| named(e.to_string()))?;
        if file.proofs.is_empty() {
            return Err(named("`proofs` is empty".into()));
        }
        Ok(file)
    }
}

impl StatedProof {
    /// The proof's bytes; what they mean is for the verifier to say.
    pub fn proof_bytes(&self, at: usize) -> Result<[u8; Proof::SIZE_BYTES]> {
        hex_bytes(&self.proof, &format!("proofs[{at}].proof"))
    }

    /// The public inputs, each below the field's modulus.
    pub fn inputs(&self, at: usize) -> Result<Vec<Scalar>> {
        let scalar = |(i, text): (usize, &String)| {
            let name = format!("proofs[{at}].public_inputs[{i}]");
            let bytes = hex_bytes(text, &name)?;
            Option::from(Scalar::from_bytes_le(&bytes))
                .ok_or_else(|| malformed(format!("{name} is not below the field's modulus")))
        };
        self.public_inputs.iter().enumerate().map(scalar).collect()
    }
}

/// A scalar as documents hold it.
pub fn scalar_hex(scalar: &Scalar) -> String {
    hex::encode(scalar.to_bytes_le())
}

fn hex_bytes<const N: usize>(text: &str, name: &str) -> Result<[u8; N]> {
    if text.len() != 2 * N {
        let found = text.len();
        return Err(malformed(format!("{name} has {found} characters, not {}", 2 * N)));
    }
    let mut bytes = [0; N];
    hex::decode_to_slice(text, &mut bytes).map_err(|e| malformed(format!("{name}: {e}")))?;
    Ok(bytes)
}

fn malformed(problem: String) -> Error {
    Error::Malformed { what: "proof file", problem }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ff::Field;

    fn stated(proof: &str, input: &str) -> StatedProof {
        StatedProof { proof: proof.into(), public_inputs: vec![input.into()] }
    }

    #[test]
    fn what_is_malformed_is_named() {
        let scalar = scalar_hex(&Scalar::random(rand::rngs::OsRng));
        let good = stated(&"00".repeat(192), &scalar);
        assert_eq!(good.proof_bytes(0).unwrap(), [0; 192]);
        assert_eq!(scalar_hex(&good.inputs(0).unwrap()[0]), scalar);
        let error = stated("00", &scalar).proof_bytes(3).unwrap_err().to_string();
        assert!(error.contains("proofs[3].proof has 2 characters, not 384"), "{error}");
        let error = stated(&"zz".repeat(192), "").proof_bytes(0).unwrap_err().to_string();
        assert!(error.contains("proofs[0].proof: "), "{error}");
        // r itself, little-endian.
        let modulus = "01000000fffffffffe5bfeff02a4bd5305d8a10908d83933487d9d2953a7ed73";
        let error = stated("", modulus).inputs(1).unwrap_err().to_string();
        assert!(error.contains("proofs[1].public_inputs[0] is not below"), "{error}");
    }
}
