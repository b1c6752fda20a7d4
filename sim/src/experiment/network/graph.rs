//! Named nodes and the links between them: a forest, so that between two nodes there is one route
//! or none.

use std::collections::BTreeMap;

use thiserror::Error;

/// A reason for which a link cannot be added, or for which there is no route.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum GraphError {
    /// Both ends of a link are one node.
    #[error("it links \"{0}\" to itself")]
    Itself(String),
    /// The ends were linked already, over other links.
    #[error("it closes a loop: {0}; links must form a tree, so that routes are unique")]
    Loop(String),
    /// No link ends at this node.
    #[error("no link ends at \"{name}\"; the nodes are {nodes}")]
    UnknownNode {
        /// The node.
        name: String,
        /// The known nodes.
        nodes: String,
    },
    /// A flow leads from a node to itself.
    #[error("it leads from \"{0}\" to itself")]
    NoDistance(String),
    /// No links lead from one to the other.
    #[error("no links lead from \"{from}\" to \"{to}\"")]
    NoPath {
        /// The start.
        from: String,
        /// The end.
        to: String,
    },
}

/// A link on a route, and the direction in which it is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The number of the link, in the order in which they were added.
    pub link: usize,
    /// True if it is passed from its first node to its second.
    pub forward: bool,
}

/// A forest of named nodes.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    names: Vec<String>,
    numbers: BTreeMap<String, usize>,
    /// For every node the links at it, and the nodes at their other ends.
    neighbours: Vec<Vec<(Step, usize)>>,
    links: usize,
}

impl Graph {
    /// A graph without nodes.
    #[must_use]
    pub fn new() -> Graph {
        Graph::default()
    }

    /// Adds a link, and its ends if they are new; returns its number.
    ///
    /// # Errors
    /// Refuses a link that would close a loop.
    pub fn link(&mut self, from: &str, to: &str) -> Result<usize, GraphError> {
        if from == to {
            return Err(GraphError::Itself(from.to_owned()));
        }
        let both_known = self.numbers.contains_key(from) && self.numbers.contains_key(to);
        let (start, end) = (self.node(from), self.node(to));
        if both_known && let Some(path) = self.search(start, end) {
            let mut nodes = vec![from.to_owned()];
            nodes.extend(path.iter().map(|&(_, node)| self.names[node].clone()));
            nodes.push(from.to_owned());
            return Err(GraphError::Loop(nodes.join(" – ")));
        }
        let link = self.links;
        self.links += 1;
        for (here, there, forward) in [(start, end, true), (end, start, false)] {
            self.neighbours[here].push((Step { link, forward }, there));
        }
        Ok(link)
    }

    /// The links from one node to another, in order.
    ///
    /// # Errors
    /// Refuses unknown nodes, equal nodes and nodes that are not linked.
    pub fn route(&self, from: &str, to: &str) -> Result<Vec<Step>, GraphError> {
        let (start, end) = (self.known(from)?, self.known(to)?);
        if start == end {
            return Err(GraphError::NoDistance(from.to_owned()));
        }
        let path = self.search(start, end).ok_or_else(|| GraphError::NoPath {
            from: from.to_owned(),
            to: to.to_owned(),
        })?;
        Ok(path.into_iter().map(|(step, _)| step).collect())
    }

    fn node(&mut self, name: &str) -> usize {
        match self.numbers.get(name) {
            Some(&number) => number,
            None => {
                let number = self.names.len();
                self.names.push(name.to_owned());
                self.numbers.insert(name.to_owned(), number);
                self.neighbours.push(Vec::new());
                number
            }
        }
    }

    fn known(&self, name: &str) -> Result<usize, GraphError> {
        let unknown = || GraphError::UnknownNode {
            name: name.to_owned(),
            nodes: self.names.join(", "),
        };
        self.numbers.get(name).copied().ok_or_else(unknown)
    }

    /// The steps from `start` to `end` and the nodes they lead to.
    fn search(&self, start: usize, end: usize) -> Option<Vec<(Step, usize)>> {
        let mut arrived_by: Vec<Option<(Step, usize)>> = vec![None; self.names.len()];
        let mut next = vec![start];
        while let Some(node) = next.pop() {
            for &(step, neighbour) in &self.neighbours[node] {
                if neighbour != start && arrived_by[neighbour].is_none() {
                    arrived_by[neighbour] = Some((step, node));
                    next.push(neighbour);
                }
            }
        }
        let mut path = Vec::new();
        let mut node = end;
        while node != start {
            let (step, before) = arrived_by[node]?;
            path.push((step, node));
            node = before;
        }
        path.reverse();
        Some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(links: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::new();
        for (number, (from, to)) in links.iter().enumerate() {
            assert_eq!(graph.link(from, to), Ok(number));
        }
        graph
    }

    fn route(graph: &Graph, from: &str, to: &str) -> Result<Vec<(usize, bool)>, GraphError> {
        let steps = graph.route(from, to)?;
        Ok(steps
            .into_iter()
            .map(|step| (step.link, step.forward))
            .collect())
    }

    #[test]
    fn routes_follow_links_either_way() {
        let graph = graph(&[("a", "b"), ("c", "b"), ("b", "d"), ("d", "e")]);
        assert_eq!(route(&graph, "a", "b"), Ok(vec![(0, true)]));
        assert_eq!(
            route(&graph, "a", "e"),
            Ok(vec![(0, true), (2, true), (3, true)])
        );
        assert_eq!(
            route(&graph, "e", "c"),
            Ok(vec![(3, false), (2, false), (1, false)])
        );
    }

    #[test]
    fn a_loop_is_named_by_the_nodes_it_leads_through() {
        let mut graph = graph(&[("a", "b"), ("b", "c")]);
        let error = graph.link("c", "a").expect_err("a loop");
        assert_eq!(
            error.to_string(),
            "it closes a loop: c – b – a – c; links must form a tree, so that routes are unique"
        );
        let error = graph.link("b", "a").expect_err("a second link");
        assert!(error.to_string().contains("b – a – b"));
        let error = graph.link("a", "a").expect_err("a link to itself");
        assert_eq!(error.to_string(), "it links \"a\" to itself");
    }

    #[test]
    fn what_has_no_route_is_named() {
        let graph = graph(&[("a", "b"), ("c", "d")]);
        for (from, to, message) in [
            ("a", "d", "no links lead from \"a\" to \"d\""),
            ("a", "a", "it leads from \"a\" to itself"),
            ("a", "x", "no link ends at \"x\"; the nodes are a, b, c, d"),
        ] {
            let error = graph.route(from, to).expect_err(message);
            assert_eq!(error.to_string(), message);
        }
    }
}
