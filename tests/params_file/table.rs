//! The section table against the file's length, and reading through it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use twinlock::groth16::params::{ParameterSource, Query, ReadAt, check, inspect};

use super::*;

#[test]
fn whole_file_is_read_as_it_was_written() -> TestResult {
    let key = small_key(&mut seeded());
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("small.params");
    key.write_file(&path)?;
    assert_eq!(fs::read_dir(dir.path())?.count(), 1, "an unfinished file was left");
    assert_eq!(fs::read(&path)?, encoded(&key));
    assert_eq!(Parameters::read_file(&path, true)?, key);
    assert_eq!(Parameters::read_file(&path, false)?, key);
    assert_eq!(VerifyingKey::read_file(&path)?, key.vk);

    let file = ParameterFile::open(&path)?;
    assert_eq!(file.verifying_key(), &key.vk);
    let counts = Query::ALL.map(|query| file.query_len(query));
    assert_eq!(counts, [3, 3, 4, 2, 2]);
    assert_eq!(file.name(), path.display().to_string());
    let table = inspect(&path)?;
    let expected = [("vk", 6), ("ic", 2), ("h", 3), ("l", 3), ("a", 4), ("b_g1", 2), ("b_g2", 2)];
    assert_eq!(section_names(&table), expected);
    assert_eq!((table.trailing_bytes, table.problems.len()), (0, 0));

    let report = check(&path, true, &|_, _| {})?;
    assert!(report.is_ok(), "{report:?}");
    assert_eq!((report.points, report.identities), (22, 0));

    // One point in the middle, in both encodings.
    let mut bytes = [0; 96];
    file.read_points(Query::A, 2, &mut bytes)?;
    assert_eq!(bytes, key.a[2].to_uncompressed());
    key.read_points(Query::A, 2, &mut bytes)?;
    assert_eq!(bytes, twinlock::views::as_bytes(&key.a[2..3]));
    Ok(())
}

#[test]
fn reads_outside_a_query_name_section_and_offset() -> TestResult {
    let (bytes, table) = valid_file();
    let file = open_bytes(&bytes)?;
    let in_memory = Parameters::load(&file, false)?;
    for source in [&file as &dyn ParameterSource, &in_memory] {
        for query in Query::ALL {
            let count = source.query_len(query);
            let mut two = vec![0; 2 * query.point_bytes()];
            for first in [count - 1, count, count + 1, usize::MAX] {
                let error = source.read_points(query, first, &mut two).expect_err("past the end");
                assert!(error.to_string().contains(query.name()), "{error}");
                assert!(error.to_string().contains(&format!("of {count}")), "{error}");
            }
            let error = source.read_points(query, 0, &mut two[1..]).expect_err("half a point");
            assert!(error.to_string().contains("multiple"), "{error}");
            source.read_points(query, count - 2, &mut two)?;
            source.read_points(query, count, &mut [])?;
        }
    }
    assert_eq!(file.point_offset(Query::L, 1), table.query(Query::L).offset + 96);
    Ok(())
}

#[test]
fn empty_file_is_an_error() -> TestResult {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("empty.params");
    fs::write(&path, [])?;
    let errors = [
        ParameterFile::open(&path).map(drop).expect_err("open"),
        Parameters::read_file(&path, false).map(drop).expect_err("read"),
        VerifyingKey::read_file(&path).map(drop).expect_err("vk"),
        inspect(&path).map(drop).expect_err("inspect"),
        check(&path, false, &|_, _| {}).map(drop).expect_err("check"),
    ];
    for error in errors {
        let expected = format!("{}: section vk, byte 0: the file is empty", path.display());
        assert_eq!(error.to_string(), expected);
    }
    let missing = ParameterFile::open(dir.path().join("missing")).expect_err("missing");
    assert!(matches!(missing, Error::Io { .. }), "{missing}");
    let directory = ParameterFile::open(dir.path()).expect_err("a directory");
    assert!(matches!(directory, Error::Io { .. }), "{directory}");
    Ok(())
}

#[test]
fn cut_anywhere_names_the_section_that_is_cut() {
    let (bytes, table) = valid_file();
    for cut in 0..bytes.len() {
        let error = inspect_bytes("test.params", &bytes[..cut]).expect_err("cut");
        // The first section that ends after the cut. A list starts with its count.
        let (i, section) = table
            .sections
            .iter()
            .enumerate()
            .find(|(_, section)| section.offset + section.size_bytes > cut as u64)
            .expect("the file is cut");
        let start = if i == 0 { 0 } else { section.offset - 4 };
        assert_eq!(place(&error), (section.name, start), "cut at {cut}");
        for other in [open_bytes(&bytes[..cut]).map(drop), check_quietly(&bytes[..cut]).map(drop)] {
            assert_eq!(other.expect_err("cut").to_string(), error.to_string());
        }
    }
}

/// Counts the bytes that are read.
struct Metered {
    bytes: Vec<u8>,
    read: AtomicU64,
}

impl ReadAt for Metered {
    fn size_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.read.fetch_add(out.len() as u64, Ordering::Relaxed);
        self.bytes.read_exact_at(offset, out)
    }
}

#[test]
fn count_larger_than_the_file_is_an_error_at_once() {
    let (bytes, table) = valid_file();
    for section in &table.sections[1..] {
        let at = section.offset as usize - 4;
        for count in [u32::MAX, 1 << 31, bytes.len() as u32] {
            let mut bytes = bytes.clone();
            bytes[at..at + 4].copy_from_slice(&count.to_be_bytes());
            let metered = Arc::new(Metered { bytes, read: AtomicU64::new(0) });
            let error = ParameterFile::from_source("test.params", Shared(metered.clone()))
                .expect_err("count");
            assert_eq!(place(&error), (section.name, at as u64));
            assert!(error.to_string().contains(&format!("a count of {count} points")), "{error}");
            let read = metered.read.load(Ordering::Relaxed);
            assert!(read <= 4 * 6, "{read} bytes read before the count was refused");
        }
    }
}

struct Shared(Arc<Metered>);

impl ReadAt for Shared {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.0.read_exact_at(offset, out)
    }
}

#[test]
fn counts_that_do_not_fit_each_other_are_refused_with_the_numbers() -> TestResult {
    type Change = fn(&mut Parameters);
    let changes: [(&str, &str, Change); 6] = [
        ("ic", "ONE", |key| key.vk.ic.clear()),
        ("h", "5 points", |key| key.h.extend_from_within(..2)),
        ("a", "1 points, for a circuit of 2 inputs", |key| key.a.truncate(1)),
        ("a", "8 points, for a circuit of 2 inputs", |key| key.a.extend_from_within(..)),
        ("b_g1", "6 points", |key| {
            key.b_g1 = [&key.b_g1[..]; 3].concat();
            key.b_g2 = [&key.b_g2[..]; 3].concat();
        }),
        ("b_g2", "1 points, and 2 in b_g1", |key| key.b_g2.truncate(1)),
    ];
    for (section, numbers, change) in changes {
        let mut key = small_key(&mut seeded());
        change(&mut key);
        let bytes = encoded(&key);
        let error = open_bytes(&bytes).expect_err(section);
        assert_eq!(place(&error).0, section, "{error}");
        assert!(error.to_string().contains(numbers), "{error}");
        // Still to be inspected, and bad.
        let table = inspect_bytes("test.params", &bytes)?;
        assert!(table.problems.iter().any(|problem| problem.contains(numbers)), "{table:?}");
        assert!(!check_quietly(&bytes)?.is_ok());
    }
    // h of n points and of n - 1 are both keys of domain n (see cases of h in `check_shape`).
    let mut key = small_key(&mut seeded());
    key.h.extend_from_within(..1);
    assert_eq!(open_bytes(&encoded(&key))?.query_len(Query::H), 4);
    key.h.clear();
    assert_eq!(open_bytes(&encoded(&key))?.query_len(Query::H), 0);
    Ok(())
}

#[test]
fn trailing_bytes_are_reported_and_refused_by_strict_reading_only() -> TestResult {
    let (mut bytes, _) = valid_file();
    let end = bytes.len() as u64;
    bytes.extend([0xff; 1000]);
    let table = inspect_bytes("test.params", &bytes)?;
    assert_eq!(table.trailing_bytes, 1000);
    let error = table.require_no_trailing_bytes().expect_err("strict");
    assert_eq!(place(&error), ("trailing", end));
    assert!(error.to_string().contains("1000 bytes"), "{error}");
    open_bytes(&bytes)?;
    assert!(check_quietly(&bytes)?.is_ok());
    let strict = check_bytes("test.params", &bytes, true, &|_, _| {}).expect_err("strict");
    assert_eq!(strict.to_string(), error.to_string());
    Ok(())
}

#[test]
fn file_that_changes_under_a_reader_is_an_error() -> TestResult {
    let dir = tempfile::tempdir()?;
    let (bytes, _) = valid_file();
    let path = dir.path().join("test.params");
    let mut point = [0; 96];
    for change in ["longer", "shorter", "rewritten"] {
        fs::write(&path, &bytes)?;
        let file = ParameterFile::open(&path)?;
        file.read_points(Query::H, 0, &mut point)?;
        match change {
            "longer" => fs::write(&path, [&bytes[..], &[0]].concat())?,
            "shorter" => fs::write(&path, &bytes[..900])?,
            _ => {
                let handle = fs::File::options().write(true).open(&path)?;
                let later = handle.metadata()?.modified()? + std::time::Duration::from_secs(1);
                handle.set_modified(later)?;
            }
        }
        let error = file.read_points(Query::H, 0, &mut point).expect_err(change);
        assert!(error.to_string().contains("opened"), "{error}");
        let Error::Parameters { section: "h", .. } = error else { panic!("{error}") };
    }
    Ok(())
}
