//! The simulated runs of scenarios.

use std::collections::BTreeMap;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::Path;
use std::thread;

use anyhow::{Context, Result, bail};
use gallop_sim::lab::{Options, Sample, Shard, Sweep};

use super::figures::Figures;
use super::plan::{NEIGHBOUR, Scenario, TESTED};

/// Simulates all scenarios under seeds 1 to `seeds`; results go to folders below `out`. Returns for
/// each scenario the figures of each plan, by seed.
///
/// # Errors
///
/// A run fails, or a file cannot be written.
pub fn run(
    scenarios: &[Scenario],
    seeds: NonZeroU64,
    out: &Path,
) -> Result<Vec<Vec<Vec<Figures>>>> {
    let experiments = scenarios
        .iter()
        .map(|scenario| scenario.experiment.clone())
        .collect();
    let options = Options {
        out: out.to_path_buf(),
        fast: false,
        seeds: Some(seeds),
        shard: Shard::WHOLE,
    };
    let sweep = Sweep::new(experiments, &options)?;
    let threads = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    for outcome in sweep.execute(threads)? {
        if let Some((point, seed, reason)) = outcome.failed.first() {
            bail!(
                "{}, point {point}, seed {seed}: {reason}",
                outcome.experiment
            );
        }
    }
    let mut all = Vec::with_capacity(scenarios.len());
    for (number, scenario) in scenarios.iter().enumerate() {
        let samples = sweep.samples(number)?;
        let of_plans = scenario.plans.iter().map(|plan| {
            figures(&samples, plan.point)
                .with_context(|| format!("{}, {}", scenario.experiment.name, plan.run))
        });
        all.push(of_plans.collect::<Result<_>>()?);
    }
    Ok(all)
}

/// The figures of a point, by seed.
fn figures(samples: &[Sample], point: usize) -> Result<Vec<Figures>> {
    let mut seeds: BTreeMap<u64, BTreeMap<(&str, &str), f64>> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.point == point) {
        let key = (sample.subject.as_str(), sample.metric.as_str());
        seeds
            .entry(sample.seed)
            .or_default()
            .insert(key, sample.value);
    }
    let (tested, neighbour) = (format!("flow/{TESTED}"), format!("flow/{NEIGHBOUR}"));
    let link = "link/bottleneck";
    seeds
        .values()
        .map(|values| {
            let value = |subject: &str, metric: &str| {
                let value = values.get(&(subject, metric)).copied();
                value.with_context(|| format!("the simulator has no {metric} of {subject}"))
            };
            Ok(Figures {
                throughput_bps: value(&tested, "throughput_bps")?,
                neighbour_bps: values.get(&(neighbour.as_str(), "throughput_bps")).copied(),
                queue_mean_packets: value(link, "queue_mean_packets")?,
                queue_p95_packets: value(link, "queue_p95_packets")?,
                queue_mean_delay_s: value(link, "queue_mean_delay_s")?,
                drops: value(link, "drops")?,
                rtt_mean_s: value(&tested, "rtt_mean_s")?,
                rtt_p95_s: value(&tested, "rtt_p95_s")?,
                lost_packets: value(&tested, "lost_packets")?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_simulated_under_each_seed() {
        let text = r#"
            title = "A"
            duration = "2s"
            measure-from = "1s"
            ack-every = 1
            run = [{ id = "a", cc = "vegas" }]
            [dumbbell]
            rate = "2mbit"
            rtt = "20ms"
            queue = "20p"
            [[flow]]
            name = "tested"
            [[flow]]
            name = "neighbour"
            cc = "cubic-rfc9438"
        "#;
        let scenario = Scenario::parse("a", Path::new("a.toml"), text).unwrap();
        let out = tempfile::tempdir().unwrap();
        let two = NonZeroU64::new(2).unwrap();
        let all = run(&[scenario], two, out.path()).unwrap();
        let [of_scenario] = &all[..] else {
            panic!("{all:?}");
        };
        let [of_plan] = &of_scenario[..] else {
            panic!("{all:?}");
        };
        assert_eq!(of_plan.len(), 2);
        for figures in of_plan {
            let both = figures.throughput_bps + figures.neighbour_bps.unwrap();
            assert!((1.5e6..2e6).contains(&both), "{figures:?}");
            assert!(figures.queue_mean_packets > 1.0, "{figures:?}");
            assert!(figures.rtt_mean_s > 0.02, "{figures:?}");
        }
    }
}
