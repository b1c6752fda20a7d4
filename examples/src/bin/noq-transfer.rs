//! A transfer over noq with any of the controllers.

use noq as stack;

include!("../transfer.rs");
