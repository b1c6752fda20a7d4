//! Server and client against each other, as their users start them.

mod failures;
mod serving;
mod setup;
mod shutdown;
mod transfers;
