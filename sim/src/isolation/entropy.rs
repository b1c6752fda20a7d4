//! Seeded entropy: one stream per thread. A thread without one has the operating system's. This
//! module also replaces everything else that BoringSSL would take from the machine that it runs on.
//!
//! quiche draws packet numbers to skip and connection identifiers from BoringSSL, whose keys decide
//! every byte on the wire. The standard library's hash maps draw their keys. So this module
//! defines every symbol of the two members of BoringSSL's archive that ask for entropy, so that the
//! linker takes neither, and `getrandom` of the C library. BoringSSL's own generator stays as it
//! is; it is seeded from here once per thread, which is why every simulation runs in a fresh one
//! ([`isolated`](crate::isolated)).
//!
//! Three things would still depend on the processor and the kernel:
//!
//! - Each call of BoringSSL's generator mixes in 32 bytes: from RDRAND on an Intel processor; on
//!   any other, zeros if the kernel wipes pages on fork, else 32 bytes from the operating system.
//!   The symbols of the member that detects forks are defined here, and report that forks cannot be
//!   detected. Then all of them mix in the next 32 bytes of the thread's stream.
//! - BoringSSL prefers AES to ChaCha20 only where the processor computes AES itself. [`pin_cipher`]
//!   makes it prefer AES everywhere.
//! - The C library chooses `exp`, `log` and `pow` by what the processor has, and they differ in the
//!   last bit. The simulator takes them from the crate `libm`, which is the same everywhere.

use std::cell::{Cell, RefCell};

use boring::ssl::SslContextBuilder;
use rand::Rng;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng;

thread_local! {
    static SOURCE: RefCell<Option<SplitMix64>> = const { RefCell::new(None) };
    static DRAWS: Cell<Draws> = const { Cell::new(Draws { boringssl: 0, libc: 0 }) };
}

/// Number of draws of each consumer from this thread's seeded stream.
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

/// Returns this thread to the operating system's entropy.
pub fn clear() {
    SOURCE.set(None);
}

/// Makes a TLS context prefer AES-GCM to ChaCha20-Poly1305 on every processor.
///
/// The output of a cipher does not depend on the processor; the choice of one does.
pub fn pin_cipher(context: &mut SslContextBuilder) {
    overrides::set_aes_preferred(context);
}

/// Number of draws from this thread's stream since it was seeded.
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
    use std::slice;

    use libc::{c_int, c_uint, c_void};

    use super::{Draws, SslContextBuilder, fill};

    /// The caller's buffer as a slice.
    ///
    /// # Safety
    /// `out` must be valid for writes of `length` bytes for `'a`, and nothing else may use them
    /// meanwhile.
    unsafe fn buffer<'a>(out: *mut u8, length: usize) -> &'a mut [u8] {
        if length == 0 {
            return &mut [];
        }
        // SAFETY: by the caller's promise; the bytes are initialised before a reference to them
        // exists.
        unsafe {
            out.write_bytes(0, length);
            slice::from_raw_parts_mut(out, length)
        }
    }

    /// Fills `out` for BoringSSL, to which a failure cannot be reported.
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
                // BoringSSL itself does so: no key may be made without entropy.
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

    /// `bssl::CRYPTO_init_sysrand()`: does nothing, since there is nothing to open.
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

    /// `bssl::CRYPTO_get_fork_generation()`: 0, forks cannot be detected.
    #[unsafe(export_name = "_ZN4bssl26CRYPTO_get_fork_generationEv")]
    extern "C" fn crypto_get_fork_generation() -> u64 {
        0
    }

    /// `bssl::CRYPTO_fork_detect_force_madv_wipeonfork_for_testing(int)`: the other symbol of that
    /// member.
    #[unsafe(export_name = "_ZN4bssl52CRYPTO_fork_detect_force_madv_wipeonfork_for_testingEi")]
    extern "C" fn crypto_fork_detect_force_madv_wipeonfork_for_testing(_on: c_int) {}

    unsafe extern "C" {
        /// `bssl::SSL_CTX_set_aes_hw_override_for_testing(SSL_CTX *, bool)`.
        #[link_name = "_ZN4bssl39SSL_CTX_set_aes_hw_override_for_testingEP10ssl_ctx_stb"]
        fn ssl_ctx_set_aes_hw_override(context: *mut c_void, has_aes: bool);
    }

    pub(super) fn set_aes_preferred(context: &mut SslContextBuilder) {
        // SAFETY: the builder owns a valid context, which nothing else uses meanwhile.
        unsafe { ssl_ctx_set_aes_hw_override(context.as_ptr().cast(), true) };
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
