//! Server and client against each other, as their users start them.

mod contract;
mod failures;
mod relay;
mod serving;
mod setup;
mod shutdown;
mod transfers;
