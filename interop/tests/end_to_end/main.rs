//! Server and client against each other, as their users start them.

mod contract;
mod crowd;
mod failures;
mod load;
mod relay;
mod serving;
mod setup;
mod shutdown;
mod transfers;
