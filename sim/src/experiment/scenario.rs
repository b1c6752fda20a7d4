//! The scenarios of an evaluation: the tables `[[scenario]]`, whose parameters stand for `$name`,
//! and the controllers that are tried in them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::str::FromStr;

use gallop_network::random;
use rand::RngExt;
use serde::Serialize;
use toml::Spanned;
use toml::de::{DeString, DeValue};

use super::axes::{RUN_AXIS, Run, check_id, check_name, entries, quantity, tables};
use super::document::{Document, Located, Values, fill};
use crate::stack::Selection;
use crate::units::{LinkRate, Size, Span, WIRE_OVERHEAD_BYTES};

/// The axis of the scenarios.
pub const SCENARIO_AXIS: &str = "scenario";

/// The table of parameters for scenarios that give none of their own.
const DEFAULTS: &str = "defaults";

/// The table of the ranges from which [`Trial::fresh`] draws.
const FRESH: &str = "fresh";

/// The tables that are read here, in which `$name` stands for the scenario's own parameters.
pub(super) const TABLES: [&str; 3] = [SCENARIO_AXIS, DEFAULTS, FRESH];

/// The unit of a buffer that is given in bandwidth-delay products.
const BDP: &str = "bdp";

/// The datagrams of an experiment that says nothing about them, in bytes of UDP payload.
pub(super) const DATAGRAM_BYTES: usize = 1350;

/// A network, and what happens in it, in which every controller is tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Scenario {
    /// Its name, unique in the experiment.
    pub id: String,
    /// Its name for people.
    pub title: String,
    /// The path in words.
    pub about: String,
    /// The controller that is tried too, so that limits can speak of `reference`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The parameters that are no tables, as texts, by name.
    pub parameters: Vec<(String, String)>,
}

impl Scenario {
    /// A parameter as text.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(own, _)| own == name);
        found.map(|(_, text)| text.as_str())
    }
}

/// The controllers and the parameters with which an experiment of scenarios is run.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The controllers; they are the runs.
    pub controllers: Vec<Run>,
    /// Draws every parameter anew, from the ranges of the table `[fresh]`, by this seed.
    pub fresh: Option<u64>,
}

/// Every controller, with the parameters of the file.
impl Default for Trial {
    fn default() -> Trial {
        let run = |name: &str| Run {
            id: name.to_owned(),
            title: name.to_owned(),
            cc: Some(name.to_owned()),
        };
        Trial {
            controllers: Selection::names().into_iter().map(run).collect(),
            fresh: None,
        }
    }
}

/// A table `[[scenario]]`.
pub(super) struct Row<'t> {
    pub(super) scenario: Scenario,
    /// The values that stand for their names.
    pub(super) values: Values<'t>,
}

/// The factors between which a parameter is drawn anew.
struct Range {
    low: f64,
    high: f64,
}

/// Reads the scenarios of a document, with the defaults for what they leave out.
pub(super) fn rows<'t>(
    document: &Document<'t>,
    trial: &Trial,
    problems: &mut Vec<Located>,
) -> Vec<Row<'t>> {
    let mut reader = match Reader::new(document, trial.fresh) {
        Ok(reader) => reader,
        Err(problem) => {
            problems.push(problem);
            return Vec::new();
        }
    };
    let mut rows = Vec::new();
    for table in tables(document, SCENARIO_AXIS, problems) {
        match reader.row(table) {
            Ok(row) => rows.push(row),
            Err(problem) => problems.push(problem),
        }
    }
    rows
}

struct Reader<'t> {
    defaults: Values<'t>,
    ranges: Vec<(String, Range)>,
    /// The seed of parameters that are drawn anew.
    fresh: Option<u64>,
    datagram_bytes: usize,
    ids: BTreeSet<String>,
}

impl<'t> Reader<'t> {
    fn new(document: &Document<'t>, fresh: Option<u64>) -> Result<Reader<'t>, Located> {
        let mut reader = Reader {
            defaults: Values::new(),
            ranges: Vec::new(),
            fresh,
            datagram_bytes: DATAGRAM_BYTES,
            ids: BTreeSet::new(),
        };
        if let Some(datagram) = document.root().get("datagram") {
            let bytes = document.source(datagram).parse();
            reader.datagram_bytes = bytes.unwrap_or(DATAGRAM_BYTES);
        }
        if let Some(table) = document.root().get(DEFAULTS) {
            for (key, value) in entries(table, DEFAULTS)? {
                named(key)?;
                let name = key.get_ref().to_string();
                reader.defaults.insert(name, value.get_ref().clone());
            }
        }
        if let Some(table) = document.root().get(FRESH) {
            for (key, value) in entries(table, FRESH)? {
                let range = Range::read(document, value)?;
                reader.ranges.push((key.get_ref().to_string(), range));
            }
        }
        Ok(reader)
    }

    fn row(&mut self, table: &Spanned<DeValue<'t>>) -> Result<Row<'t>, Located> {
        let mut values = self.defaults.clone();
        let (mut id, mut title, mut about, mut reference) = (None, None, None, None);
        for (key, value) in entries(table, SCENARIO_AXIS)? {
            let name = key.get_ref().as_ref();
            match name {
                "id" => id = Some(self.id(value)?),
                "title" => title = Some(text(name, value)?.to_owned()),
                "about" => about = Some(text(name, value)?.to_owned()),
                "reference" => {
                    let cc = text(name, value)?;
                    cc.parse::<Selection>()
                        .map_err(|error| wrong(value, error.to_string()))?;
                    reference = Some(cc.to_owned());
                }
                _ => {
                    named(key)?;
                    values.insert(name.to_owned(), value.get_ref().clone());
                }
            }
        }
        let id = id.ok_or_else(|| wrong(table, format!("this [[{SCENARIO_AXIS}]] has no id")))?;
        let drawn = self.draw(&id, &mut values);
        self.in_packets(table, &mut values)?;
        // Parameters may name others.
        let named = values.clone();
        for value in values.values_mut() {
            let mut whole = Spanned::new(table.span(), value.clone());
            fill(&mut whole, &named)?;
            *value = whole.into_inner();
        }
        let parameters = values.iter().filter_map(|(name, value)| {
            let text = match value {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) => number.to_string(),
                DeValue::Float(number) => number.to_string(),
                DeValue::Boolean(switch) => switch.to_string(),
                _ => return None,
            };
            Some((name.clone(), text))
        });
        let scenario = Scenario {
            title: match drawn.is_empty() {
                true => title.unwrap_or_else(|| id.clone()),
                false => drawn.join(", "),
            },
            id,
            about: about.unwrap_or_default(),
            reference,
            parameters: parameters.collect(),
        };
        Ok(Row { scenario, values })
    }

    fn id(&mut self, value: &Spanned<DeValue<'t>>) -> Result<String, Located> {
        let id = text("id", value)?;
        check_id(SCENARIO_AXIS, id, !self.ids.insert(id.to_owned()))
            .map_err(|problem| wrong(value, problem))?;
        // An axis of quantities would have numbers in the results.
        match quantity(id) {
            None => Ok(id.to_owned()),
            Some(_) => Err(wrong(
                value,
                format!("\"{id}\" is a quantity and names no scenario; add a word"),
            )),
        }
    }

    /// Multiplies the parameters that have a range by a factor from it; returns them as texts.
    fn draw(&self, id: &str, values: &mut Values<'t>) -> Vec<String> {
        let mut drawn = Vec::new();
        let Some(seed) = self.fresh else { return drawn };
        for (name, range) in &self.ranges {
            let Some(DeValue::String(text)) = values.get(name) else {
                continue;
            };
            let mut random = random::stream(seed, part(&format!("{id} {name}")));
            let (low, high) = (libm::log(range.low), libm::log(range.high));
            let factor = libm::exp(low + (high - low) * random.random::<f64>());
            if let Some(text) = multiplied(text, factor) {
                drawn.push(format!("{name} {text}"));
                values.insert(name.clone(), DeValue::String(Cow::Owned(text)));
            }
        }
        drawn
    }

    /// Writes buffers that are given in bandwidth-delay products in packets.
    fn in_packets(
        &self,
        table: &Spanned<DeValue<'t>>,
        values: &mut Values<'t>,
    ) -> Result<(), Located> {
        let products: Vec<(String, f64)> = values
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), in_products(value.as_str()?)?)))
            .collect();
        for (name, products) in products {
            let bdp = self.bdp_packets(values).ok_or_else(|| {
                let problem = "needs `rate` and `rtt` beside it";
                wrong(
                    table,
                    format!("`{name}` in bandwidth-delay products {problem}"),
                )
            })?;
            let packets = (products * bdp).round().max(1.0);
            let text = format!("{packets}p");
            values.insert(name, DeValue::String(Cow::Owned(text)));
        }
        Ok(())
    }

    /// The bandwidth-delay product of the parameters `rate` and `rtt`, in full datagrams.
    fn bdp_packets(&self, values: &Values<'t>) -> Option<f64> {
        let rate: LinkRate = parameter(values, "rate")?;
        let rtt: Span = parameter(values, "rtt")?;
        let bits = 8 * (self.datagram_bytes + WIRE_OVERHEAD_BYTES);
        let packets_per_s = match rate {
            LinkRate::Bits(rate) => rate.bps() as f64 / bits as f64,
            LinkRate::Packets(packets) => packets,
        };
        Some(packets_per_s * rtt.duration().as_secs_f64())
    }
}

impl Range {
    fn read(document: &Document<'_>, value: &Spanned<DeValue<'_>>) -> Result<Range, Located> {
        let ends = value.get_ref().as_array();
        let ends = ends.map(|array| array.iter().map(|end| document.source(end).parse().ok()));
        match ends.map(Iterator::collect::<Vec<Option<f64>>>).as_deref() {
            Some(&[Some(low), Some(high)]) if 0.0 < low && low <= high && high.is_finite() => {
                Ok(Range { low, high })
            }
            _ => Err(wrong(
                value,
                "it must be two positive factors, the lower one first, such as [0.5, 2.0]"
                    .to_owned(),
            )),
        }
    }
}

fn wrong(value: &Spanned<DeValue<'_>>, problem: String) -> Located {
    Located {
        at: value.span(),
        problem,
    }
}

fn named(key: &Spanned<DeString<'_>>) -> Result<(), Located> {
    check_name(key.get_ref(), false).map_err(|problem| Located {
        at: key.span(),
        problem,
    })
}

fn text<'v>(name: &str, value: &'v Spanned<DeValue<'_>>) -> Result<&'v str, Located> {
    let text = value.get_ref().as_str();
    text.ok_or_else(|| wrong(value, format!("`{name}` of a scenario must be a text")))
}

fn parameter<T: FromStr>(values: &Values<'_>, name: &str) -> Option<T> {
    values.get(name)?.as_str()?.parse().ok()
}

/// A number of bandwidth-delay products, such as "0.5bdp".
fn in_products(text: &str) -> Option<f64> {
    let products: f64 = text.strip_suffix(BDP)?.trim().parse().ok()?;
    (products > 0.0 && products.is_finite()).then_some(products)
}

/// A quantity times a factor, to three digits; `None` if the text is none.
fn multiplied(text: &str, factor: f64) -> Option<String> {
    let rounded = |value: f64| -> f64 {
        let digits = libm::floor(libm::log10(value)) - 2.0;
        let unit = libm::exp10(digits.max(0.0));
        (value / unit).round() * unit
    };
    if let Some(products) = in_products(text) {
        return Some(format!("{:.3}{BDP}", products * factor));
    }
    if let Ok(span) = text.parse::<Span>() {
        let nanoseconds = rounded(span.duration().as_nanos() as f64 * factor);
        return Some(Span::from_secs_f64(nanoseconds / 1e9).ok()?.to_string());
    }
    if let Ok(rate) = text.parse::<LinkRate>() {
        return Some(match rate {
            LinkRate::Bits(rate) => format!("{}bit", rounded(rate.bps() as f64 * factor)),
            LinkRate::Packets(packets) => format!("{}pps", packets * factor),
        });
    }
    Some(match text.parse::<Size>().ok()? {
        Size::Packets(packets) => {
            let packets = (packets.get() as f64 * factor).round().max(1.0);
            format!("{packets}p")
        }
        Size::Bytes(bytes) => format!("{}b", rounded(bytes.get() as f64 * factor).max(1.0)),
    })
}

/// A number below 2^32 that stands for a text (FNV-1a).
fn part(text: &str) -> u64 {
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash.into()
}

/// The runs: the controllers that are tried, and then the references that are not among them.
pub(super) fn runs(rows: &[Row<'_>], trial: &Trial) -> Vec<Run> {
    let mut runs = trial.controllers.clone();
    for reference in rows
        .iter()
        .filter_map(|row| row.scenario.reference.as_ref())
    {
        if runs.iter().all(|run| run.cc.as_ref() != Some(reference)) {
            runs.push(Run {
                id: reference.replace([':', ',', '=', '/'], "-"),
                title: reference.clone(),
                cc: Some(reference.clone()),
            });
        }
    }
    runs
}

/// The value of a run, for `$run`.
pub(super) fn run_values<'t>(run: &Run) -> Values<'t> {
    let cc = run.cc.clone().unwrap_or_default();
    Values::from([(RUN_AXIS.to_owned(), DeValue::String(Cow::Owned(cc)))])
}
