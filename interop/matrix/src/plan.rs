//! The cells of a run.

use crate::case::{Case, Check};
use crate::cell::Cell;
use crate::endpoint::{Endpoint, Peer, Role};

/// The controller of our client in cases that take long.
pub const DEFAULT_CONTROLLER: &str = "canter";

/// The selection of a run.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The peers.
    pub peers: Vec<&'a Peer>,
    /// The cases.
    pub cases: Vec<&'static Case>,
    /// Our controllers.
    pub controllers: Vec<String>,
    /// Our roles; in both we also meet ourselves.
    pub roles: Vec<Role>,
    /// The repetitions of measurements, if they differ from the runner's.
    pub repetitions: Option<usize>,
}

impl Plan<'_> {
    /// All cells, with those that take longest first. Repetitions of measurements alternate, so
    /// that other work on the machine affects all controllers alike.
    ///
    /// As the server we run each case with each controller. As the client our controller matters
    /// only in uploads, so cases that take long are run with one.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for case in &self.cases {
            let is_upload = case.check == Check::Upload;
            for controller in &self.controllers {
                let ours = Endpoint::Gallop(controller.clone());
                let is_default = controller == self.default_controller();
                if self.roles.contains(&Role::Server) && !is_upload {
                    for peer in self.peers_as(Role::Client) {
                        self.add(&mut cells, &ours, &peer, case);
                    }
                    // Ourselves, with the same controller at both ends.
                    self.add(&mut cells, &ours, &ours, case);
                }
                let is_wanted = is_upload || is_default || expected_s(case) < 10;
                if self.roles.contains(&Role::Client) && is_wanted && !case.is_measurement() {
                    for peer in self.peers_as(Role::Server) {
                        self.add(&mut cells, &peer, &ours, case);
                    }
                    if is_upload {
                        self.add(&mut cells, &ours, &ours, case);
                    }
                }
            }
        }
        cells.sort_by_key(|cell| (std::cmp::Reverse(expected_s(cell.case)), cell.repetition));
        cells
    }

    /// The controller of our client in cases that take long.
    fn default_controller(&self) -> &str {
        let has_default = self
            .controllers
            .iter()
            .any(|name| name == DEFAULT_CONTROLLER);
        match self.controllers.first() {
            Some(first) if !has_default => first,
            _ => DEFAULT_CONTROLLER,
        }
    }

    fn peers_as(&self, role: Role) -> Vec<Endpoint> {
        self.peers
            .iter()
            .filter(|peer| peer.roles.contains(&role))
            .map(|peer| Endpoint::Peer(peer.name.clone()))
            .collect()
    }

    fn add(
        &self,
        cells: &mut Vec<Cell>,
        server: &Endpoint,
        client: &Endpoint,
        case: &'static Case,
    ) {
        let repetitions = match case.repetitions {
            None => 1,
            Some(usual) => self.repetitions.unwrap_or(usual),
        };
        cells.extend((0..repetitions).map(|repetition| Cell {
            server: server.clone(),
            client: client.clone(),
            case,
            repetition,
        }));
    }
}

/// Seconds that a cell takes, roughly: bytes at 1 MB/s, and what the path adds.
fn expected_s(case: &Case) -> u64 {
    let transfer = case.total_bytes() as u64 / 1_000_000;
    match (case.timeout_s, case.has_cross_traffic) {
        (_, true) => 3 * transfer,
        (300, _) => 100,
        _ => transfer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(name: &str, roles: &[Role]) -> Peer {
        Peer {
            name: name.to_owned(),
            folder: Default::default(),
            url: String::new(),
            version: String::new(),
            roles: roles.to_vec(),
            needs: Vec::new(),
            fast: false,
            unsupported: Vec::new(),
            known: Vec::new(),
        }
    }

    fn cells(case: &str, roles: &[Role]) -> Vec<String> {
        let peers = [
            peer("both", &[Role::Server, Role::Client]),
            peer("browser", &[Role::Client]),
        ];
        let plan = Plan {
            peers: peers.iter().collect(),
            cases: vec![Case::named(case).unwrap()],
            controllers: vec!["reno".to_owned(), "canter".to_owned()],
            roles: roles.to_vec(),
            repetitions: None,
        };
        let cells = plan.cells();
        cells
            .iter()
            .map(|cell| format!("{} {}", cell.server, cell.client))
            .collect()
    }

    #[test]
    fn each_controller_serves_each_client() {
        assert_eq!(
            cells("transfer", &[Role::Server]),
            [
                "gallop:reno both",
                "gallop:reno browser",
                "gallop:reno gallop:reno",
                "gallop:canter both",
                "gallop:canter browser",
                "gallop:canter gallop:canter",
            ]
        );
    }

    #[test]
    fn one_controller_is_enough_for_long_downloads() {
        assert_eq!(cells("blackhole", &[Role::Client]), ["both gallop:canter"]);
        assert_eq!(
            cells("retry", &[Role::Client]),
            ["both gallop:reno", "both gallop:canter"]
        );
    }

    #[test]
    fn uploads_are_the_clients() {
        assert_eq!(
            cells("upload", &[Role::Server, Role::Client]),
            [
                "both gallop:reno",
                "gallop:reno gallop:reno",
                "both gallop:canter",
                "gallop:canter gallop:canter",
            ]
        );
    }
}
