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
//! Who makes a second token, or waits without one, is found by [`outside_mem`], which all waits for
//! a device and all calls to a driver's allocator pass, and by tests of [`breaches`].
//!
//! ```
//! use twinlock::scheduler::locks::{LockToken, Mem};
//! let (mem, mut token) = (Mem::new(1), LockToken::for_this_thread());
//! *mem.lock(&mut token) += 1;
//! let _wait = token.device_wait();
//! assert_eq!(*mem.lock(&mut token), 2);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_token_under_mem_is_found_out() {
        let (mem, other) = (Mem::new(0), Mem::new(0));
        let before = breaches();
        drop(mem.lock(&mut LockToken::for_this_thread()));
        drop(other.lock(&mut LockToken::for_this_thread()));
        assert_eq!(breaches(), before);
        let (mut token, mut second) = (LockToken::for_this_thread(), LockToken::for_this_thread());
        let guard = mem.lock(&mut token);
        drop(other.lock(&mut second));
        drop(guard);
        assert!(breaches() > before);
    }
}
