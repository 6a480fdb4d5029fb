//! The allocator: mimalloc for small allocations, the system's for large ones.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    ptr,
};

use mimalloc::MiMalloc;

/// From this size on, the system allocates: it hands out zeroed pages that were never touched,
/// while mimalloc zeroes memory itself. sled asks for 24 MiB when it is opened and uses hardly any
/// of it: a tenth of a short run.
const LARGE: usize = 512 << 10;

/// Reading and planning make mostly small allocations. They take half as long again with the
/// system's allocator (glibc 2.36, 110,000 steps).
pub(crate) struct Allocator;

fn is_large(size: usize) -> bool {
    size >= LARGE
}

#[expect(unsafe_code, reason = "every allocator is; each call goes to the one that its size names")]
// SAFETY: memory is freed by the allocator that made it, because the layout is the same; memory
// that grows beyond the border moves.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        unsafe { if is_large(layout.size()) { System.alloc(layout) } else { MiMalloc.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        unsafe { if is_large(layout.size()) { System.alloc_zeroed(layout) } else { MiMalloc.alloc_zeroed(layout) } }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        unsafe {
            if is_large(layout.size()) { System.dealloc(memory, layout) } else { MiMalloc.dealloc(memory, layout) }
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        unsafe {
            match (is_large(layout.size()), is_large(size)) {
                (true, true) => System.realloc(memory, layout, size),
                (false, false) => MiMalloc.realloc(memory, layout, size),
                _ => {
                    let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
                    if !moved.is_null() {
                        ptr::copy_nonoverlapping(memory, moved, layout.size().min(size));
                        self.dealloc(memory, layout);
                    }
                    moved
                }
            }
        }
    }
}
