//! The reader of parameter files, on arbitrary bytes and on edits of a valid file.
#![no_main]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use libfuzzer_sys::fuzz_target;
use twinlock::groth16::params::{
    Inspection, ParameterFile, ParameterSource, Parameters, Query, VerifyingKey, check_bytes,
    inspect_bytes,
};

static VALID: &[u8] = include_bytes!("../seeds/params_file/valid.params");

/// Tells the largest single allocation.
struct Watch;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes every call on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Watch {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LARGEST.fetch_max(size, Ordering::Relaxed);
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.dealloc(old, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watch = Watch;

/// Applies edits to the valid file: an operation byte, two bytes of position, one of value.
fn edited(edits: &[u8]) -> Vec<u8> {
    let mut file = VALID.to_vec();
    for edit in edits.as_chunks::<4>().0 {
        let position = usize::from(u16::from_be_bytes([edit[1], edit[2]])) % (file.len() + 1);
        match edit[0] % 6 {
            0 => file.truncate(position),
            1 => file.extend(std::iter::repeat_n(edit[3], position % 256)),
            2 => file.insert(position, edit[3]),
            3 if position < file.len() => drop(file.remove(position)),
            4 if position < file.len() => file[position] ^= 1 << (edit[3] % 8),
            _ if position < file.len() => file[position] = edit[3],
            _ => {}
        }
    }
    file
}

fn assert_table_adds_up(table: &Inspection, file: &[u8]) {
    let mut end = 0;
    for (i, section) in table.sections.iter().enumerate() {
        let point_bytes = if section.name == "b_g2" { 192 } else { 96 };
        let (expected, size_bytes) =
            if i == 0 { (0, 864) } else { (end + 4, section.count * point_bytes) };
        assert_eq!(section.offset, expected, "{}", section.name);
        assert_eq!(section.size_bytes, size_bytes, "{}", section.name);
        end = section.offset + size_bytes;
    }
    assert_eq!(end + table.trailing_bytes, file.len() as u64);
}

fn read(file: &[u8]) {
    if let Ok(table) = inspect_bytes("input", file) {
        assert_table_adds_up(&table, file);
        let report = check_bytes("input", file, false, &|done, total| assert!(done <= total));
        assert_eq!(report.expect("the table has been read").points, table.total_points());
    }
    let vk = VerifyingKey::read("input", &file);
    let Ok(key) = ParameterFile::from_source("input", file.to_vec()) else {
        return;
    };
    assert_eq!(vk.ok().as_ref(), Some(key.verifying_key()));
    assert_table_adds_up(key.inspection(), file);
    let variables = key.verifying_key().ic.len() + key.query_len(Query::L);
    let h = key.query_len(Query::H);
    assert!(h.is_power_of_two() || (h + 1).is_power_of_two());
    assert!(key.query_len(Query::A) >= key.verifying_key().ic.len());
    assert!(key.query_len(Query::A) <= variables && key.query_len(Query::BG1) <= variables);
    assert_eq!(key.query_len(Query::BG1), key.query_len(Query::BG2));

    for query in Query::ALL {
        let count = key.query_len(query);
        let mut points = vec![0; (count + 1) * query.point_bytes()];
        assert!(key.read_points(query, 0, &mut points).is_err());
        assert!(key.read_points(query, usize::MAX, &mut points).is_err());
        assert!(key.read_points(query, count, &mut []).is_ok());
        points.truncate(count * query.point_bytes());
        key.read_points(query, 0, &mut points).expect("within the query");
        let start = usize::try_from(key.inspection().query(query).offset).expect("in memory");
        assert_eq!(points, &file[start..start + points.len()]);
    }

    let end = file.len() - usize::try_from(key.inspection().trailing_bytes).expect("in memory");
    let unchecked = Parameters::load(&key, false);
    let checked = Parameters::load(&key, true);
    if let Ok(parameters) = &checked {
        assert_eq!(Some(parameters), unchecked.as_ref().ok());
    }
    // A point has one encoding, so what is accepted comes back as it was.
    if let Ok(parameters) = unchecked {
        let mut again = Vec::new();
        parameters.write(&mut again).expect("memory takes all");
        assert_eq!(again, &file[..end]);
    }
    let report = check_bytes("input", file, false, &|_, _| {}).expect("the table has been read");
    assert_eq!(
        checked.is_ok(),
        report.problems.iter().all(|problem| problem.problem.starts_with("beta / delta")),
        "{report:?}"
    );
}

fuzz_target!(|data: &[u8]| {
    let file = match data.strip_prefix(b"edit") {
        Some(edits) => edited(edits),
        None => data.to_vec(),
    };
    LARGEST.store(0, Ordering::Relaxed);
    read(&file);
    // Points in memory are as large as in the file; the rest is small change.
    let largest = LARGEST.load(Ordering::Relaxed);
    assert!(largest <= 4 * file.len() + (1 << 16), "{largest} bytes for {}", file.len());
});
