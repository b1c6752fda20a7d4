//! A flow of a running simulation: it waits, runs, and leaves a report.

use crate::endpoint::application::Answer;
use crate::endpoint::settings::Controller;
use crate::engine::ends::Ends;
use crate::engine::flow::{Flow, FlowReport};
use crate::engine::flow_meter::FlowMeter;
/// A flow of a running simulation.
pub(crate) struct Running {
    pub(crate) flow: Flow,
    pub(crate) stage: Stage,
    pub(crate) meter: FlowMeter,
}

/// Stage of a flow.
pub(crate) enum Stage {
    /// It has not started.
    Waiting,
    /// It has connections. They are boxed because they are large and flows are in a growing vector.
    Open(Box<Ends>),
    /// It has closed.
    Closed(Box<Closed>),
}

/// The remains of a flow that has closed.
pub(crate) struct Closed {
    report: FlowReport,
    answers: Vec<Answer>,
}

impl Running {
    pub(crate) fn new(flow: Flow) -> Running {
        let controller = match &flow.controller {
            Controller::Named(name) => Some(name.as_str()),
            Controller::Factory(_) => None,
        };
        Running {
            meter: FlowMeter::new(controller, flow.datagram_bytes),
            flow,
            stage: Stage::Waiting,
        }
    }

    /// The connections, if they are open.
    pub(crate) fn ends(&self) -> Option<&Ends> {
        match &self.stage {
            Stage::Open(ends) => Some(ends),
            Stage::Waiting | Stage::Closed(_) => None,
        }
    }

    /// True if it has read to the end.
    pub(crate) fn has_finished(&self) -> bool {
        match &self.stage {
            Stage::Waiting => false,
            Stage::Open(ends) => ends.finished().is_some(),
            Stage::Closed(_) => true,
        }
    }

    /// Stream bytes that the client's application has read.
    pub(crate) fn received_bytes(&self) -> u64 {
        match &self.stage {
            Stage::Waiting => 0,
            Stage::Open(ends) => ends.client().map_or(0, |client| client.received),
            Stage::Closed(closed) => closed.report.received_bytes,
        }
    }

    /// Answers that were read to their end.
    pub(crate) fn answers(&self) -> &[Answer] {
        match &self.stage {
            Stage::Waiting => &[],
            Stage::Open(ends) => ends.client().map_or(&[], |client| &client.answers),
            Stage::Closed(closed) => &closed.answers,
        }
    }

    pub(crate) fn report(&self) -> FlowReport {
        match &self.stage {
            Stage::Waiting => FlowReport::default(),
            Stage::Open(ends) => ends.report(),
            Stage::Closed(closed) => closed.report.clone(),
        }
    }

    /// Drops the measurements over time, and the observer.
    pub(crate) fn forget(&mut self) {
        self.meter = FlowMeter::new(None, self.flow.datagram_bytes);
        self.flow.observer = None;
        if let Stage::Closed(closed) = &mut self.stage {
            closed.answers = Vec::new();
        }
    }

    /// Drops the connections and keeps their results.
    pub(crate) fn close(&mut self) {
        if let Stage::Open(ends) = &mut self.stage {
            let report = ends.report();
            let answers = ends.take_answers();
            self.stage = Stage::Closed(Box::new(Closed { report, answers }));
        }
    }
}
