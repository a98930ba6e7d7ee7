//! Points in the layouts of device memory and of parameter files.

use blstrs::{G1Affine, G1Projective, G2Affine, G2Projective, Scalar};
use group::prime::{PrimeCurve, PrimeCurveAffine};
use rayon::prelude::*;
use twinlock_api::Group;

use super::fp::{Limbs, from_bytes, montgomery_from_be};

/// A group as the oracles see it. Coordinates are lists of Fp limbs in Montgomery form, in the
/// order of device memory: for G2 x.c0, x.c1, y.c0, y.c1.
pub trait CurveOracle: 'static {
    /// Which one.
    const GROUP: Group;
    /// Points (Jacobian in blstrs).
    type Point: PrimeCurve<Affine = Self::Affine, Scalar = Scalar> + Send + Sync;
    /// Affine points.
    type Affine: PrimeCurveAffine<Curve = Self::Point, Scalar = Scalar>;

    /// Coordinates, zeros for infinity.
    fn affine_limbs(point: &Self::Affine) -> Vec<Limbs>;

    /// The point with these coordinates, unchecked. Missing ones are zero.
    fn from_affine_limbs(limbs: &[Limbs]) -> Self::Affine;

    /// Jacobian coordinates.
    fn jacobian_limbs(point: &Self::Point) -> Vec<Limbs>;

    /// The point with these Jacobian coordinates, unchecked. Missing ones are zero.
    fn from_jacobian_limbs(limbs: &[Limbs]) -> Self::Point;

    /// Whether the point is on the curve.
    fn on_curve(point: &Self::Affine) -> bool;

    /// Big-endian with flag bits, as in parameter files.
    fn uncompressed(point: &Self::Affine) -> Vec<u8>;

    /// Bytes of an affine point.
    fn affine_bytes() -> usize {
        Self::GROUP.affine_bytes() as usize
    }

    /// Reads what [`CurveOracle::uncompressed`] writes; `None` if malformed, which includes points
    /// off the curve if `on_curve` is asked for.
    fn from_uncompressed(bytes: &[u8], on_curve: bool) -> Option<Self::Affine> {
        let (flags, mut bytes) = (bytes.first()? & 0xe0, bytes.to_vec());
        bytes[0] &= 0x1f;
        if flags == 0x40 && bytes.iter().all(|byte| *byte == 0) {
            return Some(Self::Affine::identity());
        }
        let coordinates = bytes.as_chunks::<48>().0;
        let mut limbs: Vec<_> =
            coordinates.iter().map(montgomery_from_be).collect::<Option<_>>()?;
        // Files have the highest coefficient of a coordinate first.
        let degree = limbs.len() / 2;
        limbs.chunks_mut(degree.max(1)).for_each(<[_]>::reverse);
        let point = Self::from_affine_limbs(&limbs);
        // Zeros are how infinity looks in blstrs; here it takes the flag.
        let infinity = bool::from(point.is_identity());
        let good = flags == 0 && !infinity && (!on_curve || Self::on_curve(&point));
        good.then_some(point)
    }

    /// The canonical layout: x, y, or zeros for infinity.
    fn encode(point: &Self::Affine) -> Vec<u8> {
        to_bytes(&Self::affine_limbs(point))
    }

    /// Canonical layout of many.
    fn encode_all(points: &[Self::Affine]) -> Vec<u8> {
        points.par_iter().flat_map_iter(Self::encode).collect()
    }

    /// Reads the canonical layout, unchecked but for coordinates below p.
    fn decode(bytes: &[u8]) -> Option<Self::Affine> {
        Some(Self::from_affine_limbs(&to_limbs(bytes)?))
    }

    /// The canonical Jacobian layout.
    fn encode_jacobian(point: &Self::Point) -> Vec<u8> {
        to_bytes(&Self::jacobian_limbs(point))
    }

    /// Reads Jacobian points in canonical layout.
    ///
    /// # Errors
    /// Names the first that has a coordinate not below p or is not on the curve.
    fn decode_jacobian(bytes: &[u8]) -> Result<Vec<Self::Point>, String> {
        let check = |(index, chunk)| {
            let limbs = to_limbs(chunk)
                .ok_or_else(|| format!("a coordinate of point {index} is not below p"))?;
            if limbs.iter().skip(limbs.len() / 3 * 2).all(|limbs| *limbs == [0; 6]) {
                return Ok(<Self::Point as group::Group>::identity());
            }
            let point = Self::from_jacobian_limbs(&limbs);
            if !Self::on_curve(&group::Curve::to_affine(&point)) {
                return Err(format!("point {index} is not on the curve"));
            }
            Ok(point)
        };
        let point_bytes = Self::GROUP.jacobian_bytes() as usize;
        bytes.chunks(point_bytes).enumerate().map(check).collect()
    }
}

fn to_bytes(limbs: &[Limbs]) -> Vec<u8> {
    limbs.iter().flatten().flat_map(|limb| limb.to_le_bytes()).collect()
}

fn to_limbs(bytes: &[u8]) -> Option<Vec<Limbs>> {
    bytes.as_chunks::<48>().0.iter().map(from_bytes).collect()
}

/// The group over Fp.
#[derive(Debug, Clone, Copy)]
pub struct G1;

/// The group over Fp2.
#[derive(Debug, Clone, Copy)]
pub struct G2;

macro_rules! curve_oracle {
    (
        $marker:ident, $point:ident, $affine:ident,
        [$($xy:tt $xy_part:tt),*], [$($xyz:tt $xyz_part:tt),*]
    ) => {
        impl CurveOracle for $marker {
            const GROUP: Group = Group::$marker;
            type Point = $point;
            type Affine = $affine;

            fn affine_limbs(point: &$affine) -> Vec<Limbs> {
                let raw = point.as_ref();
                vec![$(curve_oracle!(@ raw.$xy $xy_part)),*]
            }

            fn from_affine_limbs(limbs: &[Limbs]) -> $affine {
                let mut point = $affine::default();
                let raw = point.as_mut();
                let mut limbs = limbs.iter().copied();
                $(curve_oracle!(@ raw.$xy $xy_part) = limbs.next().unwrap_or_default();)*
                point
            }

            fn jacobian_limbs(point: &$point) -> Vec<Limbs> {
                let raw = point.as_ref();
                vec![$(curve_oracle!(@ raw.$xyz $xyz_part)),*]
            }

            fn from_jacobian_limbs(limbs: &[Limbs]) -> $point {
                let mut point = <$point as group::Group>::identity();
                let raw = point.as_mut();
                let mut limbs = limbs.iter().copied();
                $(curve_oracle!(@ raw.$xyz $xyz_part) = limbs.next().unwrap_or_default();)*
                point
            }

            fn on_curve(point: &$affine) -> bool {
                point.is_on_curve().into()
            }

            fn uncompressed(point: &$affine) -> Vec<u8> {
                point.to_uncompressed().to_vec()
            }
        }
    };
    (@ $raw:ident . $coordinate:tt _) => { $raw.$coordinate.l };
    (@ $raw:ident . $coordinate:tt $part:tt) => { $raw.$coordinate.fp[$part].l };
}

curve_oracle!(G1, G1Projective, G1Affine, [x _, y _], [x _, y _, z _]);
curve_oracle!(
    G2,
    G2Projective,
    G2Affine,
    [x 0, x 1, y 0, y 1],
    [x 0, x 1, y 0, y 1, z 0, z 1]
);

#[cfg(test)]
mod tests {
    use super::super::fp::fp_modulus_be;
    use super::*;
    use rand::SeedableRng;

    fn layouts_round_trip<C: CurveOracle>() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(2);
        for _ in 0..5 {
            let point = <C::Point as group::Group>::random(&mut rng);
            let affine: C::Affine = group::Curve::to_affine(&point);
            assert_eq!(C::decode(&C::encode(&affine)).unwrap(), affine);
            assert_eq!(C::decode_jacobian(&C::encode_jacobian(&point)).unwrap(), [point]);
            // blstrs wrote the file's form; the decoder here shares no code with it.
            let file = C::uncompressed(&affine);
            assert_eq!(C::from_uncompressed(&file, true).unwrap(), affine);
        }
        let infinity = C::Affine::identity();
        assert_eq!(C::encode(&infinity), vec![0; C::affine_bytes()]);
        assert_eq!(C::from_uncompressed(&C::uncompressed(&infinity), true).unwrap(), infinity);
        assert!(C::decode_jacobian(&vec![0xff; C::GROUP.jacobian_bytes() as usize]).is_err());
        for on_curve in [false, true] {
            let mut zeros = vec![0; C::affine_bytes()];
            assert!(C::from_uncompressed(&zeros, on_curve).is_none());
            zeros[0] = 0x80;
            assert!(C::from_uncompressed(&zeros, on_curve).is_none());
        }
        let mut too_large = C::uncompressed(&C::Affine::generator());
        too_large[..48].copy_from_slice(&fp_modulus_be());
        assert!(C::from_uncompressed(&too_large, false).is_none());
    }

    #[test]
    fn layouts_round_trip_in_both_groups() {
        layouts_round_trip::<G1>();
        layouts_round_trip::<G2>();
    }

    #[test]
    fn generator_has_the_published_coordinate() {
        // x of G1's generator in Montgomery form, as the blst library's sources have it.
        let limbs = G1::affine_limbs(&G1Affine::generator());
        assert_eq!(limbs[0][0], 0x5cb3_8790_fd53_0c16);
        assert_eq!(G1::uncompressed(&G1Affine::generator())[46..48], [0xc6, 0xbb]);
    }
}
