//! A circuit of one's own, from constraints to a checked proof: `cargo run --release --example
//! own_circuit`. It shows knowledge of x with x^3 + x + 5 = 35.

use bellpepper_core::{Circuit, ConstraintSystem, SynthesisError};
use blstrs::Scalar;
use rand::rngs::OsRng;
use twinlock::create_random_proof;
use twinlock::groth16::generator::generate_parameters;
use twinlock::groth16::verifier::{prepare_verifying_key, verify_proof};

struct Cubic {
    /// `None` when only the shape is needed, for the key.
    x: Option<Scalar>,
}

impl Circuit<Scalar> for Cubic {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let value =
            |of: fn(Scalar) -> Scalar| self.x.map(of).ok_or(SynthesisError::AssignmentMissing);
        let x = cs.alloc(|| "x", || value(|x| x))?;
        let square = cs.alloc(|| "x^2", || value(|x| x * x))?;
        let cube = cs.alloc(|| "x^3", || value(|x| x * x * x))?;
        let result = cs.alloc_input(|| "y", || value(|x| x * x * x + x + Scalar::from(5)))?;
        cs.enforce(|| "x * x", |lc| lc + x, |lc| lc + x, |lc| lc + square);
        cs.enforce(|| "x^2 * x", |lc| lc + square, |lc| lc + x, |lc| lc + cube);
        let five = (Scalar::from(5), CS::one());
        cs.enforce(|| "y", |lc| lc + cube + x + five, |lc| lc + CS::one(), |lc| lc + result);
        Ok(())
    }
}

fn main() -> twinlock::Result<()> {
    // For a demonstration only: whoever makes a key alone can forge proofs.
    let params = generate_parameters(Cubic { x: None }, &mut OsRng, &|_, _| ())?;
    let proof = create_random_proof(Cubic { x: Some(Scalar::from(3)) }, &params, OsRng)?;

    let key = prepare_verifying_key(&params.vk)?;
    assert!(verify_proof(&key, &proof, &[Scalar::from(35)])?);
    assert!(!verify_proof(&key, &proof, &[Scalar::from(36)])?);
    #[allow(clippy::print_stdout)]
    {
        println!("{}", proof.to_hex());
    }
    Ok(())
}
