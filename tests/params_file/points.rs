//! Bad points, and that each is found where it is.

use std::sync::Mutex;

use twinlock::groth16::params::{ParameterSource, Query};

use super::*;

#[test]
fn any_flipped_bit_of_a_point_is_found_where_it_is() -> TestResult {
    let mut rng = seeded();
    let (bytes, table) = valid_file();
    for section in &table.sections {
        for index in 0..section.count {
            let (offset, size) = point_place(section.name, section.offset, index);
            // The flag bits, and some of the others.
            let mut bits = vec![0, 1, 2];
            bits.extend((0..20).map(|_| rng.gen_range(3..8 * size)));
            for bit in bits {
                let mut bytes = bytes.clone();
                bytes[offset + bit / 8] ^= 0x80 >> (bit % 8);
                let report = check_quietly(&bytes)?;
                let problem = report.problems.first().ok_or("not found")?;
                assert_eq!((report.problem_count, report.problems.len()), (1, 1));
                let found = (problem.section, problem.index, problem.offset);
                assert_eq!(found, (section.name, index, offset as u64), "bit {bit}");
                let opened = open_bytes(&bytes);
                if matches!(section.name, "vk" | "ic") {
                    let error = opened.map(drop).expect_err("bad key");
                    assert_eq!(place(&error), (section.name, offset as u64));
                } else {
                    let error = Parameters::load(&opened?, false).expect_err("bad point");
                    assert_eq!(place(&error), (section.name, offset as u64));
                }
            }
        }
    }
    Ok(())
}

/// The offset and size in bytes of a point.
fn point_place(section: &str, start: u64, index: u64) -> (usize, usize) {
    let start = start as usize;
    let index = index as usize;
    match section {
        "vk" => [(0, 96), (96, 96), (192, 192), (384, 192), (576, 96), (672, 192)][index],
        "b_g2" => (start + 192 * index, 192),
        _ => (start + 96 * index, 96),
    }
}

/// Puts an encoding in the place of a point and returns what the check says of it.
fn problem_of(section: &str, index: u64, encoding: &[u8]) -> String {
    let (mut bytes, table) = valid_file();
    let start = table.sections.iter().find(|s| s.name == section).expect("a section").offset;
    let (offset, size) = point_place(section, start, index);
    bytes[offset..offset + size].copy_from_slice(encoding);
    let report = check_quietly(&bytes).expect("the table is whole");
    match &report.problems[..] {
        [] => String::new(),
        [problem] => {
            assert_eq!((problem.section, problem.index), (section, index));
            assert_eq!(problem.offset, offset as u64);
            problem.problem.clone()
        }
        more => panic!("{more:?}"),
    }
}

/// A random point of G1's curve, almost certainly outside the subgroup.
fn g1_outside(rng: &mut impl RngCore) -> G1Affine {
    loop {
        let mut bytes = [0; 48];
        rng.fill_bytes(&mut bytes);
        bytes[0] = 0x80 | bytes[0] & 0x0f;
        let point: Option<G1Affine> = G1Affine::from_compressed_unchecked(&bytes).into();
        if let Some(point) = point.filter(|point| !bool::from(point.is_torsion_free())) {
            return point;
        }
    }
}

/// A random point of G2's curve, almost certainly outside the subgroup.
fn g2_outside(rng: &mut impl RngCore) -> G2Affine {
    loop {
        let mut bytes = [0; 96];
        rng.fill_bytes(&mut bytes);
        bytes[0] = 0x80 | bytes[0] & 0x0f;
        bytes[48] &= 0x0f;
        let point: Option<G2Affine> = G2Affine::from_compressed_unchecked(&bytes).into();
        if let Some(point) = point.filter(|point| !bool::from(point.is_torsion_free())) {
            return point;
        }
    }
}

#[test]
fn points_off_the_curve_or_outside_the_subgroup_are_told_apart() -> TestResult {
    let mut rng = seeded();
    let subgroup = "on the curve but outside the subgroup of order r";
    let in_g1 = [("ic", 1), ("h", 2), ("l", 0), ("a", 3), ("b_g1", 0)];
    for (section, index) in in_g1 {
        let outside = g1_outside(&mut rng).to_uncompressed();
        assert_eq!(problem_of(section, index, &outside), subgroup);
        let mut off = g1(&mut rng).to_uncompressed();
        off[95] ^= 1;
        assert_eq!(problem_of(section, index, &off), "not on the curve");
        assert_eq!(problem_of(section, index, &[0; 96]), "not on the curve");
    }
    for (section, index, name) in
        [("b_g2", 1, ""), ("vk", 3, "gamma_g2: "), ("vk", 5, "delta_g2: ")]
    {
        let outside = g2_outside(&mut rng).to_uncompressed();
        assert_eq!(problem_of(section, index, &outside), format!("{name}{subgroup}"));
        let mut off = g2(&mut rng).to_uncompressed();
        off[191] ^= 1;
        assert_eq!(problem_of(section, index, &off), format!("{name}not on the curve"));
        assert_eq!(problem_of(section, index, &[0; 192]), format!("{name}not on the curve"));
    }
    // (0, 2) and (0, -2) have order 3.
    let mut two = [0; 96];
    two[95] = 2;
    assert_eq!(problem_of("a", 0, &two), subgroup);
    let minus_two = (-G1Affine::generator()).to_uncompressed();
    let modulus_minus_two = modulus_less(2);
    let mut bytes = [0; 96];
    bytes[48..].copy_from_slice(&modulus_minus_two);
    assert_ne!(minus_two, bytes);
    assert_eq!(problem_of("a", 0, &bytes), subgroup);
    bytes[95] ^= 1;
    assert_eq!(problem_of("a", 0, &bytes), "not on the curve");

    // Unchecked reading takes such a point, for it is on the curve; checked reading does not.
    let mut key = small_key(&mut rng);
    key.l[1] = g1_outside(&mut rng);
    let file = open_bytes(&encoded(&key))?;
    assert_eq!(Parameters::load(&file, false)?, key);
    let error = Parameters::load(&file, true).expect_err("outside");
    assert_eq!(place(&error), ("l", file.point_offset(Query::L, 1)));
    assert!(error.to_string().contains("point 1"), "{error}");
    assert!(Parameters::load(&key, true).is_err());
    Ok(())
}

/// The modulus of the base field less a small number, from the encoding of y and -y of a point.
fn modulus_less(number: u8) -> [u8; 48] {
    let [y, minus_y] = [G1Affine::generator(), -G1Affine::generator()].map(|point| {
        let bytes = point.to_uncompressed();
        <[u8; 48]>::try_from(&bytes[48..]).expect("half of 96")
    });
    let mut sum = [0; 48];
    let mut carry = 0;
    for i in (0..48).rev() {
        let digit = u16::from(y[i]) + u16::from(minus_y[i]) + carry;
        sum[i] = digit as u8;
        carry = digit >> 8;
    }
    assert_eq!(carry, 0);
    sum[47] -= number;
    sum
}

#[test]
fn malformed_encodings_are_refused() {
    let mut rng = seeded();
    let good = g1(&mut rng);
    let mut identity = [0; 96];
    identity[0] = 0x40;
    let with = |position: usize, value: u8| {
        let mut bytes = identity;
        bytes[position] |= value;
        bytes
    };
    let dirty = "the identity's flag with other bits set";
    for bytes in [with(0, 0x01), with(1, 0x80), with(95, 1), with(48, 4)] {
        assert_eq!(problem_of("a", 1, &bytes), dirty);
    }
    let flags = |bits: &str| format!("flag bits {bits} do not occur in an uncompressed point");
    assert_eq!(problem_of("a", 1, &with(0, 0x80)), flags("0xc0"));
    assert_eq!(problem_of("a", 1, &with(0, 0x20)), flags("0x60"));
    // A compressed point where an uncompressed one belongs, which blst by itself would take.
    let mut compressed = [0; 96];
    compressed[..48].copy_from_slice(&good.to_compressed());
    compressed[0] &= 0xdf;
    assert!(bool::from(G1Affine::from_uncompressed(&compressed).is_some()));
    assert_eq!(problem_of("a", 1, &compressed), flags("0x80"));
    let mut signed = good.to_uncompressed();
    signed[0] |= 0x20;
    assert_eq!(problem_of("a", 1, &signed), flags("0x20"));

    let coordinate = |i: usize| format!("coordinate {i} is not below the field's modulus");
    for i in 0..2 {
        let mut bytes = good.to_uncompressed();
        bytes[48 * i..48 * (i + 1)].copy_from_slice(&modulus_less(0));
        assert_eq!(problem_of("h", 0, &bytes), coordinate(i));
        bytes[48 * i..48 * (i + 1)].copy_from_slice(&modulus_less(1));
        assert_eq!(problem_of("h", 0, &bytes), "not on the curve");
    }
    for i in 0..4 {
        let mut bytes = g2(&mut rng).to_uncompressed();
        bytes[48 * i..48 * (i + 1)].copy_from_slice(&modulus_less(0));
        assert_eq!(problem_of("b_g2", 0, &bytes), coordinate(i));
    }
}

#[test]
fn identities_are_refused_in_the_verifying_key_and_counted_in_the_queries() -> TestResult {
    let names = ["alpha_g1", "beta_g1", "beta_g2", "gamma_g2", "delta_g1", "delta_g2"];
    for (index, name) in (0..).zip(names) {
        let (mut bytes, _) = valid_file();
        let (offset, size) = point_place("vk", 0, index);
        bytes[offset..offset + size].fill(0);
        bytes[offset] = 0x40;
        let error = open_bytes(&bytes).expect_err(name);
        assert!(matches!(error, Error::Key(_)), "{error}");
        for part in ["test.params", name, &format!("byte {offset}"), "identity"] {
            assert!(error.to_string().contains(part), "{error}");
        }
        let report = check_quietly(&bytes)?;
        assert_eq!(report.problem_count, 1);
        assert!(report.problems[0].problem.contains(name));
    }
    let mut rng = seeded();
    let mut key = small_key(&mut rng);
    key.vk.ic[1] = G1Affine::identity();
    assert!(matches!(open_bytes(&encoded(&key)), Err(Error::Key(_))));
    assert!(matches!(Parameters::load(&key, true), Err(Error::Key(_))));

    let mut key = small_key(&mut rng);
    key.l[0] = G1Affine::identity();
    key.a[3] = G1Affine::identity();
    key.b_g1[1] = G1Affine::identity();
    key.b_g2[1] = G2Affine::identity();
    let bytes = encoded(&key);
    let report = check_quietly(&bytes)?;
    assert!(report.is_ok(), "{report:?}");
    assert_eq!(report.identities, 4);
    assert_eq!(Parameters::load(&open_bytes(&bytes)?, true)?, key);

    key.h[2] = G1Affine::identity();
    let report = check_quietly(&encoded(&key))?;
    assert_eq!((report.problem_count, report.problems[0].section), (1, "h"));
    assert!(Parameters::load(&key, true).is_err());
    Ok(())
}

#[test]
fn halves_of_beta_and_delta_that_differ_are_found() -> TestResult {
    type Half = fn(&mut VerifyingKey) -> &mut G1Affine;
    let halves: [Half; 2] = [|vk| &mut vk.beta_g1, |vk| &mut vk.delta_g1];
    let mut rng = seeded();
    for half in halves {
        let mut key = small_key(&mut rng);
        *half(&mut key.vk) = g1(&mut rng);
        let report = check_quietly(&encoded(&key))?;
        assert_eq!(report.problem_count, 1);
        let problem = &report.problems[0];
        assert_eq!((problem.section, problem.index, problem.offset), ("vk", 5, 672));
        assert_eq!(problem.problem, "beta / delta is not the same in G1 and G2");
    }
    // Other generators than the standard ones are no fault.
    let [x, y] = [(); 2].map(|()| Scalar::random(&mut rng));
    let mut key = small_key(&mut rng);
    for point in [&mut key.vk.beta_g1, &mut key.vk.delta_g1] {
        *point = (*point * x).to_affine();
    }
    for point in [&mut key.vk.beta_g2, &mut key.vk.delta_g2] {
        *point = (*point * y).to_affine();
    }
    assert!(check_quietly(&encoded(&key))?.is_ok());
    Ok(())
}

#[test]
fn first_problems_are_listed_and_all_are_counted() -> TestResult {
    let mut key = small_key(&mut seeded());
    key.l = vec![G1Affine::generator(); 10_000];
    key.a = vec![G1Affine::generator(); 5000];
    let mut bytes = encoded(&key);
    let table = inspect_bytes("test.params", &bytes)?;
    let l = table.query(Query::L).offset as usize;
    let bad: Vec<usize> = (0..10_000).step_by(3).collect();
    for index in &bad {
        bytes[l + 96 * index + 95] ^= 1;
    }
    let steps = Mutex::new(Vec::new());
    let report = check_bytes("test.params", &bytes, false, &|done, total| {
        steps.lock().expect("no panic").push((done, total));
    })?;
    assert_eq!(report.problem_count, bad.len() as u64);
    let listed: Vec<usize> = report.problems.iter().map(|p| p.index as usize).collect();
    assert_eq!(listed, bad[..100]);
    let steps = steps.into_inner()?;
    assert_eq!(steps.iter().max(), Some(&(table.total_points(), table.total_points())));
    assert!(steps.len() > 15 && steps.iter().all(|(_, total)| *total == table.total_points()));
    Ok(())
}
