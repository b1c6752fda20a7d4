//! RTT samples and BaseRTT.

use std::time::Duration;

/// BaseRTT: the smallest RTT seen on the path (Brakmo et al. 1994 §3.5.2).
///
/// It is kept over idle periods; a new path has a new controller and so a new BaseRTT.
///
/// NOTE: Brakmo et al. 1994 defines BaseRTT as the RTT without congestion and takes the minimum in
/// practice, so do we. Linux forgets it after each idle period, when a queue of other flows would
/// become part of the base.
///
/// NOTE: the papers' packets are of one size, and BaseRTT contains the time to transmit one (Ho et
/// al. 2006 equation 2). A smaller packet, as at the end of a response, is faster by up to one
/// transmission time, which would look like one more packet of backlog ever after. So the smallest
/// RTT of full datagrams is taken as soon as there is one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BaseRtt {
    of_full_datagrams: Option<Duration>,
    of_smaller: Option<Duration>,
}

impl BaseRtt {
    /// BaseRTT, once there was a sample.
    #[inline]
    pub(crate) fn get(&self) -> Option<Duration> {
        self.of_full_datagrams.or(self.of_smaller)
    }

    /// Takes a measured RTT in and returns it without the peer's delay.
    ///
    /// The minimum is over unadjusted samples, since a false `ack_delay` must not lower it (RFC
    /// 9002 §5.2). The adjusted sample is at least BaseRTT (RFC 9002 §5.3). A sample of zero says
    /// that the clock did not advance, not that the path has no delay: it never becomes BaseRTT.
    #[inline]
    pub(crate) fn on_sample(
        &mut self,
        measured: Duration,
        ack_delay: Duration,
        full_datagram: bool,
    ) -> Duration {
        if !measured.is_zero() {
            let min = match full_datagram {
                true => &mut self.of_full_datagrams,
                false => &mut self.of_smaller,
            };
            *min = Some(min.map_or(measured, |min| min.min(measured)));
        }
        measured
            .saturating_sub(ack_delay)
            .max(self.get().unwrap_or(Duration::ZERO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_first_sample_that_is_too_high_is_replaced() {
        let mut base = BaseRtt::default();
        assert_eq!(base.on_sample(ms(400), ms(0), true), ms(400));
        assert_eq!(base.on_sample(ms(100), ms(0), true), ms(100));
        assert_eq!(base.on_sample(ms(130), ms(0), true), ms(130));
        assert_eq!(base.get(), Some(ms(100)));
    }

    #[test]
    fn the_peers_delay_is_taken_off_but_never_below_base() {
        let mut base = BaseRtt::default();
        base.on_sample(ms(100), ms(0), true);
        assert_eq!(base.on_sample(ms(130), ms(20), true), ms(110));
        assert_eq!(base.on_sample(ms(110), ms(25), true), ms(100));
        assert_eq!(
            base.on_sample(ms(90), ms(25), true),
            ms(90),
            "a lower sample is the new base itself"
        );
        assert_eq!(base.get(), Some(ms(90)));
    }

    #[test]
    fn small_packets_count_only_until_there_is_a_full_datagram() {
        let mut base = BaseRtt::default();
        assert_eq!(base.on_sample(ms(93), ms(0), false), ms(93));
        assert_eq!(base.on_sample(ms(90), ms(0), false), ms(90));
        assert_eq!(base.get(), Some(ms(90)));
        assert_eq!(base.on_sample(ms(100), ms(0), true), ms(100));
        assert_eq!(base.get(), Some(ms(100)));
        assert_eq!(
            base.on_sample(ms(91), ms(0), false),
            ms(100),
            "at least BaseRTT"
        );
        assert_eq!(base.get(), Some(ms(100)));
    }

    #[test]
    fn a_clock_that_stands_still_gives_no_base() {
        let mut base = BaseRtt::default();
        assert_eq!(base.on_sample(ms(0), ms(0), true), ms(0));
        assert_eq!(base.get(), None);
        base.on_sample(ms(1), ms(0), true);
        assert_eq!(base.on_sample(ms(0), ms(0), true), ms(1));
        assert_eq!(base.get(), Some(ms(1)));
    }
}
