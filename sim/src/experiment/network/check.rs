//! Checks of a network that its types cannot make.

use std::collections::HashSet;

use gallop_network::invalid::{Invalid, require};

use super::course::CourseSpec;
use super::graph::{Graph, GraphError};
use super::impairment::{positive, probability};
use super::link::{Conditions, DUMBBELL_LINKS, DumbbellSpec, LinkSpec, ReverseSpec};
use super::place::FlowPlace;

/// The nodes of the links, after a check of the links.
pub(super) fn graph(links: &[LinkSpec]) -> Result<Graph, Invalid> {
    let mut graph = Graph::new();
    let mut names = HashSet::new();
    for (number, link) in links.iter().enumerate() {
        let place = format!("link[{number}]");
        for (key, name) in ["name", "reverse.name"].into_iter().zip(link.names()) {
            if let Some(name) = name {
                require(names.insert(name), &format!("{place}.{key}"), || {
                    format!("there is another link \"{name}\"")
                })?;
            }
        }
        link.conditions().validate(&place)?;
        has_rate(link.conditions(), &place)?;
        if let Some(reverse) = &link.reverse {
            reverse.validate(&format!("{place}.reverse"))?;
        }
        graph.link(&link.from, &link.to).map_err(|error| {
            let key = match error {
                GraphError::Itself(_) => "to",
                _ => "from",
            };
            Invalid::new(format!("{place}.{key}"), error.to_string())
        })?;
    }
    Ok(graph)
}

/// Checks a flow over links.
pub(super) fn place(graph: &Graph, number: usize, flow: &FlowPlace) -> Result<(), Invalid> {
    let at = |key: &str| format!("flow[{number}].{key}");
    for (key, given) in [
        ("access-delay", flow.access_delay.is_some()),
        ("direction", flow.direction.is_some()),
    ] {
        require(!given, &at(key), || {
            "only flows over a [dumbbell] have it; here the links say it".to_owned()
        })?;
    }
    let node = |key: &str, node: &Option<String>| {
        node.clone().ok_or_else(|| {
            let problem = format!("flow \"{}\" lacks the node it goes {key}", flow.name);
            Invalid::new(format!("flow[{number}]"), problem)
        })
    };
    let (from, to) = (node("from", &flow.from)?, node("to", &flow.to)?);
    let route = graph.route(&from, &to);
    route.map(drop).map_err(|error| {
        let unknown_from = matches!(&error, GraphError::UnknownNode { name, .. } if *name == from);
        let key = if unknown_from { "from" } else { "to" };
        Invalid::new(at(key), error.to_string())
    })
}

/// Checks a flow over a dumbbell.
pub(super) fn dumbbell_place((number, flow): (usize, &FlowPlace)) -> Result<(), Invalid> {
    for (key, node) in [("from", &flow.from), ("to", &flow.to)] {
        require(node.is_none(), &format!("flow[{number}].{key}"), || {
            "in a [dumbbell] every flow has hosts of its own; leave it out, or say direction = \"reverse\"".to_owned()
        })?;
    }
    Ok(())
}

/// The problem of a link without a rate.
pub(super) const NO_RATE: &str = "it has neither a rate nor a trace nor a course";

fn has_rate(conditions: Conditions, place: &str) -> Result<(), Invalid> {
    require(conditions.has_rate(), place, || NO_RATE.to_owned())
}

impl DumbbellSpec {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        let place = "dumbbell";
        self.conditions().validate(place)?;
        has_rate(self.conditions(), place)?;
        require(self.queue.is_some(), place, || {
            "it has no queue; say how much may wait, such as queue = \"100p\"".to_owned()
        })?;
        if let Some(reverse) = &self.reverse {
            let place = "dumbbell.reverse";
            reverse.validate(place)?;
            require(reverse.name.is_none(), &format!("{place}.name"), || {
                format!("in a dumbbell it is called \"{}\"", DUMBBELL_LINKS[1])
            })?;
        }
        let access = self.access_delay.unwrap_or_default().duration();
        require(
            access.saturating_mul(4) <= self.rtt.duration(),
            "dumbbell.access-delay",
            || {
                format!(
                    "the four access links of a round trip take longer than it, {}",
                    self.rtt
                )
            },
        )
    }
}

impl ReverseSpec {
    fn validate(&self, place: &str) -> Result<(), Invalid> {
        self.conditions().validate(place)?;
        for (number, change) in self.changes.iter().enumerate() {
            for (key, changes, first) in [
                ("rate", change.rate.is_some(), self.rate.is_some()),
                ("delay", change.delay.is_some(), self.delay.is_some()),
            ] {
                require(
                    first || !changes,
                    &format!("{place}.changes[{number}].{key}"),
                    || format!("the reverse has no {key} of its own that could change"),
                )?;
            }
        }
        Ok(())
    }
}

impl Conditions<'_> {
    fn validate(&self, place: &str) -> Result<(), Invalid> {
        let at = |key: &str| format!("{place}.{key}");
        if let Some(queue) = self.queue {
            queue.validate(&at("queue"))?;
        }
        if let Some(loss) = self.loss {
            loss.validate(&at("loss"))?;
        }
        if let Some(reorder) = self.reorder {
            probability(reorder.probability, &at("reorder.probability"))?;
        }
        for (key, value) in [("duplicate", self.duplicate), ("corrupt", self.corrupt)] {
            if let Some(value) = value {
                probability(value, &at(key))?;
            }
        }
        if let Some(jitter) = self.jitter {
            jitter.validate(&at("jitter"))?;
        }
        if let Some(bundle) = self.bundle {
            positive(bundle, &at("bundle"))?;
        }
        if let Some(during) = self.impaired_during {
            during.validate(&at("impaired-during"))?;
        }
        for (number, outage) in self.outages.iter().enumerate() {
            outage.validate(&at(&format!("outages[{number}]")))?;
        }
        if let Some(course) = self.course {
            course.validate(&at("course"))?;
            require(self.trace.is_none(), &at("trace"), || {
                "the link has a course, which says the rate".to_owned()
            })?;
        }
        if let Some(says) = self.says_the_rate() {
            require(self.rate.is_none(), &at("rate"), || says.to_owned())?;
        }
        self.validate_changes(&at("changes"))
    }

    /// The reason for which the link can have no other rate, if there is one.
    fn says_the_rate(&self) -> Option<&'static str> {
        match (self.course, self.trace) {
            (Some(_), _) => Some("the link has a course, which says the rate"),
            (None, Some(_)) => Some("the link has a trace, which says the rate"),
            (None, None) => None,
        }
    }

    fn validate_changes(&self, place: &str) -> Result<(), Invalid> {
        let mut last = None;
        for (number, change) in self.changes.iter().enumerate() {
            let at = |key: &str| format!("{place}[{number}].{key}");
            require(last < Some(change.at), &at("at"), || {
                format!("{} is not after the change before it", change.at)
            })?;
            last = Some(change.at);
            if let Some(says) = self.says_the_rate() {
                require(change.rate.is_none(), &at("rate"), || says.to_owned())?;
            }
            let moves = self.course.is_some_and(CourseSpec::has_delays);
            require(!moves || change.delay.is_none(), &at("delay"), || {
                "the link has a course, which says the delay".to_owned()
            })?;
            let changes = change.rate.is_some() || change.delay.is_some();
            require(changes, &format!("{place}[{number}]"), || {
                "it changes neither rate nor delay".to_owned()
            })?;
        }
        Ok(())
    }
}
