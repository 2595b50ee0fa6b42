//! Plays simulated worlds: `simulate --seeds 0..2000`, `simulate --replay 7`.
//!
//! The process's entropy is the seed: what std, tokio, ring, kube's stores and back-offs would draw from the operating
//! system comes from a generator that starts with it. So a seed needs a process of its own, and this program is for
//! developers only: it is in no image, chart or release.

use std::alloc::{GlobalAlloc, Layout};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Parser;
use karpenter_ibm::sim::campaign::command::{self, Args};
use libmimalloc_sys::{mi_free, mi_malloc, mi_malloc_aligned, mi_realloc_aligned, mi_zalloc_aligned};

/// A third of a world's time went into the C library's.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// mimalloc, asked for an alignment only where one is asked for: its ordinary blocks are aligned to their size, up to
/// sixteen bytes, and cost half of what the others do.
struct MiMalloc;

const fn is_ordinary(layout: Layout) -> bool {
    layout.align() <= 16 && layout.align() <= layout.size()
}

// SAFETY: every block comes from mimalloc and goes back to it, with at least the size and alignment that is asked for.
#[expect(unsafe_code, reason = "an allocator is unsafe by its contract")]
unsafe impl GlobalAlloc for MiMalloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller vouches for the layout.
        let block = unsafe {
            if is_ordinary(layout) {
                mi_malloc(layout.size())
            } else {
                mi_malloc_aligned(layout.size(), layout.align())
            }
        };
        block.cast()
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller vouches for the layout.
        unsafe { mi_zalloc_aligned(layout.size(), layout.align()) }.cast()
    }

    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller vouches that it is one of ours.
        unsafe { mi_free(block.cast()) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller vouches that it is one of ours, and for the layout.
        unsafe { mi_realloc_aligned(block.cast(), size, layout.align()) }.cast()
    }
}

/// What stands for the operating system's entropy.
static ENTROPY: AtomicU64 = AtomicU64::new(0);

/// splitmix64: every state gives a different number, and the next state is one addition away.
fn draw() -> u64 {
    let mut z = ENTROPY
        .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)
        .wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Stands in front of the C library's: what asks the operating system for entropy in this process asks here.
///
/// # Safety
/// `buffer` must be valid for `length` writes, as the C library's contract says too.
#[expect(unsafe_code, reason = "the symbol that std and the getrandom crate call")]
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut u8, length: usize, _flags: u32) -> isize {
    // SAFETY: the caller vouches for it.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer, length) };
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&draw().to_ne_bytes()[..chunk.len()]);
    }
    isize::try_from(length).unwrap_or(isize::MAX)
}

/// Gives each hasher of ahash, which kube's stores use, keys from the seed.
struct Seeded;

impl ahash::random_state::RandomSource for Seeded {
    #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
    fn gen_hasher_seed(&self) -> usize {
        draw() as usize
    }
}

/// Replaces every source of chance by the seed. Nothing may have drawn from them before.
fn seed(seed: u64) {
    ENTROPY.store(seed, Ordering::Relaxed);
    // It refuses only when it was set before, and this runs once.
    let _ = ahash::random_state::set_random_source(Seeded);
    fastrand::seed(draw());
}

fn main() -> ExitCode {
    let args = Args::parse();
    seed(args.played_here().unwrap_or_default());
    command::main(&args)
}
