//! Real connections of quinn and noq, with a controller behind the adapter, over a path whose truth is
//! known. All times are virtual.

mod bottleneck;
mod recorder;

/// The same tests for each stack.
macro_rules! tests_of {
    ($stack:ident) => {
        mod $stack {
            use gallop_stacks::$stack as stack;

            include!("pair.rs");
            include!("tests.rs");
        }
    };
}

tests_of!(quinn);
tests_of!(noq);
