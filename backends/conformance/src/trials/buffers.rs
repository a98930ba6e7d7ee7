//! Views, slices, and the operations that move bytes.

use twinlock_api::layout::NO_BASE;
use twinlock_api::op::{Convert, Copy, DecodePoints, Fill, Gather, PointCheck, Vector};
use twinlock_api::{FrView, Group, IndexView, Op, PointView, StagingKind};

use super::{LENGTHS, random_bytes, random_values};
use crate::harness::{Fixture, Trial, Verdict, ensure, first_difference, passed};
use crate::oracle::frs_to_bytes;

/// Lengths in words around cache lines, workgroups and the largest grids' strides.
const WORDS: [usize; 14] = [0, 1, 2, 7, 8, 9, 63, 64, 65, 255, 256, 257, 4099, 70_001];

pub(super) fn trials() -> Vec<Trial> {
    vec![
        Trial { name: "buffers::upload_download", run: upload_download },
        Trial { name: "buffers::copies_at_offsets", run: copies_at_offsets },
        Trial { name: "buffers::fill", run: fill },
        Trial { name: "buffers::copy", run: copy },
        Trial { name: "buffers::copy_within_a_region", run: copy_within_a_region },
        Trial { name: "buffers::gather", run: gather },
        Trial { name: "buffers::slices", run: slices },
        Trial { name: "buffers::empty_views", run: empty_views },
    ]
}

fn upload_download(f: &mut Fixture) -> Verdict {
    for words in WORDS {
        let bytes = random_bytes(words * 4, &mut f.rng);
        let (work, resident) =
            (f.work("work", bytes.len() as u64)?, f.resident("resident", bytes.len() as u64)?);
        f.put(work, &bytes)?;
        f.put(resident, &bytes)?;
        first_difference("work", &f.get(work)?, &bytes)?;
        first_difference("resident", &f.get(resident)?, &bytes)?;
    }
    passed()
}

fn copies_at_offsets(f: &mut Fixture) -> Verdict {
    const LEN: usize = 2048;
    let view = f.work("view", LEN as u64)?;
    let mut expected = random_bytes(LEN, &mut f.rng);
    f.put(view, &expected)?;
    let device = f.device().clone();
    let stream = f.stream();
    let mut upload = device.allocate_staging("upload", StagingKind::Upload, LEN as u64)?;
    let mut download = device.allocate_staging("download", StagingKind::Download, LEN as u64)?;
    let source = random_bytes(LEN, &mut f.rng);
    upload.host(Fixture::TIMEOUT)?.copy_from_slice(&source);
    for (from, to, len) in
        [(0, 4, 4), (4, 256, 4), (12, 300, 36), (256, 512, 260), (LEN - 4, 1020, 4), (8, 2040, 8)]
    {
        device.upload(stream, &mut *upload, from as u64, view.slice(to as u64, len as u64)?)?;
        expected[to..to + len].copy_from_slice(&source[from..from + len]);
    }
    first_difference("uploaded at offsets", &f.get(view)?, &expected)?;

    let before = random_bytes(LEN, &mut f.rng);
    let mut expected_host = before.clone();
    download.host(Fixture::TIMEOUT)?.copy_from_slice(&before);
    let pieces = [(4, 0, 4), (256, 4, 4), (300, 12, 36), (512, 256, 260), (1020, LEN - 4, 4)];
    for (from, to, len) in pieces {
        let piece = view.slice(from as u64, len as u64)?;
        device.download(stream, piece, &mut *download, to as u64)?;
        expected_host[to..to + len].copy_from_slice(&expected[from..from + len]);
    }
    first_difference("downloaded at offsets", download.host(Fixture::TIMEOUT)?, &expected_host)?;
    passed()
}

fn fill(f: &mut Fixture) -> Verdict {
    for (words, word) in WORDS.into_iter().zip([0, 1, u32::MAX, 0x0102_0304].into_iter().cycle()) {
        let view = f.work("view", words as u64 * 4 + 8)?;
        let mut expected = random_bytes(words * 4 + 8, &mut f.rng);
        f.put(view, &expected)?;
        f.run(Op::Fill(Fill::new(view.slice(4, words as u64 * 4)?, word)))?;
        let filled = expected.as_chunks_mut::<4>().0;
        filled[1..=words].fill(word.to_le_bytes());
        first_difference("fill", &f.get(view)?, &expected)?;
    }
    passed()
}

fn copy(f: &mut Fixture) -> Verdict {
    for words in WORDS {
        let len = words as u64 * 4;
        let bytes = random_bytes(words * 4, &mut f.rng);
        let (source, target) = (f.work("source", len)?, f.work("target", len + 8)?);
        f.put(source, &bytes)?;
        let mut expected = random_bytes(words * 4 + 8, &mut f.rng);
        f.put(target, &expected)?;
        // The target starts four bytes later than anything a device would like.
        f.run(Op::Copy(Copy::new(source, target.slice(4, len)?)?))?;
        expected[4..4 + words * 4].copy_from_slice(&bytes);
        first_difference("copy", &f.get(target)?, &expected)?;
        first_difference("source of copy", &f.get(source)?, &bytes)?;

        let resident = f.resident("resident", len)?;
        f.put(resident, &bytes)?;
        let target = f.work("target", len)?;
        f.run(Op::Copy(Copy::new(resident, target)?))?;
        first_difference("copy from resident", &f.get(target)?, &bytes)?;
    }
    passed()
}

fn copy_within_a_region(f: &mut Fixture) -> Verdict {
    let view = f.work("view", 1024)?;
    let mut expected = random_bytes(1024, &mut f.rng);
    f.put(view, &expected)?;
    for (from, to, len) in [(0, 512, 512), (4, 8, 4), (1020, 0, 4), (600, 100, 388), (0, 16, 16)] {
        let source = view.slice(from as u64, len as u64)?;
        f.run(Op::Copy(Copy::new(source, view.slice(to as u64, len as u64)?)?))?;
        expected.copy_within(from..from + len, to);
    }
    first_difference("copies within a region", &f.get(view)?, &expected)?;
    passed()
}

fn gather(f: &mut Fixture) -> Verdict {
    use rand::Rng;
    let values = random_values(700, &mut f.rng);
    let source = f.put_frs("source", &values)?;
    let resident = f.resident("resident source", 700 * 32)?;
    f.put(resident, &frs_to_bytes(&values))?;
    for len in LENGTHS {
        let mut indices: Vec<u32> = (0..len).map(|_| f.rng.gen_range(0..700)).collect();
        // First, last, one past the end, nothing at all, and one that wraps in 32 bits of bytes.
        for (slot, index) in indices.iter_mut().zip([699, 0, 700, NO_BASE, 1 << 27]) {
            *slot = index;
        }
        let expected: Vec<_> = indices
            .iter()
            .map(|index| values.get(*index as usize).copied().unwrap_or_default())
            .collect();
        let index_view = f.put_indices("indices", &indices)?;
        for source in [source, FrView::new(resident)?] {
            let target = FrView::new(f.work("target", len as u64 * 32)?)?;
            f.run(Op::Gather(Gather::new(source, index_view, target)?))?;
            first_difference("gather", &f.get_frs(target)?, &expected)?;
        }
    }
    passed()
}

fn slices(f: &mut Fixture) -> Verdict {
    let values = random_values(300, &mut f.rng);
    let whole = f.put_frs("whole", &values)?;
    let mut expected = values.clone();
    // Neighbouring slices at odd elements, each doubled in place; then a slice of a slice.
    for (start, len) in [(1u64, 1u64), (2, 30), (33, 64), (97, 200), (299, 1), (300, 0)] {
        let slice = whole.slice(start, len)?;
        f.run(Op::Vector(Vector::add(slice, slice, slice)?))?;
        for value in &mut expected[start as usize..(start + len) as usize] {
            *value += *value;
        }
    }
    let inner = whole.slice(7, 100)?.slice(50, 25)?;
    f.run(Op::Vector(Vector::mul(inner, inner, inner)?))?;
    for value in &mut expected[57..82] {
        *value *= *value;
    }
    first_difference("slices", &f.get_frs(whole)?, &expected)?;
    let bytes = frs_to_bytes(&expected);
    let odd = whole.view().slice(36, 1000)?;
    first_difference("bytes of a slice", &f.get(odd)?, &bytes[36..1036])?;
    passed()
}

fn empty_views(f: &mut Fixture) -> Verdict {
    let (work, resident) = (f.work("work", 256)?, f.resident("resident", 256)?);
    let before = random_bytes(256, &mut f.rng);
    f.put(work, &before)?;
    let status = f.status()?;
    // At the view's start, and one past its last byte.
    for start in [0, 256] {
        let empty = work.slice(start, 0)?;
        let fr = FrView::new(empty)?;
        let indices = IndexView::new(resident.slice(start, 0)?)?;
        f.put(empty, &[])?;
        ensure(f.get(empty)?.is_empty(), || "an empty view holds bytes".into())?;
        let mut ops = vec![
            Op::Fill(Fill::new(empty, 7)),
            Op::Copy(Copy::new(resident.slice(start, 0)?, empty)?),
            Op::Gather(Gather::new(FrView::new(resident)?, indices, fr)?),
            Op::Vector(Vector::add(fr, fr, fr)?),
            Op::Vector(Vector::scale(fr, [0; 8], fr)?),
            Op::ToMontgomery(Convert::new(fr, fr, status)?),
            Op::FromMontgomery(Convert::new(fr, fr, status)?),
        ];
        for group in [Group::G1, Group::G2] {
            let points = PointView::new(empty, group)?;
            let check = PointCheck::OnCurve;
            ops.push(Op::DecodePoints(DecodePoints::new(points, points, check, status)?));
        }
        for op in ops {
            let name = op.name();
            f.run(op).map_err(|error| format!("{name} of nothing: {error}"))?;
        }
    }
    // Gathering from nothing gives zeros.
    let indices = f.put_indices("indices", &[0, 1, NO_BASE])?;
    let target = FrView::new(f.work("target", 96)?)?;
    f.run(Op::Gather(Gather::new(FrView::new(resident.slice(0, 0)?)?, indices, target)?))?;
    first_difference("gather from nothing", &f.get(target.view())?, &[0; 96])?;
    first_difference("after empty operations", &f.get(work)?, &before)?;
    let status = f.get_status(status)?;
    ensure(status == u32::MAX, || format!("empty operations set the status to {status}"))?;
    passed()
}
