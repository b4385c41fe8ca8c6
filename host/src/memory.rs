//! Memory that is freed is overwritten: what TLS, HTTP and the starting of programs copied of a credential on its way is
//! gone when they are done with it.

use std::alloc::{GlobalAlloc, Layout};

use tikv_jemallocator::Jemalloc;
use zeroizing_alloc::ZeroAlloc;

use crate::mutation::{Protection, off};

/// Memory of jemalloc, overwritten when it is freed.
struct Overwritten;

/// What overwrites it.
const ZEROES: ZeroAlloc<Jemalloc> = ZeroAlloc(Jemalloc);

// SAFETY: every call goes to jemalloc, with what was given; only what is freed is overwritten before, within
// its layout. `realloc` is the trait's own, which frees what it copied from.
#[expect(unsafe_code, reason = "an allocator; it hands everything on to jemalloc")]
unsafe impl GlobalAlloc for Overwritten {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        unsafe { Jemalloc.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        unsafe { Jemalloc.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if off(Protection::FreedMemoryIsOverwritten) {
            // SAFETY: as the caller promises.
            unsafe { Jemalloc.dealloc(pointer, layout) }
        } else {
            // SAFETY: as the caller promises; both are jemalloc.
            unsafe { ZEROES.dealloc(pointer, layout) }
        }
    }
}

#[global_allocator]
static ALLOCATOR: Overwritten = Overwritten;
