//! What nobody measured is a gap everywhere, and a number is one that was measured: for programs that end before anybody looks, for flow's
//! own steps, and for epochs of which only the whole is known.

use std::fs;

use serde_json::Value;

use crate::space;

const COLUMNS: &str = "[loss, wall, cpu_time, cpu_util, cpu_util_peak, cpu_cores, memory, gpu_memory, gpu_load, gpu_load_above_90, \
                       energy, foreign_cpu, cpu_saturated, gpu_shared, sampler_cpu, gpus]";

/// Fields that are 0 though nobody measured them. A disk that nothing was written to was measured.
fn zeros(of: &Value, at: &str, found: &mut Vec<String>) {
    match of {
        Value::Object(fields) => {
            let measured = |name: &str| name.ends_with("disk_read") || name.ends_with("disk_written");
            fields.iter().filter(|(name, _)| !measured(name)).for_each(|(name, of)| zeros(of, name, found));
        }
        Value::Array(items) => items.iter().for_each(|of| zeros(of, at, found)),
        Value::Number(number) if number.as_f64() == Some(0.0) => found.push(at.to_owned()),
        _ => {}
    }
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The cells of all tables in a text, by row.
fn cells(text: &str) -> Vec<Vec<&str>> {
    let rows = text.lines().filter(|line| line.starts_with('|') && !line.starts_with("|-"));
    rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

#[test]
fn a_step_that_nobody_could_look_at_and_flows_own_have_no_number_that_was_not_measured() {
    let space = space();
    let workflow = format!(
        "flow: 1
name: u
steps:
  tiny: {{matrix: {{n: [1, 2]}}, run: 'echo loss 0.5', metrics: {{stdout: 'loss {{loss}}'}}}}
  bare: {{run: 'true'}}
  ep: {{run: \"sleep 0.2; for e in 1 2 3; do echo epoch $e loss 0.$e; sleep 0.02; done\", metrics: {{stdout: 'epoch {{epoch}} loss {{loss}}'}}}}
  seen: {{run: \"echo '${{{{ {{'usage': steps.bare.usage, 'circumstances': steps.bare.circumstances}} | tojson }}}}'\"}}
  first: {{run: \"echo ${{{{ steps.tiny | selectattr('usage.rss_peak', 'defined') | list | length }}}}\"}}
  t: {{uses: flow/table, with: {{from: tiny, rows: n, columns: {COLUMNS}}}}}
  best: {{uses: flow/best, with: {{table: t, column: loss, goal: min}}}}
  own: {{uses: flow/table, with: {{from: best, columns: [wall, cpu_time, cpu_util, cpu_cores, memory, disk_read, disk_written, cpus]}}}}
  te: {{uses: flow/table, with: {{from: ep, rows: epoch, columns: {COLUMNS}}}}}
  r: {{uses: flow/report, with: {{languages: [en], sections: [{{table: t}}, {{table: own}}, {{table: te}}]}}}}
"
    );
    space.write("u.yaml", &workflow);
    space.flow(["run", "u.yaml"]).expect(0);
    let shown = |step: &str, how: &str| space.flow(["show", step, how]).expect(0).stdout();
    let kept = lines(&shown("bare", "--json")).remove(0);
    assert!(kept["usage"]["cpu_s"].as_f64() > Some(0.0) && kept["usage"]["wall_s"].as_f64() > Some(0.0), "{kept}");
    let is_seen = |step: &&str| lines(&shown(step, "--json")).iter().any(|of| of["usage"].get("samples").is_some());
    if ["tiny", "bare", "ep"].iter().any(is_seen) {
        return; // The machine was so slow that somebody could look, and a share of 0 may have been measured.
    }

    let mut found = Vec::new();
    for step in ["tiny", "bare", "ep", "best", "t", "r"] {
        for result in lines(&shown(step, "--json")) {
            zeros(&result["usage"], step, &mut found);
            zeros(&result["circumstances"], step, &mut found);
        }
    }
    assert_eq!(found, [""; 0], "show --json");
    for row in lines(&space.flow(["results", "--json"]).expect(0).stdout()) {
        let usage = row.as_object().unwrap().iter().filter(|(name, _)| name.starts_with("usage."));
        usage.for_each(|(name, value)| zeros(value, name, &mut found));
        let own = ["t", "best", "own", "te", "r"].contains(&row["step"].as_str().unwrap());
        assert_eq!(row["usage.cpu_s"].is_null(), own, "{row}");
    }
    assert_eq!(found, [""; 0], "results --json");
    let seen = space.flow(["logs", "seen"]).expect(0).stdout();
    zeros(&serde_json::from_str(seen.trim()).unwrap(), "", &mut found);
    assert_eq!(found, [""; 0], "expressions: {seen}");
    let details = shown("bare", "-v");
    assert!(details.contains("cores") && !details.contains("peak") && !details.contains("measuring"), "{details}");

    let report = space.flow(["report", "--print"]).expect(0).stdout();
    for text in [&shown("t", "-v"), &shown("own", "-v"), &shown("te", "-v"), &report] {
        let zero = |cell: &&&str| cell.trim_end_matches(" %").trim_end_matches('%').parse::<f64>() == Ok(0.0);
        let wrong: Vec<_> = cells(text).into_iter().filter(|row| row.iter().any(|cell| zero(&cell))).collect();
        assert!(wrong.is_empty(), "{wrong:?}\n{text}");
    }
    let own = shown("own", "-v");
    assert!(
        own.contains("| CPU time |") && own.contains("| Read from disk |"),
        "a column without a number has no unit: {own}"
    );
}

#[test]
fn what_a_step_wrote_in_its_last_moment_is_in_its_result_and_not_in_each_epoch() {
    let space = space();
    let script = "import os
for epoch in range(2):
    with open(f'{epoch}.bin', 'wb') as file:
        file.write(os.urandom(6 << 20)); file.flush(); os.fsync(file.fileno())
    print('epoch', epoch, 'loss', 0.1, flush=True)
";
    let workflow = "flow: 1
name: w
steps:
  ep: {run: python3 write.py, inputs: [write.py], metrics: {stdout: 'epoch {epoch} loss {loss}'}}
  t: {uses: flow/table, with: {from: ep, rows: epoch, columns: [loss, cpu_time, disk_read, disk_written, foreign_cpu, cpu_saturated, sampler_cpu]}}
";
    space.write("write.py", script).write("w.yaml", workflow);
    space.flow(["run", "w.yaml"]).expect(0);
    let shown = space.flow(["show", "ep", "--json"]).expect(0).stdout();
    let result: Value = serde_json::from_str(shown.trim()).unwrap();
    let counts = fs::exists("/proc/self/io").unwrap();
    assert_eq!(result["usage"]["disk_written"].is_u64(), counts, "{result}");
    let table = space.flow(["show", "t"]).expect(0).stdout();
    let rows = cells(&table);
    assert_eq!(rows.len(), 3, "{table}");
    assert!(rows[1..].iter().all(|row| row[2..].iter().all(|cell| *cell == "—")), "{table}");
}
