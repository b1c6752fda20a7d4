//! Presets: experiments that `compare` can take, in which nothing varies but the controller.

use std::path::Path;

use gallop::catalog::name_and_options;

use super::CompareError;
use crate::experiment::{Experiment, FlowSetup, Library, LibraryError, PlainPath};

/// The preset from which others take their missing values.
pub(super) const DEFAULT: &str = "default";

/// An experiment over one plain path, of some controllers.
#[derive(Clone, Debug)]
pub(super) struct Preset {
    pub(super) experiment: Experiment,
    pub(super) path: PlainPath,
    /// The runs, each with its id, its title and its controller.
    pub(super) runs: Vec<Contender>,
}

/// A controller that is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Contender {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) cc: String,
}

impl Preset {
    /// The preset of this present or earlier name.
    pub(super) fn named(library: &Library, name: &str) -> Result<Preset, CompareError> {
        let file = match library.find(name) {
            Ok(file) => file,
            Err(LibraryError::Unknown(_)) => {
                return Err(CompareError::NoPreset {
                    name: name.to_owned(),
                    presets: names(library)?.join(", "),
                });
            }
            Err(error) => return Err(error.into()),
        };
        Preset::read(library, &file)
    }

    /// The preset in a file.
    pub(super) fn read(library: &Library, file: &Path) -> Result<Preset, CompareError> {
        let experiment = Experiment::read(file)?;
        let name = experiment.name.clone();
        Preset::of(experiment).map_err(|reason| CompareError::NotPlain {
            name,
            reason,
            presets: names(library).unwrap_or_default().join(", "),
        })
    }

    fn of(experiment: Experiment) -> Result<Preset, &'static str> {
        const VARIES: &str = "more varies than the controller";
        let first = experiment.points.first().ok_or("it has no points")?;
        let path = PlainPath::of(&first.setup)?;
        let alike = |flow: &FlowSetup| FlowSetup {
            cc: String::new(),
            ..flow.clone()
        };
        for point in &experiment.points {
            let flows = |setup: &[FlowSetup]| setup.iter().map(alike).collect::<Vec<_>>();
            if PlainPath::of(&point.setup)? != path
                || flows(&point.setup.flows) != flows(&first.setup.flows)
            {
                return Err(VARIES);
            }
        }
        let runs: Option<Vec<Contender>> = experiment
            .runs
            .iter()
            .map(|run| {
                Some(Contender {
                    id: run.id.clone(),
                    title: run.title.clone(),
                    cc: run.cc.clone()?,
                })
            })
            .collect();
        match (runs, &experiment.axes[..]) {
            (Some(runs), [_]) => Ok(Preset {
                experiment,
                path,
                runs,
            }),
            _ => Err(VARIES),
        }
    }

    /// The options of the first of the runs that have the controller `name`.
    pub(super) fn options(&self, name: &str) -> &str {
        let mut runs = self.runs.iter().map(|run| name_and_options(&run.cc));
        runs.find(|(own, _)| *own == name)
            .map_or("", |(_, options)| options)
    }
}

/// The names of the experiments that are presets.
pub(super) fn names(library: &Library) -> Result<Vec<String>, CompareError> {
    let files = library.experiments()?;
    let experiments = files
        .values()
        .filter_map(|file| Experiment::read(file).ok());
    Ok(experiments
        .filter_map(|experiment| Preset::of(experiment).ok())
        .map(|preset| preset.experiment.name)
        .collect())
}
