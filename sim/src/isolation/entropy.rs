//! Seeded entropy: one stream per thread, the operating system's when none is
//! set.
//!
//! quiche draws packet numbers to skip and connection identifiers from
//! BoringSSL, whose keys decide every byte on the wire; and the standard
//! library's hash maps draw their keys. So this module defines every symbol of
//! the two members of BoringSSL's archive that ask for entropy, so that the
//! linker takes neither, and `getrandom` of the C library. BoringSSL's own
//! generator stays as it is; it is seeded from here once per thread, which is
//! why every simulation runs in a fresh one ([`isolated`](crate::isolated)).

use rand::Rng;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng;
use std::cell::{Cell, RefCell};

thread_local! {
    static SOURCE: RefCell<Option<SplitMix64>> = const { RefCell::new(None) };
    static DRAWS: Cell<Draws> = const { Cell::new(Draws { boringssl: 0, libc: 0 }) };
}

/// How often each consumer drew from this thread's seeded stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Draws {
    /// Calls of BoringSSL's entropy functions.
    pub boringssl: u64,
    /// Calls of the C library's `getrandom`.
    pub libc: u64,
}

/// Gives this thread a stream of entropy determined by `seed`.
pub fn seed(seed: u64) {
    SOURCE.set(Some(SplitMix64::seed_from_u64(seed)));
    DRAWS.set(Draws::default());
}

/// Gives this thread the operating system's entropy back.
pub fn clear() {
    SOURCE.set(None);
}

/// How often this thread's stream has been drawn from since it was seeded.
#[must_use]
pub fn draws() -> Draws {
    DRAWS.get()
}

/// Fills `out` from the seeded stream; false if the thread has none.
fn fill(out: &mut [u8], count: impl FnOnce(&mut Draws)) -> bool {
    SOURCE.with_borrow_mut(|source| {
        let Some(source) = source else { return false };
        source.fill_bytes(out);
        let mut draws = DRAWS.get();
        count(&mut draws);
        DRAWS.set(draws);
        true
    })
}

#[expect(
    unsafe_code,
    reason = "replacing BoringSSL's and the C library's entropy needs exported symbols and raw pointers"
)]
mod overrides {
    use super::{Draws, fill};
    use libc::{c_int, c_uint, c_void};
    use std::slice;

    /// The caller's buffer as a slice.
    ///
    /// # Safety
    /// `out` must be valid for writes of `length` bytes for `'a`, and nothing
    /// else may use them meanwhile.
    unsafe fn buffer<'a>(out: *mut u8, length: usize) -> &'a mut [u8] {
        if length == 0 {
            return &mut [];
        }
        // SAFETY: by the caller's promise; the bytes are initialised before a
        // reference to them exists.
        unsafe {
            out.write_bytes(0, length);
            slice::from_raw_parts_mut(out, length)
        }
    }

    /// Fills `out` for BoringSSL, which has no way to say that it cannot.
    fn fill_for_boringssl(mut out: &mut [u8]) {
        if fill(out, |draws: &mut Draws| draws.boringssl += 1) {
            return;
        }
        while !out.is_empty() {
            // SAFETY: `out` is valid for writes of its length.
            let got = unsafe { libc::syscall(libc::SYS_getrandom, out.as_mut_ptr(), out.len(), 0) };
            match usize::try_from(got) {
                Ok(got) => out = &mut out[got..],
                Err(_)
                    if std::io::Error::last_os_error().kind()
                        == std::io::ErrorKind::Interrupted => {}
                // As BoringSSL itself does: no key may be made without entropy.
                Err(_) => std::process::abort(),
            }
        }
    }

    /// `bssl::CRYPTO_sysrand(uint8_t *, size_t)`.
    #[unsafe(export_name = "_ZN4bssl14CRYPTO_sysrandEPhm")]
    unsafe extern "C" fn crypto_sysrand(out: *mut u8, length: usize) {
        // SAFETY: BoringSSL passes a buffer of `length` bytes.
        fill_for_boringssl(unsafe { buffer(out, length) });
    }

    /// `bssl::CRYPTO_init_sysrand()`: opens nothing, as nothing needs opening.
    #[unsafe(export_name = "_ZN4bssl19CRYPTO_init_sysrandEv")]
    extern "C" fn crypto_init_sysrand() {}

    /// `CRYPTO_rdrand(uint8_t[8])`: 1 for success.
    #[unsafe(export_name = "CRYPTO_rdrand")]
    unsafe extern "C" fn crypto_rdrand(out: *mut u8) -> c_int {
        // SAFETY: BoringSSL passes a buffer of 8 bytes.
        fill_for_boringssl(unsafe { buffer(out, 8) });
        1
    }

    /// `CRYPTO_rdrand_multiple8_buf(uint8_t *, size_t)`: 1 for success.
    #[unsafe(export_name = "CRYPTO_rdrand_multiple8_buf")]
    unsafe extern "C" fn crypto_rdrand_multiple8_buf(out: *mut u8, length: usize) -> c_int {
        // SAFETY: BoringSSL passes a buffer of `length` bytes.
        fill_for_boringssl(unsafe { buffer(out, length) });
        1
    }

    /// getrandom(2).
    #[unsafe(no_mangle)]
    unsafe extern "C" fn getrandom(out: *mut c_void, length: usize, flags: c_uint) -> isize {
        if !out.is_null() {
            // SAFETY: the caller passes a buffer of `length` bytes; not null.
            let out = unsafe { buffer(out.cast(), length) };
            if fill(out, |draws: &mut Draws| draws.libc += 1) {
                return length as isize;
            }
        }
        // SAFETY: the kernel checks the pointer itself.
        unsafe { libc::syscall(libc::SYS_getrandom, out, length, flags) as isize }
    }
}
