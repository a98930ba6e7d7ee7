//! Random valid witnesses: keys, a note, and for a spend its place in a tree.

use ff::Field;
use rand::RngCore;
use sapling_crypto::circuit::{Output, Spend, ValueCommitmentOpening};
use sapling_crypto::keys::ExpandedSpendingKey;
use sapling_crypto::value::NoteValue;
use sapling_crypto::{Diversifier, Note, PaymentAddress, ProofGenerationKey, Rseed, merkle_hash};

use crate::{Error, Result};

/// Levels of the note commitment tree.
const TREE_DEPTH: usize = 32;
/// The most that a note may hold, in zatoshi: 21 million coins.
const MAX_MONEY: u64 = 2_100_000_000_000_000;
/// Half of all diversifiers have no point, so this many in a row have not been seen by anyone.
const MAX_DIVERSIFIERS: usize = 256;

fn value_commitment_opening(rng: &mut dyn RngCore) -> ValueCommitmentOpening {
    ValueCommitmentOpening {
        // Not zero: a spend of nothing has no anchor to prove.
        value: NoteValue::from_raw(1 + rng.next_u64() % MAX_MONEY),
        randomness: jubjub::Fr::random(rng),
    }
}

/// A fresh key and an address of it.
fn key_and_address(rng: &mut dyn RngCore) -> Result<(ProofGenerationKey, PaymentAddress)> {
    let mut spending_key = [0; 32];
    rng.fill_bytes(&mut spending_key);
    let key = ExpandedSpendingKey::from_spending_key(&spending_key).proof_generation_key();
    let viewing_key = key.to_viewing_key();
    for _ in 0..MAX_DIVERSIFIERS {
        let mut diversifier = Diversifier([0; 11]);
        rng.fill_bytes(&mut diversifier.0);
        if let Some(address) = viewing_key.to_payment_address(diversifier) {
            return Ok((key, address));
        }
    }
    Err(Error::Invalid {
        what: "sapling address".into(),
        problem: format!("{MAX_DIVERSIFIERS} diversifiers without a point"),
    })
}

pub(super) fn spend(rng: &mut dyn RngCore) -> Result<Spend> {
    let (key, address) = key_and_address(rng)?;
    let opening = value_commitment_opening(rng);
    let commitment_randomness = jubjub::Fr::random(&mut *rng);
    let note = Note::from_parts(address, opening.value, Rseed::BeforeZip212(commitment_randomness));
    let mut node = note.cmu().to_bytes();
    let mut auth_path = Vec::with_capacity(TREE_DEPTH);
    for depth in 0..TREE_DEPTH {
        let sibling = bls12_381::Scalar::random(&mut *rng);
        let is_right = rng.next_u32() % 2 == 1;
        let bytes = sibling.to_bytes();
        let (left, right) = if is_right { (bytes, node) } else { (node, bytes) };
        node = merkle_hash(depth, &left, &right);
        auth_path.push(Some((sibling, is_right)));
    }
    let anchor = Option::from(bls12_381::Scalar::from_bytes(&node));
    Ok(Spend {
        value_commitment_opening: Some(opening),
        proof_generation_key: Some(key),
        payment_address: Some(address),
        commitment_randomness: Some(commitment_randomness),
        ar: Some(jubjub::Fr::random(rng)),
        auth_path,
        anchor,
    })
}

pub(super) fn output(rng: &mut dyn RngCore) -> Result<Output> {
    let (_, address) = key_and_address(rng)?;
    Ok(Output {
        value_commitment_opening: Some(value_commitment_opening(rng)),
        payment_address: Some(address),
        commitment_randomness: Some(jubjub::Fr::random(&mut *rng)),
        esk: Some(jubjub::Fr::random(rng)),
    })
}
