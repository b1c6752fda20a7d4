//! RTT samples and BaseRTT.

use std::time::Duration;

/// BaseRTT: the smallest RTT seen on the path (000 §3.5.2).
///
/// It is kept over idle periods; a new path has a new controller and so a new BaseRTT.
///
/// NOTE: 000 suggests that BaseRTT be the RTT of a segment "when the connection is not congested"
/// and takes the minimum in practice, so do we. Linux forgets it after each idle period, when a
/// queue of other flows would become part of the base.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BaseRtt(Option<Duration>);

impl BaseRtt {
    /// The smallest RTT so far.
    pub(crate) fn get(&self) -> Option<Duration> {
        self.0
    }

    /// Takes a measured RTT in and returns it without the peer's delay.
    ///
    /// The minimum is over unadjusted samples, since a false `ack_delay` must not lower it (RFC
    /// 9002 §5.2). The adjusted sample is at least BaseRTT (RFC 9002 §5.3). A sample of zero says
    /// that the clock did not advance, not that the path has no delay: it never becomes BaseRTT.
    pub(crate) fn on_sample(&mut self, measured: Duration, ack_delay: Duration) -> Duration {
        if !measured.is_zero() && self.0.is_none_or(|base| measured < base) {
            self.0 = Some(measured);
        }
        measured
            .saturating_sub(ack_delay)
            .max(self.0.unwrap_or(Duration::ZERO))
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
        assert_eq!(base.on_sample(ms(400), ms(0)), ms(400));
        assert_eq!(base.on_sample(ms(100), ms(0)), ms(100));
        assert_eq!(base.on_sample(ms(130), ms(0)), ms(130));
        assert_eq!(base.get(), Some(ms(100)));
    }

    #[test]
    fn the_peers_delay_is_taken_off_but_never_below_base() {
        let mut base = BaseRtt::default();
        base.on_sample(ms(100), ms(0));
        assert_eq!(base.on_sample(ms(130), ms(20)), ms(110));
        assert_eq!(base.on_sample(ms(110), ms(25)), ms(100));
        assert_eq!(
            base.on_sample(ms(90), ms(25)),
            ms(90),
            "a lower sample is the new base itself"
        );
        assert_eq!(base.get(), Some(ms(90)));
    }

    #[test]
    fn a_clock_that_stands_still_gives_no_base() {
        let mut base = BaseRtt::default();
        assert_eq!(base.on_sample(ms(0), ms(0)), ms(0));
        assert_eq!(base.get(), None);
        base.on_sample(ms(1), ms(0));
        assert_eq!(base.on_sample(ms(0), ms(0)), ms(1));
        assert_eq!(base.get(), Some(ms(1)));
    }
}
