//! The commands that cross languages, and their set-up.
fn main() {}
