use std::any::Any;
use std::sync::Arc;

use twinlock_api::op::Fill;
use twinlock_api::{MemoryClass, Op, OpenOptions};

use super::*;

const SOON: Duration = Duration::from_secs(300);
const SECRET: u8 = 0x5a;

/// A slot that tells these failures, the last first, before it gives its bytes.
struct Failing {
    bytes: [u8; 256],
    /// What the device keeps behind them.
    copied: [u8; 256],
    failures: Vec<Error>,
}

impl Failing {
    fn with(failures: &[Error]) -> Box<dyn Staging> {
        let failures = failures.iter().rev().cloned().collect();
        Box::new(Self { bytes: [SECRET; 256], copied: [SECRET; 256], failures })
    }
}

impl Staging for Failing {
    fn kind(&self) -> StagingKind {
        StagingKind::Upload
    }

    fn size_bytes(&self) -> u64 {
        256
    }

    fn host(&mut self, _timeout: Duration) -> Result<&mut [u8]> {
        self.failures.pop().map_or(Ok(&mut self.bytes[..]), Err)
    }

    fn wipe_copied(&mut self) -> Result<()> {
        self.copied.fill(0);
        Ok(())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

fn failed(reason: &str) -> Error {
    Error::KernelFailed { name: "copy", reason: reason.into() }
}

fn late() -> Error {
    Error::Timeout { what: "copies".into(), timeout_ms: 1 }
}

fn is_wiped(slot: &mut Box<dyn Staging>) -> bool {
    let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    let failing = slot.as_any_mut().downcast_ref::<Failing>();
    failing.is_none_or(|slot| is_zero(&slot.copied))
        && slot.host(SOON).is_ok_and(|bytes| is_zero(bytes))
}

#[test]
fn wiping_goes_on_after_a_failure_and_tells_the_first() {
    let (first, second) = (failed("first"), failed("second"));
    let slots = vec![
        Failing::with(&[]),
        Failing::with(std::slice::from_ref(&first)),
        Failing::with(&[]),
        Failing::with(&[late(), late()]),
        Failing::with(&[second]),
        Failing::with(&[]),
    ];
    let mut ring = owned(slots);
    assert_eq!(ring.wipe(), Err(first));
    // The one whose copies may still run is theirs; it is at the end now.
    let mut wiped = states(&ring);
    assert_eq!(wiped.pop(), Some(false));
    assert_eq!(wiped, [true; 5]);
    assert_eq!(ring.wipe(), Ok(()));
    assert_eq!(states(&ring), [true; 6]);

    let mut readback = Readback { buffer: Failing::with(&[failed("read")]), timeout: SOON };
    assert_eq!(readback.wipe(), Err(failed("read")));
    assert!(is_wiped(&mut readback.buffer));
    // Who gets a slot that nobody could wipe wipes all of it, however little it uses.
    let mut ring = owned(vec![Failing::with(&[failed("first"), late()])]);
    assert_eq!(ring.wipe(), Err(failed("first")));
    for slot in &mut ring.pool.lock().free {
        assert_eq!((slot.owner, slot.used), (0, 256));
        slot.owner = ring.place.ring;
    }
    assert_eq!((ring.wipe(), states(&ring)), (Ok(()), vec![true]));
    // What fails for good is told, and not tried for ever.
    let lost = || Error::DeviceLost { reason: "gone".into() };
    let mut ring = owned(vec![Failing::with(&vec![lost(); 9]), Failing::with(&[])]);
    assert_eq!(ring.wipe(), Err(lost()));
    assert_eq!(states(&ring), [false, true]);
}

/// A ring whose bytes are in all of these.
fn owned(buffers: Vec<Box<dyn Staging>>) -> StagingRing {
    let free = buffers.into_iter().map(|buffer| Slot { buffer, owner: 7, used: 256 }).collect();
    let pool = StagingPool {
        shared: Mutex::new(Shared { free, ..Shared::default() }),
        returned: Condvar::new(),
        slot_bytes: 256,
        timeout: SOON,
        rings: AtomicU64::new(8),
    };
    StagingRing { pool: Arc::new(pool), place: Place { prepares: true, order: 0, ring: 7 } }
}

/// Whether each slot is wiped, in order.
fn states(ring: &StagingRing) -> Vec<bool> {
    let mut shared = ring.pool.lock();
    shared.free.iter_mut().map(|slot| is_wiped(&mut slot.buffer)).collect()
}

struct Setup {
    device: Arc<dyn Device>,
    stream: Stream,
    view: View,
}

fn setup(len_bytes: u64) -> Setup {
    let device = crate::registry::open("cpu", &OpenOptions { threads: Some(1) }).unwrap();
    let stream = device.create_stream("test").unwrap();
    let region = device.allocate("test", MemoryClass::Work, len_bytes.max(4)).unwrap();
    let view = region.view("view", 0, len_bytes).unwrap();
    Setup { device, stream, view }
}

/// Bytes that differ from place to place, for any two slots too.
fn byte_at(offset: u64) -> u8 {
    (offset % 251) as u8
}

#[test]
fn uploads_in_pieces_come_back_whole() {
    for (slots, slot_bytes, unit_bytes, len_bytes) in [
        (1, 256, 1, 0),
        (1, 256, 1, 256),
        (2, 256, 96, 96 * 11),
        (3, 1000, 192, 192 * 40),
        (4, 100, 32, 32 * 65),
        (2, 1 << 20, 96, 96 << 15),
        (3, 600 << 10, 1, 1_000_000),
    ] {
        let Setup { device, stream, view } = setup(len_bytes);
        let mut ring = StagingRing::new(&*device, slots, slot_bytes, SOON).unwrap();
        assert_eq!(ring.slot_bytes(), slot_bytes.next_multiple_of(256));
        let piece_bytes = ring.slot_bytes() / unit_bytes * unit_bytes;
        let pieces = Mutex::new(Vec::new());
        ring.upload(&*device, stream, view, unit_bytes, |offset, bytes| {
            pieces.lock().unwrap().push((offset, bytes.len() as u64));
            for (i, byte) in bytes.iter_mut().enumerate() {
                *byte = byte_at(offset + i as u64);
            }
            Ok::<_, Error>(())
        })
        .unwrap();
        let part_bytes = FILL_BYTES.next_multiple_of(unit_bytes);
        let mut expected = Vec::new();
        for piece in (0..len_bytes).step_by(piece_bytes as usize) {
            let end = len_bytes.min(piece + piece_bytes);
            let parts = (piece..end).step_by(part_bytes as usize);
            expected.extend(parts.map(|part| (part, part_bytes.min(end - part))));
        }
        let mut pieces = pieces.into_inner().unwrap();
        pieces.sort_unstable();
        assert_eq!(pieces, expected);
        // Smaller than the view, and larger.
        let sizes = [1, 256, 4096, 1 << 20];
        for readback_bytes in sizes.into_iter().filter(|size| len_bytes / size < 1 << 12) {
            let mut readback = Readback::new(&*device, readback_bytes, SOON).unwrap();
            let bytes = readback.read(&*device, stream, view).unwrap();
            let expected: Vec<_> = (0..len_bytes).map(byte_at).collect();
            assert_eq!(*bytes, expected);
            readback.wipe().unwrap();
            assert!(is_wiped(&mut readback.buffer));
        }
        ring.wipe().unwrap();
        assert_eq!(states(&ring), vec![true; slots]);
    }
}

/// Who fills the start of a slot that another ring filled whole wipes all of it.
#[test]
fn what_another_ring_left_is_wiped_too() {
    let Setup { device, stream, view } = setup(512);
    let pool = Arc::new(StagingPool::new(&*device, 2, 256, SOON).unwrap());
    let fill = |ring: &mut StagingRing, len_bytes| {
        let target = view.slice(0, len_bytes).unwrap();
        ring.upload(&*device, stream, target, 1, |_, bytes| {
            bytes.fill(SECRET);
            Ok::<_, Error>(())
        })
    };
    let (mut first, mut second) = (pool.ring(1), pool.ring(2));
    fill(&mut first, 512).unwrap();
    fill(&mut second, 16).unwrap();
    assert_eq!(states(&second), [false, false]);
    second.wipe().unwrap();
    assert_eq!(states(&second).iter().filter(|wiped| **wiped).count(), 1);
    drop(first);
    assert_eq!(states(&second), [true, true]);
}

/// Uploads that fill two slots at a time end also where there are fewer than that for each.
#[test]
fn rings_that_are_short_of_slots_end_their_uploads() {
    const LEN: u64 = 6 << 20;
    for slots in [1, 2, 3] {
        let Setup { device, view, .. } = setup(4 * LEN);
        let pool = StagingPool::new(&*device, slots, 2 * FILL_BYTES, Duration::from_secs(60));
        let pool = Arc::new(pool.unwrap());
        std::thread::scope(|scope| {
            for number in 0..4 {
                let (device, mut ring) = (&device, pool.ring(number));
                scope.spawn(move || {
                    let stream = device.create_stream("test").unwrap();
                    let target = view.slice(number * LEN, LEN).unwrap();
                    let fill = |offset, bytes: &mut [u8]| {
                        for (i, byte) in bytes.iter_mut().enumerate() {
                            *byte = byte_at(number + offset + i as u64);
                        }
                        Ok::<_, Error>(())
                    };
                    ring.upload(&**device, stream, target, 4, fill).unwrap();
                    let mut readback = Readback::new(&**device, LEN, SOON).unwrap();
                    let bytes = readback.read(&**device, stream, target).unwrap();
                    let expected: Vec<_> = (0..LEN).map(|at| byte_at(number + at)).collect();
                    assert!(*bytes == expected, "{slots} slots, upload {number}");
                });
            }
        });
        assert!(pool.lock().uploading.is_empty());
        assert_eq!(pool.lock().free.len(), slots);
    }
}

/// Between the uploads of one turn no younger ring comes, whatever other turn of the same ring ends.
#[test]
fn a_turn_lasts_over_several_uploads() {
    let Setup { device, stream, view } = setup(1024);
    let pool = Arc::new(StagingPool::new(&*device, 2, 256, SOON).unwrap());
    let (mut younger, mut older) = (pool.ring(2), pool.ring(1));
    let (begin, begun) = std::sync::mpsc::channel();
    let log = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let (device, log) = (&*device, &log);
        let note = move |who, bytes: &mut [u8]| {
            bytes.fill(0);
            log.lock().unwrap().push(who);
            Ok::<_, Error>(())
        };
        scope.spawn(move || {
            begun.recv().unwrap();
            younger.upload(device, stream, view, 1, |_, bytes| note("younger", bytes)).unwrap();
        });
        let turn = older.turn();
        begin.send(()).unwrap();
        for _ in 0..50 {
            older.upload(device, stream, view, 1, |_, bytes| note("older", bytes)).unwrap();
            std::thread::yield_now();
        }
        drop(turn);
    });
    let log = log.into_inner().unwrap();
    assert_eq!(log, [["older"; 200].as_slice(), &["younger"; 4]].concat());
    assert!(pool.lock().uploading.is_empty());
}

/// Where filling fails or panics, at any piece and part, what was in hand comes back and is wiped.
#[test]
fn what_fails_in_one_of_several_slots_is_told_and_leaves_nothing() {
    const PARTS: u64 = 8;
    let Setup { device, stream, view } = setup(PARTS * FILL_BYTES);
    for (slots, at, panics) in [1, 2, 3, 5]
        .into_iter()
        .flat_map(|slots| [0, 1, 2, 5, 7].map(|at| (slots, at)))
        .flat_map(|(slots, at)| [false, true].map(|panics| (slots, at, panics)))
    {
        let pool = StagingPool::new(&*device, slots, 2 * FILL_BYTES, SOON).unwrap();
        let mut ring = Arc::new(pool).ring(1);
        let mut upload = || {
            ring.upload(&*device, stream, view, 1, |offset, bytes| {
                bytes.fill(SECRET);
                match offset == at * FILL_BYTES {
                    true if panics => panic!("filling panics, for a test"),
                    true => Err(failed("file")),
                    false => Ok(()),
                }
            })
        };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(&mut upload));
        match outcome {
            Ok(outcome) => assert_eq!((panics, outcome), (false, Err(failed("file")))),
            Err(_) => assert!(panics),
        }
        assert!(ring.pool.lock().uploading.is_empty());
        ring.wipe().unwrap();
        assert_eq!(states(&ring), vec![true; slots]);
        ring.upload(&*device, stream, view, 1, |_, _| Ok::<_, Error>(())).unwrap();
    }
}

/// The ring of the partition that computes comes before those that are first in order.
#[test]
fn the_one_that_computes_has_the_link() {
    let Setup { device, .. } = setup(4);
    let pool = Arc::new(StagingPool::new(&*device, 1, 256, SOON).unwrap());
    let (mut computing, other) = (pool.ring(2), pool.ring(1));
    let _turns = (computing.turn(), other.turn());
    assert!(pool.take_free(computing.place).is_none());
    computing.computes();
    let _turn = computing.turn();
    assert!(pool.take_free(other.place).is_none());
    assert!(pool.take_free(computing.place).is_some());
}

/// From the one thread of a pool, whose own work the upload would wait for.
#[test]
fn a_thread_of_the_pool_uploads_by_itself() {
    let Setup { device, stream, view } = setup(2 << 20);
    let mut ring = StagingRing::new(&*device, 3, FILL_BYTES, SOON).unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let filled = pool.install(|| {
        ring.upload(&*device, stream, view, 4, |offset, bytes| {
            bytes.fill(byte_at(offset));
            Ok::<_, Error>(())
        })
    });
    assert_eq!(filled, Ok(()));
    let bytes = Readback::new(&*device, 1 << 20, SOON).unwrap().read(&*device, stream, view);
    let (bytes, part) = (bytes.unwrap(), FILL_BYTES as usize);
    let parts = bytes.chunks(part).enumerate();
    assert!({ parts }.all(|(at, bytes)| bytes.iter().all(|b| *b == byte_at((at * part) as u64))));
}

/// The younger of two rings waits for the older one's upload, and never the other way round.
#[test]
fn the_oldest_upload_has_the_link() {
    let Setup { device, stream, view } = setup(4096);
    let pool = Arc::new(StagingPool::new(&*device, 3, 256, SOON).unwrap());
    // The order is that of partitions, whoever is there first.
    let (mut younger, mut older) = (pool.ring(2), pool.ring(1));
    let (begun, others) = std::sync::mpsc::channel();
    let log = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let note = |who, offset, bytes: &mut [u8]| {
            bytes.fill(0);
            log.lock().unwrap().push((who, offset));
            Ok::<_, Error>(())
        };
        let (device, log) = (&*device, &log);
        let uploads = || pool.lock().uploading.len();
        scope.spawn(move || {
            let half = view.slice(0, 2048).unwrap();
            younger.upload(device, stream, half, 1, |offset, bytes| {
                if offset == 0 {
                    begun.send(()).unwrap();
                    // Until the older one has begun.
                    let older = |log: &Vec<_>| log.iter().any(|(who, _)| *who == "older");
                    while uploads() < 2 && !older(&log.lock().unwrap()) {
                        std::thread::yield_now();
                    }
                }
                note("younger", offset, bytes)
            })
        });
        others.recv().unwrap();
        let half = view.slice(2048, 2048).unwrap();
        older.upload(device, stream, half, 1, |offset, bytes| note("older", offset, bytes))
    })
    .unwrap();
    let log = log.into_inner().unwrap();
    assert_eq!(log.len(), 16);
    // What the younger one had in hand comes between, and no more.
    let last = log.iter().rposition(|(who, _)| *who == "older").unwrap();
    assert!(log[..=last].iter().filter(|(who, _)| *who == "younger").count() <= FILLING, "{log:?}");
    assert!(pool.lock().uploading.is_empty());
}

#[test]
fn impossible_rings_and_failed_fillings_are_told() {
    let Setup { device, stream, view } = setup(1024);
    let invalid = |result: Result<StagingRing>| {
        assert!(matches!(result.err(), Some(Error::InvalidArgument(_))));
    };
    invalid(StagingRing::new(&*device, 0, 256, SOON));
    invalid(StagingRing::new(&*device, 2, 0, SOON));
    let mut ring = StagingRing::new(&*device, 2, 256, SOON).unwrap();
    let outcome = ring.upload(&*device, stream, view, 257, |_, _| -> Result<()> { unreachable!() });
    let Err(Error::InvalidArgument(message)) = outcome else { panic!("{outcome:?}") };
    assert!(message.contains("256") && message.contains("257"), "{message}");

    device.enqueue(stream, &Op::Fill(Fill::zero(view))).unwrap();
    let outcome = ring.upload(&*device, stream, view, 1, |offset, bytes| {
        bytes.fill(SECRET);
        if offset < 512 { Ok(()) } else { Err(failed("file")) }
    });
    assert_eq!(outcome, Err(failed("file")));
    // What was filled before went its way, nothing after.
    let bytes = Readback::new(&*device, 1024, SOON).unwrap().read(&*device, stream, view);
    assert_eq!(*bytes.unwrap(), [[SECRET; 512], [0; 512]].concat());
    ring.wipe().unwrap();
    assert_eq!(states(&ring), [true; 2]);
}
