"""Results that the simulator wrote: experiments, estimates with intervals, verdicts on claims."""
