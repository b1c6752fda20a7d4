//! Names of congestion controllers, as files and flags have them.

use super::document::unknown_name;
use crate::baselines;
use gallop::Algorithm;

/// Controllers that quiche has built in.
pub const BUILT_IN: [&str; 3] = ["reno", "cubic", "bbr2"];

/// All controllers: ours, then those of [`baselines`], then quiche's.
#[must_use]
pub fn names() -> Vec<&'static str> {
    let ours = Algorithm::ALL.iter().map(Algorithm::name);
    ours.chain(baselines::NAMES).chain(BUILT_IN).collect()
}

/// Checks a controller's name, and its options after a colon.
///
/// # Errors
/// Names the controller or the option that there is not.
pub fn check(cc: &str) -> Result<(), String> {
    let (name, options) = cc.split_once(':').unwrap_or((cc, ""));
    if Algorithm::ALL.iter().any(|ours| ours.name() == name) {
        return match cc.parse::<Algorithm>() {
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        };
    }
    if !names().contains(&name) {
        return Err(unknown_name("controller", name, &names()));
    }
    match options.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "the controller `{name}` has no options, but `{options}` was given"
        )),
    }
}
