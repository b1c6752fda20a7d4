//! One module per patch of the series, named as the patch is. Its tests fail when the series ends
//! before the patch. Those of the first patch are in the folder plug_point.

#[path = "../support/mod.rs"]
mod support;

mod close_during_handshake;
mod close_with_full_window;
mod connection_id_copies;
mod handshake_probes;
mod idle_handshake;
mod loss_timer_room;
mod losses;
mod lost_bytes;
mod padding_limit;
mod path_change_retransmission;
mod path_fallback;
mod path_room;
mod qlog_delivery_rate;
mod qlog_interval;
mod qlog_packet_lost;
mod qlog_recovery_parameters;
mod rebinding;
mod received_time;
mod sent_buffers;
mod stream_header;
mod stream_without_data;
mod truncated_frames;

use support::{pair, qlog, recorder};
