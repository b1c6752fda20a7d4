//! A transfer over quinn with any of the controllers.

use quinn as stack;

include!("../transfer.rs");
