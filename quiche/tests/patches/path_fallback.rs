//! The address to which a server returns.

use crate::pair::{config, in_virtual_time, Pair};
use crate::rebinding::{active_port, appear, appear_without_answer, fail_validation, provide_ids};

#[test]
fn a_server_returns_to_the_address_that_was_active_last() {
    in_virtual_time(|| {
        let mut pair = Pair::connected(&mut config(), &mut config());
        provide_ids(&mut pair, 0);
        let (reached, unreachable) = (20_000, 20_001);
        appear(&mut pair, reached);
        assert_eq!(active_port(&pair.server), reached);
        appear_without_answer(&mut pair, unreachable);
        fail_validation(&mut pair);
        assert_eq!(active_port(&pair.server), reached);
    });
}
