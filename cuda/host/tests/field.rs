//! Fr, Fp and Fp2 against blstrs and against exact slow arithmetic.

use blstrs::Scalar;
use ff::Field as _;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use twinlock_conformance::oracle::{fr_from_bytes, fr_words};
use twinlock_cuda_host::field::{Field, Fp, Fp2, Fr, Limbs, Operation};
use twinlock_fields::{FP, FR};

const RANDOM: usize = 24;

fn compute<F: Field>(operation: Operation, a: &F, b: &F) -> F {
    F::compute(operation, a, b).expect("an operation of the field")
}

fn limbs<const N: usize>(value: &[u32]) -> Limbs<N> {
    Limbs(value.try_into().expect("as many limbs as the field has"))
}

/// A uniform element, as the limbs of its Montgomery form.
fn random<const N: usize>(field: &twinlock_fields::Field, rng: &mut ChaCha8Rng) -> Limbs<N> {
    let mut value = Limbs([0; N]);
    let mask = u32::MAX >> (field.radix_bits() - field.bits);
    loop {
        rng.fill(&mut value.0[..]);
        value.0[N - 1] &= mask;
        if value.0.iter().rev().lt(field.modulus.iter().rev()) {
            return value;
        }
    }
}

/// Limbs that have carries run far, zero, one, the modulus less one and its neighbours.
fn edges<const N: usize>(field: &twinlock_fields::Field) -> Vec<Limbs<N>> {
    let mut values: Vec<Limbs<N>> = Vec::new();
    for small in [0, 1, 2, 3, u32::MAX] {
        let value = field.small(small);
        values.extend([limbs(&value), limbs(&field.neg(&value))]);
    }
    values.extend([limbs(&field.one_montgomery()), limbs(&field.neg(&field.one_montgomery()))]);
    values.push(limbs(&field.r_squared()));
    // Powers of two and runs of ones, below the modulus.
    for bit in [31, 32, 33, 63, 64, 127, 128, field.bits - 2] {
        let mut power = field.small(0);
        power[bit as usize / 32] = 1 << (bit % 32);
        let mut ones = vec![u32::MAX; N];
        for (i, limb) in ones.iter_mut().enumerate() {
            let above = (i as u32 * 32).saturating_sub(bit);
            *limb = match bit.saturating_sub(i as u32 * 32) {
                32.. => u32::MAX,
                0 if above > 0 => 0,
                bits => (1 << bits) - 1,
            };
        }
        values.extend([limbs(&power), limbs(&ones)]);
        values.push(limbs(&field.neg(&power)));
    }
    // Half the modulus, below and above.
    let half = field.mul(&field.neg(&field.small(1)), &field.power_of_two(-1));
    values.extend([limbs(&half), limbs(&field.neg(&half))]);
    values
}

fn prime<const N: usize>(field: &twinlock_fields::Field)
where
    Limbs<N>: Field,
{
    let seed = rand::random();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut values = edges::<N>(field);
    values.extend((0..RANDOM).map(|_| random(field, &mut rng)));
    let unit: Limbs<N> = limbs(&field.one_montgomery());
    let flag = |value: bool| if value { unit } else { limbs(&field.small(0)) };
    let r_inverse = field.from_montgomery(&field.small(1));
    for a in &values {
        let what = format!("{} {a:x?}, seed {seed}", field.name);
        let over_r = limbs(&field.mul(&a.0, &r_inverse));
        assert_eq!(compute(Operation::FromMontgomery, a, a), over_r, "{what}");
        assert_eq!(compute(Operation::ToMontgomery, &over_r, a), *a, "{what}");
        assert_eq!(compute(Operation::Neg, a, a), limbs(&field.neg(&a.0)), "{what}");
        assert_eq!(compute(Operation::Dbl, a, a), limbs(&field.add(&a.0, &a.0)), "{what}");
        let square = field.mul(&over_r.0, &a.0);
        assert_eq!(compute(Operation::Sqr, a, a), limbs(&square), "{what}");
        let is_zero = a.0.iter().all(|limb| *limb == 0);
        assert_eq!(compute(Operation::IsZero, a, a), flag(is_zero), "{what}");
        assert_eq!(compute(Operation::BelowModulus, a, a), unit, "{what}");
        for b in &values {
            let what = format!("{what}, {b:x?}");
            assert_eq!(compute(Operation::Add, a, b), limbs(&field.add(&a.0, &b.0)), "{what}");
            let difference = field.add(&a.0, &field.neg(&b.0));
            assert_eq!(compute(Operation::Sub, a, b), limbs(&difference), "{what}");
            let product = field.mul(&over_r.0, &b.0);
            assert_eq!(compute(Operation::Mul, a, b), limbs(&product), "{what}");
            assert_eq!(compute(Operation::Equal, a, b), flag(a == b), "{what}");
        }
    }
    let modulus: Limbs<N> = limbs(field.modulus);
    let mut next = modulus;
    next.0[0] += 1;
    let mut top = modulus;
    top.0[N - 1] += 1;
    top.0[0] = 0;
    for above in [modulus, next, top, Limbs([u32::MAX; N])] {
        assert_eq!(compute(Operation::BelowModulus, &above, &above), flag(false), "{above:x?}");
    }
}

#[test]
fn fr_is_exact() {
    prime::<8>(&FR);
}

#[test]
fn fp_is_exact() {
    prime::<12>(&FP);
}

/// a b + (a + b) (-a) = -a a.
#[test]
fn fp_sums_of_products() {
    let seed = rand::random();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut values = edges::<12>(&FP);
    values.extend((0..RANDOM).map(|_| random(&FP, &mut rng)));
    for a in &values {
        let square = compute(Operation::Sqr, a, a);
        let expected = compute(Operation::Neg, &square, &square);
        for b in &values {
            assert_eq!(compute(Operation::Dot, a, b), expected, "{a:x?}, {b:x?}, seed {seed}");
        }
    }
    assert_eq!(Fr::compute(Operation::Dot, &Limbs([0; 8]), &Limbs([0; 8])), None);
}

/// Products by factors with a quotient, whose rounding has the least room at the edges.
#[test]
fn products_by_known_factors() {
    let seed = rand::random();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut values = edges::<8>(&FR);
    values.extend((0..200).map(|_| random(&FR, &mut rng)));
    // Factors whose quotients are small, all ones at the top, or next to a multiple.
    let standard = [1u32, 2, 3, 1 << 31].map(|small| FR.small(small));
    for value in &standard {
        values.extend([limbs(&FR.to_montgomery(value)), limbs(&FR.to_montgomery(&FR.neg(value)))]);
    }
    for a in &values {
        for b in &values {
            let expected = compute(Operation::Mul, a, b);
            for operation in [Operation::MulKnown, Operation::MulKnownUnreduced] {
                let found = compute(operation, a, b);
                assert_eq!(found, expected, "{operation:?}, {a:x?}, {b:x?}, seed {seed}");
            }
        }
    }
    let root = FR.root_of_unity(2).expect("Fr has one");
    let root = limbs(&FR.to_montgomery(&root));
    for a in &values {
        for b in &values {
            let expected = compute(Operation::Mul, &compute(Operation::Sub, a, b), &root);
            let found = compute(Operation::DifferenceByFourthRoot, a, b);
            assert_eq!(found, expected, "{a:x?}, {b:x?}, seed {seed}");
        }
    }
    assert_eq!(Fp::compute(Operation::MulKnown, &Limbs([0; 12]), &Limbs([0; 12])), None);
}

/// Chains of operations on random values, as blstrs computes them.
#[test]
fn fr_agrees_with_blstrs() {
    let seed = rand::random();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut known = [(); 3].map(|()| Scalar::random(&mut rng));
    let mut found = known.map(|value| Limbs(fr_words(&value)));
    for round in 0..20_000 {
        let (a, b) = (rng.gen_range(0..3), rng.gen_range(0..3));
        let target = rng.gen_range(0..3);
        let (operation, value) = match rng.gen_range(0..6) {
            0 => (Operation::Add, known[a] + known[b]),
            1 => (Operation::Sub, known[a] - known[b]),
            2 => (Operation::Neg, -known[a]),
            3 => (Operation::Sqr, known[a].square()),
            4 => (Operation::Dbl, known[a].double()),
            _ => (Operation::Mul, known[a] * known[b]),
        };
        found[target] = compute(operation, &found[a], &found[b]);
        known[target] = value;
        let bytes: Vec<u8> = found[target].0.iter().flat_map(|limb| limb.to_le_bytes()).collect();
        let what = format!("round {round}, {operation:?}, seed {seed}");
        assert_eq!(fr_from_bytes(&bytes), Some(value), "{what}");
        if value == Scalar::ZERO {
            known[target] = Scalar::random(&mut rng);
            found[target] = Limbs(fr_words(&known[target]));
        }
    }
}

/// By the definition of the extension, over the exact base field.
#[test]
fn fp2_follows_from_fp() {
    let seed = rand::random();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let join = |c0: Fp, c1: Fp| -> Fp2 { limbs(&[c0.0, c1.0].concat()) };
    let mut parts: Vec<Fp> = edges(&FP).into_iter().step_by(5).collect();
    parts.extend((0..3).map(|_| random(&FP, &mut rng)));
    let values: Vec<_> =
        parts.iter().flat_map(|a| parts.iter().map(|b| (*a, *b))).step_by(2).collect();
    let f = |operation, a: &Fp, b: &Fp| compute(operation, a, b);
    use Operation::{Add, Dbl, Equal, FromMontgomery, IsZero, Mul, Neg, Sqr, Sub};
    let one = limbs(&FP.one_montgomery());
    let zero: Fp = limbs(&FP.small(0));
    let product = |a: &(Fp, Fp), b: &(Fp, Fp)| {
        let c0 = f(Sub, &f(Mul, &a.0, &b.0), &f(Mul, &a.1, &b.1));
        join(c0, f(Add, &f(Mul, &a.0, &b.1), &f(Mul, &a.1, &b.0)))
    };
    for a in &values {
        let whole = join(a.0, a.1);
        let what = format!("{a:x?}, seed {seed}");
        assert_eq!(compute(Sqr, &whole, &whole), product(a, a), "{what}");
        let negated = join(f(Neg, &a.0, &a.0), f(Neg, &a.1, &a.1));
        assert_eq!(compute(Neg, &whole, &whole), negated, "{what}");
        let doubled = join(f(Dbl, &a.0, &a.0), f(Dbl, &a.1, &a.1));
        assert_eq!(compute(Dbl, &whole, &whole), doubled, "{what}");
        let is_zero = if whole.0 == [0; 24] { one } else { zero };
        assert_eq!(compute(IsZero, &whole, &whole), join(is_zero, zero), "{what}");
        for b in &values {
            let (other, what) = (join(b.0, b.1), format!("{what}, {b:x?}"));
            assert_eq!(compute(Mul, &whole, &other), product(a, b), "{what}");
            let sum = join(f(Add, &a.0, &b.0), f(Add, &a.1, &b.1));
            assert_eq!(compute(Add, &whole, &other), sum, "{what}");
            let difference = join(f(Sub, &a.0, &b.0), f(Sub, &a.1, &b.1));
            assert_eq!(compute(Sub, &whole, &other), difference, "{what}");
            let equal = if a == b { one } else { zero };
            assert_eq!(compute(Equal, &whole, &other), join(equal, zero), "{what}");
        }
    }
    let any = join(one, one);
    assert_eq!(Fp2::compute(FromMontgomery, &any, &any), None);
    assert!(Fr::compute(FromMontgomery, &Limbs([0; 8]), &Limbs([0; 8])).is_some());
}

/// Every pair of the edges that Karatsuba's middle product is largest at.
#[test]
fn fp2_products_at_the_largest_limbs() {
    let join = |c0: &Fp, c1: &Fp| -> Fp2 { limbs(&[c0.0, c1.0].concat()) };
    let mut parts: Vec<Fp> = edges(&FP);
    parts.dedup();
    let f = |operation, a: &Fp, b: &Fp| compute(operation, a, b);
    use Operation::{Add, Mul, Sqr, Sub};
    let values: Vec<(Fp, Fp)> = parts.iter().flat_map(|a| parts.iter().map(|b| (*a, *b))).collect();
    for a in &values {
        let whole = join(&a.0, &a.1);
        let product = |b: &(Fp, Fp)| {
            let c0 = f(Sub, &f(Mul, &a.0, &b.0), &f(Mul, &a.1, &b.1));
            join(&c0, &f(Add, &f(Mul, &a.0, &b.1), &f(Mul, &a.1, &b.0)))
        };
        assert_eq!(compute(Sqr, &whole, &whole), product(a));
        for b in &values {
            assert_eq!(compute(Mul, &whole, &join(&b.0, &b.1)), product(b), "{a:x?} {b:x?}");
        }
    }
}
