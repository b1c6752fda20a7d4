//! Server and client against each other, as their users start them.

mod contract;
mod crowd;
mod failures;
mod hostile;
mod hostile_server;
mod load;
mod raw;
mod relay;
mod serving;
mod setup;
mod shutdown;
mod threads;
mod transfers;
