//! The party at fault for a failure, as far as the other cells tell.

use crate::cell::Cell;
use crate::endpoint::{Endpoint, Role};
use crate::outcome::{Outcome, Verdict};
use crate::programs::Programs;

/// The party at fault for a failed cell, with the evidence.
pub fn fault(
    cell: &Cell,
    outcome: &Outcome,
    all: &[(Cell, Outcome)],
    programs: &Programs,
) -> String {
    let (peer, role) = match (&cell.server, &cell.client) {
        (Endpoint::Peer(name), _) => (name, Role::Server),
        (_, Endpoint::Peer(name)) => (name, Role::Client),
        _ => return "ours: both ends are".to_owned(),
    };
    let known = programs
        .peers
        .get(peer)
        .and_then(|peer| peer.known(role, cell.case.name));
    if let Some(known) = known {
        return format!("{}: {}", known.fault, known.why);
    }
    if let Some(suspect) = outcome.suspect {
        let who = match suspect == role {
            true => peer.as_str(),
            false => "ours",
        };
        return format!("{who}: it ended");
    }
    let same = |other: &Cell| other.case.name == cell.case.name;
    let with_ourselves = all
        .iter()
        .find(|(other, _)| same(other) && other.server.is_ours() && other.client.is_ours());
    if let Some((_, outcome)) = with_ourselves
        && outcome.result == Verdict::Failed
    {
        return "ours: it fails with ourselves too".to_owned();
    }
    // Others in the place of this peer.
    let others: Vec<&Outcome> = all
        .iter()
        .filter(|(other, _)| {
            let other_peer = match role {
                Role::Server => &other.server,
                Role::Client => &other.client,
            };
            same(other) && matches!(other_peer, Endpoint::Peer(name) if name != peer)
        })
        .map(|(_, outcome)| outcome)
        .filter(|outcome| outcome.result != Verdict::Unsupported)
        .collect();
    let passed = others
        .iter()
        .filter(|outcome| outcome.result == Verdict::Succeeded)
        .count();
    match (passed, others.len()) {
        (_, 0) => "unknown: no other implementation runs it".to_owned(),
        (0, all) => format!("ours, likely: it fails with all {all} others"),
        (passed, all) => {
            format!("{peer}, likely: it succeeds in {passed} of {all} cells with others")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::case::Case;

    fn cell(server: Endpoint, client: Endpoint, result: Verdict) -> (Cell, Outcome) {
        let case = Case::named("transfer").unwrap();
        let cell = Cell {
            server,
            client,
            case,
            repetition: 0,
        };
        let outcome = Outcome {
            result,
            reason: String::new(),
            suspect: None,
            seconds: 1.0,
            kbps: None,
            tcp_kbps: None,
            lateness_s: None,
        };
        (cell, outcome)
    }

    #[test]
    fn the_other_cells_are_the_evidence() {
        let ours = || Endpoint::Gallop("vegas".to_owned());
        let peer = |name: &str| Endpoint::Peer(name.to_owned());
        let programs = Programs {
            interop: Default::default(),
            ours: Default::default(),
            built: Default::default(),
            peers_controller: None,
            peers: BTreeMap::new(),
        };
        let said = |all: &[(Cell, Outcome)]| fault(&all[0].0, &all[0].1, all, &programs);
        let failed = cell(ours(), peer("a"), Verdict::Failed);
        let others = |result| vec![failed.clone(), cell(ours(), peer("b"), result)];
        assert!(said(&others(Verdict::Succeeded)).starts_with("a, likely"));
        assert!(said(&others(Verdict::Failed)).starts_with("ours, likely"));
        assert!(said(&others(Verdict::Unsupported)).starts_with("unknown"));
        let mut all = others(Verdict::Succeeded);
        all.push(cell(ours(), ours(), Verdict::Failed));
        assert!(said(&all).starts_with("ours: it fails with ourselves"));
        let mut all = others(Verdict::Succeeded);
        all[0].1.suspect = Some(Role::Client);
        assert_eq!(said(&all), "a: it ended");
    }
}
