//! Outputs of a step in the work folder of another one: their names, their places, and links in them.

use std::fs;

use crate::space;

#[test]
fn an_output_has_its_own_name_in_the_step_that_reads_it() {
    let space = space();
    let workflow = |name: &str| {
        format!(
            r#"
flow: 1
name: names
steps:
  z: {{run: "echo hi > log.txt; gzip -nc log.txt > {name}", outputs: [{name}]}}
  plain: {{run: "gunzip -k ${{{{ steps.z.out }}}}; ls in/z"}}
  count: {{matrix: {{book: [abyss, last days]}}, run: "mkdir -p out; echo ${{{{ book | sh }}}} > out/book.dat", outputs: [out/book.dat]}}
  all: {{run: "for f in ${{{{ steps.count | map(attribute='out') | join(' ') }}}}; do ls $f; done"}}
  pair: {{run: "echo bin > train.bin; echo pkl > train.pkl", outputs: [train.bin, train.pkl]}}
  both: {{run: "cat ${{{{ steps.pair.outputs.train_bin }}}} ${{{{ steps.pair.outputs.train_pkl }}}}"}}
"#
        )
    };
    space.write("w.yaml", &workflow("log.txt.gz"));
    space.flow(["run", "w.yaml"]).expect(0);
    let said = |step: &str| space.flow(["logs", step]).expect(0).stdout();
    assert!(said("plain").ends_with("log.txt\nlog.txt.gz\n"), "{}", said("plain"));
    let all = said("all");
    assert!(all.contains("in/count/book=abyss/out/book.dat\nin/count/book=%22last%20days%22/out/book.dat\n"), "{all}");
    assert!(said("both").ends_with("bin\npkl\n"), "{}", said("both"));
    // The same content under another name is another output for a program.
    space.write("w.yaml", &workflow("other.txt.gz"));
    let ran = space.flow(["run", "w.yaml"]).expect(0).stdout();
    assert_eq!(space.ran(), ["z", "plain"], "{ran}");
    assert!(ran.contains("it now reads the output `z/other.txt.gz`"), "{ran}");
}

#[test]
fn an_output_is_put_where_the_script_looks_for_it() {
    let space = space();
    let workflow = r#"
flow: 1
name: places
steps:
  prepare:
    run: mkdir -p data/char/meta && echo train > data/char/train.bin && echo meta > data/char/meta/a.txt
    outputs: {bin: data/char/train.bin, meta: data/char/meta}
  train:
    run: cat data/char/train.bin data/char/meta/a.txt; ls; echo loss 1
    inputs:
      script: train.py
      data/char/train.bin: "${{ steps.prepare.outputs.bin }}"
      data/char/meta: "${{ steps.prepare.outputs.meta }}"
    metrics: {stdout: "loss {loss}"}
"#;
    space.write("w.yaml", workflow).write("train.py", "");
    space.flow(["run", "w.yaml"]).expect(0);
    let said = space.flow(["logs", "train"]).expect(0).stdout();
    assert!(said.ends_with("train\nmeta\ndata\ntrain.py\nloss 1\n"), "{said}");
    let again = space.flow(["run", "w.yaml"]).expect(0).stdout();
    assert!(again.contains("2 cached") || again.contains("nothing to do"), "{again}");
    space.write("w.yaml", &workflow.replace("echo meta >", "echo more >"));
    let ran = space.flow(["run", "w.yaml"]).expect(0).stdout();
    assert_eq!(space.ran(), ["prepare", "train"]);
    assert!(ran.contains("the output at `data/char/meta` changed"), "{ran}");
    // Another place is another input.
    space.write(
        "w.yaml",
        &workflow.replace("echo meta >", "echo more >").replace("      data/char/meta:", "      char:"),
    );
    space.flow(["run", "w.yaml"]).expect(1);
    assert_eq!(space.ran(), ["train!"]);
}

#[test]
fn a_link_in_an_output_is_kept_if_it_leads_into_the_output_or_to_an_input() {
    let space = space();
    let workflow = r#"
flow: 1
name: links
steps:
  latest:
    run: |
      mkdir out && echo three > out/3.ckpt
      ln -s $PWD/out/3.ckpt out/last.ckpt
      ln -s $PWD/data/x.csv out/x.csv
      ln -s $(realpath data) out/data
      ln -s ../train.py out/train.py
    inputs: [data, train.py]
    outputs: [out]
  read: {run: "cat ${{ steps.latest.out }}/*.* ${{ steps.latest.out }}/data/x.csv"}
  away: {run: "mkdir out; ln -s /etc/passwd out/users", outputs: [out]}
"#;
    space.write("w.yaml", workflow).write("train.py", "code\n").write("data/x.csv", "x\n");
    let away = space.flow(["run", "w.yaml", "-k"]).expect(1).stdout();
    assert!(away.contains("`/etc/passwd`, which is neither in the output nor an input: copy the file"), "{away}");
    let said = space.flow(["logs", "read"]).expect(0).stdout();
    assert!(said.ends_with("three\nthree\ncode\nx\nx\n"), "{said}");
    space.flow(["get", "latest", "--to", "kept"]).expect(0);
    assert_eq!(fs::read_link(space.path("kept/last.ckpt")).unwrap().to_str(), Some("3.ckpt"));
}

#[test]
fn the_work_folder_of_a_step_that_failed_is_named_and_opened() {
    let mut space = space();
    space.env("PYTHONPATH", &space.path("lib").display().to_string()).write("lib/a.py", "");
    let env = "env | sort | grep -vE '^(_|SHLVL|PWD|OLDPWD)='";
    let bad = format!("{env} > env.txt; echo half > half.txt; exit 3");
    let steps =
        format!("  bad: {{run: {bad:?}, inputs: [lib], env: {{SCALE: 7}}, cpus: 2}}\n  good: {{run: 'true'}}\n");
    space.write("w.yaml", &format!("flow: 1\nname: kept\nsteps:\n{steps}"));
    space.flow(["run", "w.yaml", "-k"]).expect(1);
    let shown = space.flow(["show", "bad"]).expect(0).stdout();
    assert!(shown.ends_with("\n  work folder  WORK/RUN/0/work\n"), "{shown}");
    assert!(!space.flow(["show", "good"]).expect(0).stdout().contains("work folder"));
    let shell = ["shell", "bad", "--", "sh", "-c", "cat half.txt; echo $SCALE $OMP_NUM_THREADS; ls $FLOW_ROOT/*.yaml"];
    assert_eq!(space.flow(shell).expect(0).stdout(), "half\n7 2\nROOT/w.yaml\n");
    let same = format!("{env} | diff env.txt - && grep -c ^FLOW_CHECKPOINT=/ env.txt");
    assert_eq!(space.flow(["shell", "bad", "--", "bash", "-c", &same]).expect(0).stdout(), "1\n");
    let none = space.flow(["shell", "good"]).expect(2).text();
    assert!(none.contains("no work folder of `good` is left"), "{none}");
}
