//! The two locks as types.
//!
//! A thread owns one [`LockToken`]. Taking a lock borrows it mutably, and so does a wait for the
//! device. So under `mem` neither the other lock nor a wait compiles:
//!
//! ```compile_fail
//! use twinlock::scheduler::locks::{LockToken, Mem};
//! let (mem, mut token) = (Mem::new(0), LockToken::for_this_thread());
//! let guard = mem.lock(&mut token);
//! let _wait = token.device_wait(); // already borrowed by `guard`
//! drop(guard);
//! ```
//!
//! ```compile_fail
//! use twinlock::scheduler::locks::{LockToken, Mem};
//! let (mem, other, mut token) = (Mem::new(0), Mem::new(0), LockToken::for_this_thread());
//! let guard = mem.lock(&mut token);
//! let second = other.lock(&mut token); // already borrowed by `guard`
//! drop((guard, second));
//! ```
//!
//! `compute` is entered with a [`ComputeGrant`], which only the dispatcher makes, and only when the
//! partition's whole remaining profile is placed. Under it the device may be waited for, for the
//! lock covers the completion of kernels; `mem` may not be taken:
//!
//! ```compile_fail
//! use twinlock::scheduler::locks::{ComputeGrant, ComputeGuard, LockToken, Mem};
//! fn both(grant: ComputeGrant, mem: &Mem<u32>, mut token: LockToken) {
//!     let guard = ComputeGuard::enter(grant, &mut token);
//!     let second = mem.lock(&mut token); // already borrowed by `guard`
//!     drop((guard, second));
//! }
//! ```
//!
//! ```
//! use twinlock::scheduler::locks::{LockToken, Mem};
//! let (mem, mut token) = (Mem::new(1), LockToken::for_this_thread());
//! *mem.lock(&mut token) += 1;
//! let _wait = token.device_wait();
//! assert_eq!(*mem.lock(&mut token), 2);
//! ```
//!
//! Who makes a second token, or waits without one, is found by [`outside_mem`] and by tests of
//! [`breaches`]. Passing it are: taking a lock; the prover's and the generator's waits for a stream,
//! a copy, a result or a staging slot; device memory taken, given back or asked about; staging
//! buffers made and dropped; a device opened again. Not so a device's first opening, streams made
//! and destroyed, and what benchmarks do by themselves.
//!
//! ```
//! use twinlock::scheduler::locks::{LockToken, Mem, breaches};
//! let (mem, other) = (Mem::new(1), Mem::new(2));
//! let (mut token, mut second) = (LockToken::for_this_thread(), LockToken::for_this_thread());
//! let guard = mem.lock(&mut token);
//! assert_eq!(breaches(), 0);
//! drop(other.lock(&mut second));
//! assert_eq!(breaches(), 1);
//! # drop(guard);
//! ```

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

thread_local! {
    static HOLDS_MEM: Cell<bool> = const { Cell::new(false) };
}

static BREACHES: AtomicU64 = AtomicU64::new(0);

/// Notes and reports it if the calling thread holds `mem`, under which `what` may not happen.
pub fn outside_mem(what: &str) {
    if HOLDS_MEM.get() {
        #[cfg(test)]
        if noticing::is_meant(what) {
            return;
        }
        BREACHES.fetch_add(1, Ordering::Relaxed);
        tracing::error!(what, "done under the lock `mem`");
    }
}

/// How often [`outside_mem`] found the lock held in this process: never, if the rules hold.
pub fn breaches() -> u64 {
    BREACHES.load(Ordering::Relaxed)
}

/// A thread's right to hold one lock. Neither cloned nor sent to another thread.
#[derive(Debug)]
pub struct LockToken {
    _stays_here: PhantomData<*const ()>,
}

impl LockToken {
    /// A token for the calling thread, which must have no other in use.
    pub fn for_this_thread() -> Self {
        Self { _stays_here: PhantomData }
    }

    /// Shows that the thread holds no lock and so may wait for the device.
    pub fn device_wait(&mut self) -> DeviceWait<'_> {
        DeviceWait { _held: PhantomData }
    }
}

/// The right to wait for the device: no `mem` guard is alive in this thread.
#[derive(Debug)]
pub struct DeviceWait<'a> {
    _held: PhantomData<&'a mut LockToken>,
}

/// The `mem` lock, around the state that says who holds which memory.
#[derive(Debug, Default)]
pub struct Mem<T> {
    state: Mutex<T>,
}

impl<T> Mem<T> {
    /// Puts `state` behind the lock.
    pub fn new(state: T) -> Self {
        Self { state: Mutex::new(state) }
    }

    /// Takes the lock, for microseconds of CPU.
    pub fn lock<'a>(&'a self, _token: &'a mut LockToken) -> MemGuard<'a, T> {
        outside_mem("taking a lock");
        // What the lock guards is changed by total functions only, so a panic elsewhere in the
        // thread leaves it whole.
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        HOLDS_MEM.set(true);
        MemGuard { state }
    }
}

/// Proof that `mem` is held.
#[derive(Debug)]
pub struct MemGuard<'a, T> {
    state: MutexGuard<'a, T>,
}

impl<T> Drop for MemGuard<'_, T> {
    fn drop(&mut self) {
        HOLDS_MEM.set(false);
    }
}

impl<T> Deref for MemGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.state
    }
}

impl<T> DerefMut for MemGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.state
    }
}

/// The dispatcher's word that `compute` is this partition's. Used once.
#[derive(Debug)]
pub struct ComputeGrant {
    _made_by_the_dispatcher: (),
}

impl ComputeGrant {
    pub(in crate::scheduler) fn new() -> Self {
        Self { _made_by_the_dispatcher: () }
    }
}

/// Proof that `compute` is held.
#[derive(Debug)]
pub struct ComputeGuard<'a> {
    _token: &'a mut LockToken,
}

impl<'a> ComputeGuard<'a> {
    /// Uses the grant up.
    pub fn enter(grant: ComputeGrant, token: &'a mut LockToken) -> Self {
        let ComputeGrant { _made_by_the_dispatcher: () } = grant;
        Self { _token: token }
    }

    /// Shows that no `mem` guard is alive.
    pub fn device_wait(&mut self) -> DeviceWait<'_> {
        DeviceWait { _held: PhantomData }
    }

    /// Ends the right to compute; the dispatcher is told apart from this.
    pub fn hand_back(self) {}
}

/// Breaches that a test means, kept out of [`breaches`]: others beside it want that at zero.
#[cfg(test)]
mod noticing {
    use std::cell::RefCell;

    use super::{LockToken, Mem};

    thread_local! {
        static MEANT: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
    }

    pub(super) fn is_meant(what: &str) -> bool {
        MEANT.with_borrow_mut(|meant| meant.as_mut().map(|seen| seen.push(what.into())).is_some())
    }

    /// What the watch says of `run`, done by this thread under a lock.
    pub(crate) fn noticed_under_mem<R>(run: impl FnOnce() -> R) -> (R, Vec<String>) {
        let (mem, mut token) = (Mem::new(()), LockToken::for_this_thread());
        MEANT.set(Some(Vec::new()));
        let guard = mem.lock(&mut token);
        let done = run();
        drop(guard);
        (done, MEANT.take().unwrap_or_default())
    }
}

#[cfg(test)]
pub(crate) use noticing::noticed_under_mem;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use twinlock_api::{MemoryClass, OpenOptions};

    use super::*;
    use crate::registry;
    use crate::scheduler::arena::Arena;
    use crate::scheduler::staging::{Readback, StagingPool};

    const SOON: Duration = Duration::from_secs(30);

    #[test]
    fn a_second_token_under_mem_is_found_out() {
        let (mem, other) = (Mem::new(0), Mem::new(0));
        drop(mem.lock(&mut LockToken::for_this_thread()));
        let lock = || drop(other.lock(&mut LockToken::for_this_thread()));
        assert_eq!(noticed_under_mem(lock).1, ["taking a lock"]);
    }

    #[test]
    fn memory_taken_or_given_back_under_mem_is_found_out() {
        let device = registry::open("cpu", &OpenOptions { threads: Some(1) }).unwrap();
        let arena = Arena::new(device, 1 << 20);
        let (_, noticed) = noticed_under_mem(|| arena.reserve(MemoryClass::Work, 4096).unwrap());
        assert_eq!(noticed, ["reserving device memory"]);
        assert_eq!(noticed_under_mem(|| arena.trim().unwrap()).1, ["giving device memory back"]);
        assert_eq!(noticed_under_mem(|| drop(arena)).1, ["giving device memory back"]);
    }

    #[test]
    fn staging_under_mem_is_found_out() {
        let device = registry::open("cpu", &OpenOptions { threads: Some(1) }).unwrap();
        let stream = device.create_stream("test").unwrap();
        let region = device.allocate("test", MemoryClass::Work, 512).unwrap();
        let view = region.whole("test").unwrap();

        let (pool, noticed) = noticed_under_mem(|| StagingPool::new(&*device, 2, 256, SOON));
        assert_eq!(noticed, ["making staging buffers"]);
        let mut ring = Arc::new(pool.unwrap()).ring(0);
        let upload =
            || ring.upload(&*device, stream, view, 4, |_, _| Ok::<(), twinlock_api::Error>(()));
        let (sent, noticed) = noticed_under_mem(upload);
        assert_eq!((sent, noticed), (Ok(()), vec!["waiting for a staging slot".into(); 2]));
        let (wiped, noticed) = noticed_under_mem(|| ring.wipe());
        assert_eq!((wiped, noticed), (Ok(()), vec!["waiting for a copy".into(); 2]));
        let (_, noticed) = noticed_under_mem(|| drop(ring));
        assert_eq!(noticed, ["dropping a staging buffer"; 2]);

        let (readback, noticed) = noticed_under_mem(|| Readback::new(&*device, 256, SOON));
        assert_eq!(noticed, ["making staging buffers"]);
        let mut readback = readback.unwrap();
        let (bytes, noticed) = noticed_under_mem(|| readback.read(&*device, stream, view));
        assert_eq!((bytes.unwrap().len(), noticed), (512, vec!["waiting for results".into()]));
        let mut target = [0; 512];
        let read = || readback.read_into(&*device, stream, view, &mut target);
        assert_eq!(noticed_under_mem(read), (Ok(()), vec!["waiting for results".into()]));
        let wipe = || readback.wipe();
        assert_eq!(noticed_under_mem(wipe), (Ok(()), vec!["waiting for a copy".into()]));
        assert_eq!(noticed_under_mem(|| drop(readback)).1, ["dropping a staging buffer"]);
        device.free(region).unwrap();
        device.destroy_stream(stream).unwrap();
    }
}
