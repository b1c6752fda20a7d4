//! The cost of a send after the handshake.

use allocation_counter::measure;

use crate::pair::{config, in_virtual_time, Pair};

#[test]
fn a_send_with_nothing_to_send_copies_nothing() {
    in_virtual_time(|| {
        let mut pair = Pair::connected(&mut config(), &mut config());
        let mut buffer = [0; 1200];
        for connection in [&mut pair.client, &mut pair.server] {
            let allocations = measure(|| {
                assert_eq!(connection.send(&mut buffer), Err(quiche::Error::Done));
            });
            assert_eq!(allocations.count_total, 0);
        }
    });
}
