//! The QUIC stack of a sender, which is part of its controller's name: `vegas` is quiche with a
//! controller of the catalogue, `quinn/vegas` quinn with the same, and `quinn/cubic` quinn with its
//! own. Names that begin with `tcp-` are no QUIC at all: TCP at segment level, for the papers.

use std::fmt;
use std::str::FromStr;

use gallop::catalog::{CATALOG, name_and_options};
use gallop::stack::quiche;
use gallop::{Algorithm, AlgorithmError};
use gallop_stacks::{UnknownController, noq, quinn};

use crate::tcp::{Flavour, NAMES};

/// A QUIC stack that the simulator drives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Stack {
    /// quiche, patched.
    #[default]
    Quiche,
    /// quinn.
    Quinn,
    /// noq, which iroh uses.
    Noq,
    /// TCP at segment level, whose flavours are controllers of their own: no QUIC.
    #[serde(skip)]
    #[value(skip)]
    Tcp,
}

impl Stack {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Stack::Quiche => "quiche",
            Stack::Quinn => "quinn",
            Stack::Noq => "noq",
            Stack::Tcp => "tcp",
        }
    }

    /// The name of a controller in this stack. One that names its stack keeps it.
    #[must_use]
    pub fn controller(self, cc: &str) -> String {
        match self {
            Stack::Quinn | Stack::Noq if !cc.contains('/') && !Flavour::is_named_by(cc) => {
                format!("{}/{cc}", self.as_str())
            }
            _ => cc.to_owned(),
        }
    }

    /// The stack, and the controller's name in it.
    pub(crate) fn of(cc: &str) -> (Stack, &str) {
        if Flavour::is_named_by(cc) {
            return (Stack::Tcp, cc);
        }
        let others = [Stack::Quinn, Stack::Noq];
        let mut found = others.into_iter().filter_map(|stack| {
            let rest = cc.strip_prefix(stack.as_str())?.strip_prefix('/')?;
            Some((stack, rest))
        });
        found.next().unwrap_or((Stack::Quiche, cc))
    }

    /// The controllers of its own, and a line about each.
    fn built_in(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Stack::Quiche => &[],
            Stack::Quinn => &quinn::BUILT_IN,
            Stack::Noq => &noq::BUILT_IN,
            Stack::Tcp => &NAMES,
        }
    }
}

/// A controller and its stack, by name.
#[derive(Clone, Debug)]
pub struct Selection {
    text: String,
    name: String,
    summary: &'static str,
    stack: Stack,
    is_built_in: bool,
    algorithm: Option<Algorithm>,
}

impl Selection {
    /// Every controller in quiche, in the order of `--help`.
    pub fn names() -> Vec<&'static str> {
        quiche::Selection::names()
    }

    /// Every controller in a stack, the catalogue's first.
    pub fn names_in(stack: Stack) -> Vec<String> {
        match stack {
            Stack::Quiche => Selection::names().into_iter().map(str::to_owned).collect(),
            Stack::Quinn | Stack::Noq => {
                let own = stack.built_in().iter().map(|(name, _)| *name);
                let all = CATALOG.iter().map(|entry| entry.name).chain(own);
                all.map(|name| stack.controller(name)).collect()
            }
            Stack::Tcp => NAMES.iter().map(|(name, _)| (*name).to_owned()).collect(),
        }
    }

    /// Every controller with its options, for the `--help` of a program.
    pub fn help() -> String {
        let own = |stack: Stack| {
            let line = |(name, summary): &(&str, &str)| {
                format!("  {:<16} {summary}\n", stack.controller(name))
            };
            stack.built_in().iter().map(line).collect::<String>()
        };
        format!(
            "{}{}{}{}And each of the catalogue in another stack, as in quinn/vegas:alpha=2,beta=4.\n",
            quiche::Selection::help(),
            own(Stack::Quinn),
            own(Stack::Noq),
            own(Stack::Tcp)
        )
    }

    /// The name without options.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One line about the controller.
    pub fn summary(&self) -> &'static str {
        self.summary
    }

    /// The stack.
    pub fn stack(&self) -> Stack {
        self.stack
    }

    /// The algorithm of the catalogue; `None` if the controller is not in it.
    pub fn algorithm(&self) -> Option<&Algorithm> {
        self.algorithm.as_ref()
    }

    /// True if the stack ships the controller.
    pub fn is_built_in(&self) -> bool {
        self.is_built_in
    }
}

impl FromStr for Selection {
    type Err = AlgorithmError;

    fn from_str(text: &str) -> Result<Self, AlgorithmError> {
        let (stack, cc) = Stack::of(text);
        let in_quiche = || -> Result<Selection, AlgorithmError> {
            let selection: quiche::Selection = cc.parse()?;
            Ok(Selection {
                text: text.into(),
                name: selection.name().into(),
                summary: selection.summary(),
                stack,
                is_built_in: selection.is_built_in(),
                algorithm: selection.algorithm().map(|algorithm| (**algorithm).clone()),
            })
        };
        let known = match stack {
            Stack::Quiche => return in_quiche(),
            Stack::Tcp => {
                Flavour::parse(cc)?;
                let name = name_and_options(cc).0;
                let found = NAMES.iter().find(|(known, _)| *known == name);
                return Ok(Selection {
                    text: text.into(),
                    name: name.into(),
                    summary: found.map_or("", |(_, summary)| summary),
                    stack,
                    is_built_in: true,
                    algorithm: None,
                });
            }
            Stack::Quinn => quinn::factory(cc).map(|_| ()),
            Stack::Noq => noq::factory(cc).map(|_| ()),
        };
        match known {
            Err(UnknownController::Catalogue(error)) => return Err(error),
            Err(UnknownController::BuiltIn { name, .. }) => {
                return Err(AlgorithmError::Unknown {
                    name,
                    known: Selection::names(),
                });
            }
            Ok(()) => {}
        }
        let own = stack.built_in().iter().find(|(name, _)| *name == cc);
        let algorithm: Option<Algorithm> = match own {
            Some(_) => None,
            None => Some(cc.parse()?),
        };
        let summary = match (own, &algorithm) {
            (Some((_, summary)), _) => summary,
            (None, Some(algorithm)) => algorithm.summary(),
            (None, None) => "",
        };
        Ok(Selection {
            text: text.into(),
            name: stack.controller(name_and_options(cc).0),
            summary,
            stack,
            is_built_in: own.is_some(),
            algorithm,
        })
    }
}

/// The text that the selection was read from.
impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_the_stack() {
        for (text, name, stack, is_built_in) in [
            ("vegas:alpha=1", "vegas", Stack::Quiche, false),
            ("cubic", "cubic", Stack::Quiche, true),
            ("quinn/vegas:alpha=1", "quinn/vegas", Stack::Quinn, false),
            ("quinn/bbr", "quinn/bbr", Stack::Quinn, true),
            ("noq/bbr3", "noq/bbr3", Stack::Noq, true),
            ("tcp-vegas-1994:alpha=1", "tcp-vegas-1994", Stack::Tcp, true),
        ] {
            let selection: Selection = text.parse().unwrap();
            assert_eq!((selection.name(), selection.stack()), (name, stack));
            assert_eq!(selection.is_built_in(), is_built_in, "{text}");
            assert_eq!(selection.algorithm().is_none(), is_built_in, "{text}");
            assert!(!selection.summary().is_empty());
        }
        assert_eq!(Stack::Noq.controller("vegas"), "noq/vegas");
        assert_eq!(Stack::Noq.controller("quinn/vegas"), "quinn/vegas");
        assert_eq!(Stack::Quiche.controller("vegas"), "vegas");
    }

    #[test]
    fn errors_know_the_stacks_own_controllers() {
        let error = "quinn/bbr3".parse::<Selection>().unwrap_err().to_string();
        assert!(error.starts_with("unknown congestion controller `bbr3`: did you mean `bbr`?"));
        let error = "tquic/vegas".parse::<Selection>().unwrap_err().to_string();
        assert!(
            error.starts_with("unknown congestion controller `tquic/vegas`"),
            "{error}"
        );
        "noq/vegas:alpha=x".parse::<Selection>().unwrap_err();
    }
}
