//! One reduction of the window for the losses of a round trip, and its undo (RFC 9002 §7.3.2).

use crate::controller::PacketInfo;

/// The last reduction, and the state `S` to go back to should all its losses prove spurious.
///
/// One state is saved: a second reduction makes the first final.
#[derive(Clone, Debug)]
pub(crate) struct Recovery<S> {
    largest_sent: Option<u64>,
    last: Option<Reduction<S>>,
}

#[derive(Clone, Debug)]
struct Reduction<S> {
    /// Packets up to this one were sent before the reduction: their losses are part of it.
    mark: u64,
    /// The mark of the reduction before this one.
    previous_mark: Option<u64>,
    /// True until a packet sent after the reduction is acknowledged.
    is_recent: bool,
    /// The state before, and the losses that have not proved spurious.
    saved: Option<(S, u64)>,
}

impl<S> Reduction<S> {
    fn covers(&self, packet_number: u64) -> bool {
        packet_number <= self.mark && self.previous_mark.is_none_or(|mark| packet_number > mark)
    }
}

impl<S> Default for Recovery<S> {
    fn default() -> Self {
        Recovery {
            largest_sent: None,
            last: None,
        }
    }
}

impl<S> Recovery<S> {
    /// A packet was sent.
    #[inline]
    pub(crate) fn on_packet_sent(&mut self, packet_number: u64) {
        self.largest_sent = self.largest_sent.max(Some(packet_number));
    }

    /// The largest packet number that was sent.
    #[inline]
    pub(crate) fn largest_sent(&self) -> Option<u64> {
        self.largest_sent
    }

    /// True between a reduction and the acknowledgment of a packet sent after it.
    #[inline]
    pub(crate) fn is_under_way(&self) -> bool {
        self.last.as_ref().is_some_and(|last| last.is_recent)
    }

    /// True if the packet was sent after the last reduction, or if there was none: its loss is a
    /// new congestion event, and its acknowledgment may grow the window.
    #[inline]
    pub(crate) fn is_after(&self, packet_number: u64) -> bool {
        self.last
            .as_ref()
            .is_none_or(|last| packet_number > last.mark)
    }

    /// The window is reduced for this packet. Without a saved state the reduction is final.
    pub(crate) fn begin(&mut self, packet_number: u64, saved: Option<S>) {
        self.last = Some(Reduction {
            mark: self.largest_sent.unwrap_or(packet_number),
            previous_mark: self.last.as_ref().map(|last| last.mark),
            is_recent: true,
            saved: saved.map(|state| (state, 0)),
        });
    }

    /// Counts a lost packet, after [`begin`](Self::begin) if it begins a reduction.
    pub(crate) fn on_packet_lost(&mut self, packet_number: u64) {
        if let Some(last) = &mut self.last
            && last.covers(packet_number)
            && let Some((_, losses)) = &mut last.saved
        {
            *losses += 1;
        }
    }

    /// The largest packet of an ACK.
    #[inline]
    pub(crate) fn on_acked(&mut self, largest_acked: u64) {
        if let Some(last) = &mut self.last {
            last.is_recent &= largest_acked <= last.mark;
        }
    }

    /// Takes spurious losses in; returns the saved state if no loss of the reduction is left.
    pub(crate) fn on_spurious_loss(&mut self, packets: &[PacketInfo]) -> Option<S> {
        let last = self.last.as_mut()?;
        let spurious = packets
            .iter()
            .filter(|packet| last.covers(packet.packet_number))
            .count() as u64;
        let (_, losses) = last.saved.as_mut()?;
        *losses = losses.saturating_sub(spurious);
        if *losses > 0 {
            return None;
        }
        let (state, _) = last.saved.take()?;
        // Should a packet sent before the reduction be lost after all, it counts again.
        self.last = last.previous_mark.map(|mark| Reduction {
            mark,
            previous_mark: None,
            is_recent: false,
            saved: None,
        });
        Some(state)
    }

    /// Makes the last reduction final: there is a reason for it that cannot prove spurious.
    pub(crate) fn make_final(&mut self) {
        if let Some(last) = &mut self.last {
            last.saved = None;
        }
    }

    /// Ends recovery for good, as persistent congestion does (RFC 9002 §7.6.2).
    pub(crate) fn end(&mut self) {
        if let Some(last) = &mut self.last {
            last.is_recent = false;
            last.saved = None;
        }
    }

    /// The saved state, to be converted with the rest when the datagram size changes.
    pub(crate) fn saved_mut(&mut self) -> Option<&mut S> {
        self.last
            .as_mut()
            .and_then(|last| last.saved.as_mut())
            .map(|(state, _)| state)
    }
}
