//! Its build script ends the build when a tool that BoringSSL needs is missing.
//!
//! boring-sys finds this out only after bindgen was compiled, and says so in the middle of a
//! backtrace. This package is ready long before.
