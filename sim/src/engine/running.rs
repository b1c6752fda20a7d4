//! A flow of a running simulation: it waits, runs, and leaves a report.

use crate::endpoint::application::Answer;
use crate::endpoint::settings::Controller;
use crate::engine::ends::Ends;
use crate::engine::flow::{Flow, FlowReport};
use crate::engine::flow_meter::FlowMeter;
use crate::time::Time;
use crate::traffic::load::Counted;

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
    /// It is a load without connections.
    Loading(Loading),
    /// It has closed.
    Closed(Box<Closed>),
}

/// A load that is under way.
pub(crate) struct Loading {
    pub(crate) started: Time,
    pub(crate) finished: Option<Time>,
    pub(crate) counted: Counted,
}

impl Loading {
    fn report(&self, datagram_bytes: usize) -> FlowReport {
        let datagram_bytes = datagram_bytes as u64;
        FlowReport {
            packets_sent: self.counted.sent,
            packets_lost: self.counted.lost(),
            bytes_sent: self.counted.sent * datagram_bytes,
            bytes_lost: self.counted.lost() * datagram_bytes,
            received_bytes: self.counted.received * datagram_bytes,
            started: Some(self.started),
            finished: self.finished,
            ..FlowReport::default()
        }
    }
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
            Stage::Waiting | Stage::Loading(_) | Stage::Closed(_) => None,
        }
    }

    /// True if it has read to the end.
    pub(crate) fn has_finished(&self) -> bool {
        match &self.stage {
            Stage::Waiting => false,
            Stage::Open(ends) => ends.finished().is_some(),
            Stage::Loading(loading) => loading.finished.is_some(),
            Stage::Closed(_) => true,
        }
    }

    /// Stream bytes that the client's application has read.
    pub(crate) fn received_bytes(&self) -> u64 {
        match &self.stage {
            Stage::Waiting => 0,
            Stage::Open(ends) => ends.client().map_or(0, |client| client.received),
            Stage::Loading(loading) => loading.counted.received * self.flow.datagram_bytes as u64,
            Stage::Closed(closed) => closed.report.received_bytes,
        }
    }

    /// Answers that were read to their end.
    pub(crate) fn answers(&self) -> &[Answer] {
        match &self.stage {
            Stage::Waiting | Stage::Loading(_) => &[],
            Stage::Open(ends) => ends.client().map_or(&[], |client| &client.answers),
            Stage::Closed(closed) => &closed.answers,
        }
    }

    pub(crate) fn report(&self) -> FlowReport {
        match &self.stage {
            Stage::Waiting => FlowReport::default(),
            Stage::Open(ends) => ends.report(),
            Stage::Loading(loading) => loading.report(self.flow.datagram_bytes),
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

    /// Closes a flow that has not started and will not.
    pub(crate) fn cancel(&mut self) {
        self.stage = Stage::Closed(Box::new(Closed {
            report: FlowReport::default(),
            answers: Vec::new(),
        }));
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
