//! How much one dispatch does, so that none runs into a watchdog.

use twinlock_api::Group;

/// The most that one dispatch does; what takes more is cut into several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    /// Points that are decoded.
    pub points: u64,
    /// Scalars whose digits are counted, or placed.
    pub scalars: u64,
    /// Additions of G1 points in an MSM; of G2 points half as many.
    pub additions: u64,
    /// Bytes that a kernel fills or copies. It counts words.
    pub bytes: u64,
}

impl Default for Steps {
    /// Enough to fill a large GPU several times, a few milliseconds there, and below a second on one
    /// that is a hundred times slower.
    fn default() -> Self {
        Self { points: 1 << 20, scalars: 1 << 22, additions: 1 << 23, bytes: 1 << 32 }
    }
}

impl Steps {
    /// The same with steps that go forward, over whole words.
    pub(crate) fn sound(self) -> Self {
        let whole = |limit: u64, steps: u64| steps.clamp(1, limit);
        let Self { points, scalars, additions, bytes } = Self::default();
        Self {
            points: whole(points, self.points),
            scalars: whole(scalars, self.scalars),
            additions: whole(additions, self.additions),
            bytes: whole(bytes / 4, self.bytes / 4) * 4,
        }
    }

    /// Additions in `group`.
    pub(crate) const fn additions(&self, group: Group) -> u64 {
        match group {
            Group::G1 => self.additions,
            Group::G2 => self.additions / 2,
        }
    }
}

/// Start and length of each step of at most `step` over `len`.
pub(crate) fn pieces(len: u64, step: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let here = (len - start).min(step);
        let piece = (start, here);
        start += here;
        (here > 0).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_go_forward_and_not_too_far() {
        let none = Steps { points: 0, scalars: 0, additions: 0, bytes: 3 };
        assert_eq!(none.sound(), Steps { points: 1, scalars: 1, additions: 1, bytes: 4 });
        let all = Steps { points: u64::MAX, scalars: u64::MAX, additions: u64::MAX, bytes: !0 };
        assert_eq!(all.sound(), Steps::default());
    }

    #[test]
    fn pieces_cover_all_once() {
        let cut = |len, step| pieces(len, step).collect::<Vec<_>>();
        assert_eq!(cut(0, 4), []);
        assert_eq!(cut(4, 4), [(0, 4)]);
        assert_eq!(cut(9, 4), [(0, 4), (4, 4), (8, 1)]);
    }
}
