//! A run as a file for import on another machine. A reader trusts nothing in it.
//!
//! Format 4 is gzip of lines of JSON: a head, the parts of the run ([`BundledRun`]), and the digest of all that. `zcat` shows what a
//! bundle says.

mod bundled_run;
mod thin;

use std::io::{Read, Write};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Digest, Machine, RunId, StepResult};

pub use bundled_run::{BundledRun, CarriedObject, hidden};
pub use thin::{MOST_POINTS, thin};

/// The format version that is written.
const FORMAT: u64 = 4;
/// Maximum size of a file, packed and unpacked.
pub const LONGEST_BUNDLE: u64 = 256 << 20;
/// Maximum length of a line; stored results and tables are far shorter.
const LONGEST_LINE: usize = 16 << 20;
/// Maximum length of a machine's name, in bytes.
const LONGEST_NAME: usize = 64;
/// The start of every bundle's text.
const HEAD: &[u8] = b"{\"flow_bundle\":";
const NO_BUNDLE: &str = "it is not a bundle; `flow export RUN --bundle FILE` writes one";
/// The magic number of gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The origin of a bundle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    pub host: String,
    /// Its hardware; GPUs without their serial numbers.
    pub machine: Machine,
    /// The version of flow there.
    pub flow: String,
    pub run: RunId,
    /// When the run began, milliseconds since 1970.
    pub began: u64,
    pub workflow: String,
}

/// A result of another machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Foreign {
    pub host: String,
    pub result: StepResult,
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    pub origin: Origin,
    /// The results of the run, without references to its store.
    pub results: Vec<StepResult>,
    /// The whole run.
    pub run: BundledRun,
    /// Identifies the bundle.
    pub digest: Digest,
}

#[derive(Serialize, Deserialize)]
struct Head {
    flow_bundle: u64,
    origin: Origin,
    /// How many lines follow, without the last one.
    lines: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trailer {
    digest: Digest,
}

impl Bundle {
    /// The public part of a run.
    pub fn of(mut origin: Origin, run: BundledRun) -> Bundle {
        origin.machine.gpus.iter_mut().for_each(|gpu| gpu.uuid.clear());
        origin.machine.gpu_troubles.clear();
        let results = run.results(&origin.run);
        let mut bundle = Bundle { origin, results, run, digest: Digest([0; 32]) };
        bundle.digest = Digest::of(&bundle.content());
        bundle
    }

    /// Gives its machine another name.
    ///
    /// # Errors
    /// A sentence: this cannot be a machine's name.
    pub fn rename(&mut self, host: String) -> Result<(), String> {
        self.origin.host = host;
        check_origin(&self.origin)
    }

    /// Content of the file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut text = self.content();
        line(&mut text, &Trailer { digest: self.digest });
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        // Writing into memory cannot fail.
        let packed = packed.write_all(&text).and_then(|()| packed.finish());
        packed.unwrap_or_default()
    }

    fn content(&self) -> Vec<u8> {
        let mut lines = Vec::new();
        let count = self.run.write(&mut lines);
        let mut bytes = Vec::new();
        line(&mut bytes, &Head { flow_bundle: FORMAT, origin: self.origin.clone(), lines: count });
        bytes.extend(lines);
        bytes
    }

    /// Whether a file starts like a bundle of any format.
    pub fn is_one(beginning: &[u8]) -> bool {
        let mut first = [0; HEAD.len()];
        beginning.starts_with(HEAD) || GzDecoder::new(beginning).read_exact(&mut first).is_ok() && first == HEAD
    }

    /// Reads a file.
    ///
    /// # Errors
    /// A sentence: it is something else, is incomplete, or contains impossible values.
    pub fn read(bytes: &[u8]) -> Result<Bundle, String> {
        if !bytes.starts_with(&GZIP) {
            return Bundle::read_text(bytes);
        }
        let mut text = Vec::new();
        let unpacked = GzDecoder::new(bytes).take(LONGEST_BUNDLE + 1).read_to_end(&mut text);
        if text.len() as u64 > LONGEST_BUNDLE {
            return Err(format!("unpacked it is longer than {} MiB", LONGEST_BUNDLE >> 20));
        }
        match unpacked {
            Ok(_) => Bundle::read_text(&text),
            // The text decides first: it may have another format, or be no bundle.
            Err(_) if text.starts_with(HEAD) || bytes.len() < 64 => {
                Err("it is incomplete or was changed; copy it again".to_owned())
            }
            Err(_) => Err(NO_BUNDLE.to_owned()),
        }
    }

    fn read_text(bytes: &[u8]) -> Result<Bundle, String> {
        let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let first = lines.next().unwrap_or_default();
        let head: Option<Value> = Some(first)
            .filter(|first| first.len() <= LONGEST_LINE)
            .and_then(|first| serde_json::from_slice(first).ok());
        let head = head.unwrap_or_default();
        match head.get("flow_bundle").and_then(Value::as_u64) {
            Some(FORMAT) => {}
            Some(format) => {
                return Err(format!(
                    "it has format {format}, and this flow reads format {FORMAT}: use the flow that wrote it, or let flow {} \
                     write it",
                    env!("CARGO_PKG_VERSION")
                ));
            }
            None => return Err(NO_BUNDLE.to_owned()),
        }
        let Head { origin, lines: count, .. } =
            serde_json::from_value(head).map_err(|e| format!("line 1 cannot be read: {e}"))?;
        let rest: Vec<&[u8]> = lines.collect();
        let torn = |found: usize| {
            format!("it is incomplete: {} of {count} lines are there, without an end; copy it again", found.min(count))
        };
        let Some((end, lines)) = rest.split_last() else { return Err(torn(0)) };
        let Ok(Trailer { digest }) = serde_json::from_slice::<Trailer>(end) else { return Err(torn(lines.len())) };
        if digest != Digest::of(&bytes[..bytes.len() - end.len()]) {
            return Err("it was changed: its digest does not match; copy it again".to_owned());
        }
        if lines.len() != count {
            return Err(format!("its header says {count} lines, but it has {}", lines.len()));
        }
        check_origin(&origin)?;
        let wrong = |n: usize, why: String| format!("line {}: {why}", n + 2);
        if let Some(long) = lines.iter().position(|line| line.len() > LONGEST_LINE) {
            return Err(wrong(long, format!("it is longer than {} MiB", LONGEST_LINE >> 20)));
        }
        let mut run = BundledRun::default();
        for (n, line) in lines.iter().enumerate() {
            run.read(line).map_err(|why| wrong(n, why))?;
        }
        run.check(&origin.run)?;
        let results = run.results(&origin.run);
        Ok(Bundle { origin, results, run, digest })
    }
}

fn line(bytes: &mut Vec<u8>, of: &impl Serialize) {
    // These are our own types with string keys, which JSON can always represent.
    bytes.extend(serde_json::to_vec(of).unwrap_or_default());
    bytes.push(b'\n');
}

/// A result without its store: numbers, parameters, circumstances, and the digests for comparing its program and input
/// files with local ones.
fn apart(mut result: StepResult) -> StepResult {
    result.circumstances.gpus.clear();
    result.circumstances.environment = None;
    result.usage.gpus.iter_mut().for_each(|gpu| gpu.uuid.clear());
    result.outputs.clear();
    result.paths.clear();
    result.series = None;
    if let Some(node) = result.circumstances.facts.get_mut("node") {
        *node = format!("node-{}", &Digest::of(format!("flow node {node}").as_bytes()).to_string()[..4]);
    }
    if let Some(kept) = &mut result.kept {
        (kept.record, kept.log, kept.cut) = (None, None, 0);
        kept.files.clear();
        kept.absent.clear();
    }
    result
}

fn check_origin(origin: &Origin) -> Result<(), String> {
    let name = &origin.host;
    // Tables call one's own machine `here`.
    let odd = name.trim().is_empty()
        || name == "here"
        || name.len() > LONGEST_NAME
        || name.contains(|c: char| c.is_whitespace() || crate::is_hidden(c));
    if odd {
        return Err(format!("`{}` is not a valid machine name", crate::visible(name)));
    }
    Ok(())
}

/// Rejects impossible results.
fn check_numbers(result: &StepResult) -> Result<(), String> {
    let usage = &result.usage;
    let measured = [usage.wall_s, usage.cpu_s, usage.cpu_cores, usage.energy_j].into_iter().flatten();
    match measured.into_iter().find(|value| !value.is_finite() || *value < 0.0) {
        Some(value) => Err(format!("`{}` cannot have used {value}", result.label)),
        None => Ok(()),
    }
}

/// A machine's name in tables and predictions: the hardware of its results, and for another machine also its name.
pub fn machine_of(result: &StepResult, host: Option<&str>) -> String {
    let seen = &result.circumstances;
    let what = match (seen.gpu_models.first(), seen.host_cpus) {
        (Some(model), _) => model.clone(),
        (None, 0) => "—".to_owned(),
        (None, 1) => format!("1 CPU {}", seen.cpu_model),
        (None, cpus) => format!("{cpus} CPUs {}", seen.cpu_model),
    };
    match host {
        Some(host) => format!("{what} ({host})"),
        None => what,
    }
}

#[cfg(test)]
mod tests;
