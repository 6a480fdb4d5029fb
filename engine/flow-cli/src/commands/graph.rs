//! `flow graph`.

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use flow_core::Expansion;
use indexmap::IndexMap;

use super::Done;
use crate::args::{Global, Selection, WorkflowArg};
use crate::output::Output;
use crate::place;

/// Arguments of `flow graph`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow graph workflows/feb08.yaml
  flow graph workflows/feb08.yaml --format dot | dot -Tsvg > feb08.svg
  flow graph workflows/feb08.yaml --format mermaid     for a README")]
pub(crate) struct Graph {
    #[command(flatten)]
    about: WorkflowArg,
    #[command(flatten)]
    selection: Selection,
    /// How to draw
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Format {
    /// One line per step, in a possible order of execution.
    #[default]
    Text,
    /// For Graphviz.
    Dot,
    /// For Markdown.
    Mermaid,
}

/// Steps in a possible order of execution: name, number of instances, and the steps that each
/// needs.
type Steps<'a> = Vec<(&'a str, usize, Vec<&'a str>)>;

impl Graph {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> Done {
        let request = place::session(global, &self.about, &self.selection, output)?;
        let session = place::open(&request, output)?;
        let steps = steps(&session.expansion);
        let text = match self.format {
            Format::Text => text(&steps),
            Format::Dot => dot(&session.expansion.workflow, &steps),
            Format::Mermaid => mermaid(&steps),
        };
        output.text(text)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn steps(expansion: &Expansion) -> Steps<'_> {
    // Instances are in topological order, so the first instances of their steps are too.
    let mut needs: IndexMap<usize, BTreeSet<usize>> = IndexMap::new();
    for instance in &expansion.instances {
        let on = instance.needs.iter().map(|need| expansion.instances[need.on.index()].step.index());
        needs.entry(instance.step.index()).or_default().extend(on);
    }
    let name = |step: usize| &*expansion.steps[step].name;
    let row = |(step, on): (usize, BTreeSet<usize>)| {
        (name(step), expansion.steps[step].ids().count(), on.into_iter().map(name).collect())
    };
    needs.into_iter().map(row).collect()
}

fn named(name: &str, count: usize) -> String {
    if count == 1 { name.to_owned() } else { format!("{name} × {count}") }
}

fn text(steps: &Steps<'_>) -> String {
    let rows: Vec<Vec<String>> = steps
        .iter()
        .map(|(name, count, needs)| {
            let mut row = vec![named(name, *count)];
            if !needs.is_empty() {
                row.push(format!("after {}", needs.join(", ")));
            }
            row
        })
        .collect();
    crate::words::columns(&rows).join("\n")
}

// Step names are [a-z][a-z0-9_]*, so no quotes are needed in either language.
fn dot(workflow: &str, steps: &Steps<'_>) -> String {
    let mut out = format!(
        "digraph \"{}\" {{\n  rankdir=LR;\n  node [shape=box];\n",
        workflow.replace('\\', "\\\\").replace('"', "'")
    );
    for (name, count, needs) in steps {
        out.push_str(&format!("  {name} [label=\"{}\"];\n", named(name, *count)));
        for need in needs {
            out.push_str(&format!("  {need} -> {name};\n"));
        }
    }
    out + "}"
}

fn mermaid(steps: &Steps<'_>) -> String {
    let mut out = "flowchart LR".to_owned();
    for (name, count, needs) in steps {
        // `end` and others are keywords: a prefix keeps ids different from them.
        out.push_str(&format!("\n  s_{name}[\"{}\"]", named(name, *count)));
        for need in needs {
            out.push_str(&format!("\n  s_{need} --> s_{name}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_languages() {
        let steps: Steps<'_> =
            vec![("source", 1, vec![]), ("dataset", 2, vec!["source"]), ("end", 6, vec!["source", "dataset"])];
        assert_eq!(text(&steps), "source\ndataset × 2  after source\nend × 6      after source, dataset");
        assert_eq!(
            dot("w", &steps[..2].to_vec()),
            "digraph \"w\" {\n  rankdir=LR;\n  node [shape=box];\n  source [label=\"source\"];\n  dataset [label=\"dataset × 2\"];\n  source -> dataset;\n}"
        );
        assert!(mermaid(&steps).ends_with("s_end[\"end × 6\"]\n  s_source --> s_end\n  s_dataset --> s_end"));
    }
}
