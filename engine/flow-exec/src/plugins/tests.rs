//! Plugins in scratch folders: discovery, error messages, digests.

use std::fs;

use super::*;

const SOUND: &str = "plugin: 1\nname: demo\nversion: 0.1.0\ncontent: [plugin.yaml, \"src/**\"]\nsetup: [sh build.sh]\nstart: [bin/demo, ./data.txt, word]\nenv: {LIB: \"${FLOW_CACHE}/lib:${LIB}\"}\nsteps:\n  one:\n    outputs: {out: out/one}\n    with: {type: object, properties: {n: {type: integer, default: 1}}}\n";

fn discover(folders: &[PathBuf]) -> Result<Plugins, PluginError> {
    Plugins::discover(folders, None, Path::new("/cache"))
}

struct Dir(tempfile::TempDir);

impl Dir {
    fn new() -> Dir {
        Dir(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap()
    }

    fn write(&self, path: &str, text: &str) -> &Dir {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn plugins(&self) -> Plugins {
        discover(&[self.0.path().to_owned()]).unwrap()
    }

    fn digest(&self, name: &str) -> Result<Digest, String> {
        self.plugins().get(name).unwrap().digest().map_err(|e| e.what)
    }
}

#[test]
fn plugins_are_found_in_folders_and_as_folders() {
    let dir = Dir::new();
    dir.write("a/plugin.yaml", SOUND).write("a/src/x", "").write("notes/readme", "");
    let top = dir.path();
    for folders in [vec![top.clone()], vec![top.join("a")], vec![top.join("a"), top.clone()]] {
        let plugins = discover(&folders).unwrap();
        assert_eq!(plugins.iter().map(|p| p.folder.clone()).collect::<Vec<_>>(), [top.join("a")], "{folders:?}");
    }
    let plugins = dir.plugins();
    let demo = plugins.get("demo").unwrap();
    let path = |name: &str| top.join("a").join(name).display().to_string();
    assert_eq!(demo.argv(), [path("bin/demo"), path("data.txt"), "word".to_owned()]);
    assert_eq!(demo.env(|_| None)["LIB"], "/cache/lib");
    assert_eq!(demo.env(|name| (name == "LIB").then_some("/old"))["LIB"], "/cache/lib:/old");
    let catalogue = dir.plugins().catalogue(["demo"], BTreeMap::new(), &BTreeMap::new()).unwrap();
    assert_eq!(catalogue.plugins["demo"].steps["one"].outputs["out"], "out/one");
    // A misspelt name still shows the existing plugins.
    assert!(dir.plugins().catalogue(["dmo"], BTreeMap::new(), &BTreeMap::new()).unwrap().plugins.contains_key("demo"));

    dir.write("b/plugin.yaml", SOUND);
    let clash = discover(std::slice::from_ref(&top)).unwrap_err().to_string();
    assert!(clash.contains("b/plugin.yaml: the name `demo` belongs to") && clash.contains("a/plugin.yaml"), "{clash}");
    let missing = discover(&[top.join("none")]).unwrap_err().to_string();
    assert!(missing.contains("none: no plugins can be read here"), "{missing}");
}

#[test]
fn a_broken_plugin_counts_only_where_it_is_used() {
    let dir = Dir::new();
    dir.write("demo/plugin.yaml", SOUND).write("demo/src/x", "").write("bad/plugin.yaml", "plugin: 7\n");
    let plugins = dir.plugins();
    assert_eq!(plugins.broken().len(), 1);
    assert!(plugins.catalogue(["demo"], BTreeMap::new(), &BTreeMap::new()).is_ok());
    let error = plugins.catalogue(["demo", "bad"], BTreeMap::new(), &BTreeMap::new()).unwrap_err();
    assert!(
        error.to_string().ends_with("bad/plugin.yaml: plugin: it has format 7, this flow reads 1; use a newer flow")
    );
}

#[test]
fn what_is_wrong_is_named() {
    let changed = |from: &str, to: &str| {
        assert!(SOUND.contains(from), "{from}");
        SOUND.replacen(from, to, 1)
    };
    let texts = [
        "name: x\n".to_owned(),
        changed("plugin: 1", "plugin: one"),
        changed("name: demo", "name: De mo"),
        changed("name: demo", "name: flow"),
        changed("version: 0.1.0\n", ""),
        changed("setup:", "set_up:"),
        changed("[plugin.yaml, \"src/**\"]", "[]"),
        changed("[bin/demo, ./data.txt, word]", "[]"),
        changed("${FLOW_CACHE}", "${HOME}"),
        changed("out/one", "../one"),
        changed("type: object,", "type: array,"),
        changed("type: integer", "type: number of things"),
        changed("default: 1", "default: [1"),
    ];
    let dir = Dir::new();
    let said: Vec<String> = texts
        .iter()
        .map(|text| {
            dir.write("a/plugin.yaml", text);
            dir.plugins().broken()[0].what.clone()
        })
        .collect();
    insta::assert_snapshot!(said.join("\n"), @r#"
    it begins with `plugin: 1`, the version of its format
    plugin: the version of the format is 1
    name: `De mo` is not a valid name: use small letters, digits and `_`, a letter first
    name: `flow` is for flow's own steps
    missing field `version`
    unknown field `set_up`, expected one of `plugin`, `name`, `version`, `content`, `setup`, `start`, `env`, `steps` at line 5 column 1
    content: list the files of the plugin's program, for example `[plugin.yaml, "src/**"]`; a result is reused only while these are unchanged
    start: give the program to start, for example `[./main.py]`
    env.LIB: `${HOME}/lib:`: only ${FLOW_CACHE} can be filled in, and in a variable its own inherited value
    steps.one.outputs.out: `../one` is not a path in the work folder
    steps.one.with: expected a JSON Schema with `type: object`
    steps.one.with.properties.n.type: "number of things" is not valid under any of the schemas listed in the 'anyOf' keyword
    did not find expected ',' or ']' at line 11 column 69, while parsing a flow sequence at line 11 column 67
    "#);
}

#[test]
fn the_digest_is_of_names_and_bytes() {
    let dir = Dir::new();
    let globs = "[plugin.yaml, \"src/**\", \"../shared/*.rs\", \"src/a.rs\"]";
    dir.write("p/plugin.yaml", &SOUND.replacen("[plugin.yaml, \"src/**\"]", globs, 1));
    dir.write("p/src/a.rs", "a").write("p/src/deep/b.rs", "b").write("shared/c.rs", "c");
    let digest = || dir.digest("demo").unwrap();
    let first = digest();
    // Neither other files nor those that tools leave behind count.
    dir.write("p/README", "x").write("shared/c.txt", "x").write("p/src/__pycache__/a.pyc", "x");
    dir.write("p/src/target/CACHEDIR.TAG", "x").write("p/src/target/o", "x").write("shared/deep/d.rs", "x");
    assert_eq!(digest(), first);
    let other = Dir::new();
    other.write("elsewhere/plugin.yaml", &SOUND.replacen("[plugin.yaml, \"src/**\"]", globs, 1));
    other.write("elsewhere/src/a.rs", "a").write("elsewhere/src/deep/b.rs", "b").write("shared/c.rs", "c");
    assert_eq!(other.digest("demo").unwrap(), first, "where it lies does not count");
    dir.write("shared/c.rs", "C");
    assert_ne!(digest(), first);
    dir.write("shared/c.rs", "c");
    fs::rename(dir.path().join("p/src/a.rs"), dir.path().join("p/src/z.rs")).unwrap();
    std::os::unix::fs::symlink("z.rs", dir.path().join("p/src/a.rs")).unwrap();
    assert_ne!(digest(), first);
    fs::remove_file(dir.path().join("p/src/z.rs")).unwrap();
    assert!(dir.digest("demo").unwrap_err().contains("a.rs"), "a link to nothing");
    fs::remove_file(dir.path().join("p/src/a.rs")).unwrap();
    dir.write("p/src/a.rs", "a");
    assert_eq!(digest(), first);
    fs::remove_file(dir.path().join("shared/c.rs")).unwrap();
    assert_eq!(dir.digest("demo").unwrap_err(), "content: `../shared/*.rs`: it matches no file");
}

#[test]
fn a_folder_or_a_bad_glob_is_no_content() {
    let dir = Dir::new();
    dir.write("p/src/a", "");
    let said = |globs: &str| {
        dir.write("p/plugin.yaml", &SOUND.replacen("[plugin.yaml, \"src/**\"]", globs, 1));
        dir.digest("demo").unwrap_err().replace(&*dir.path().to_string_lossy(), "")
    };
    let all = [said("[src]"), said("[\"src/[\"]"), said("[/etc/passwd]"), said("[none.py]"), said("[\"none/**\"]")];
    insta::assert_snapshot!(all.join("\n"), @r"
    content: `src`: it is a folder; `src/**` means all of it
    content: `src/[`: unclosed character class; missing ']'
    content: `/etc/passwd`: expected a path relative to the plugin's folder
    content: `none.py`: /p/none.py: No such file or directory (os error 2)
    content: `none/**`: it matches no file, because /p/none is not a folder
    ");
}

#[test]
fn what_is_started_counts_though_the_content_does_not_name_it() {
    let digest = |start: &str| {
        let dir = Dir::new();
        let text = SOUND.replace("content: [plugin.yaml, ", "content: [").replace("bin/demo", start);
        dir.write("a/plugin.yaml", &text).write("a/src/x", "");
        dir.digest("demo").unwrap()
    };
    assert_eq!(digest("bin/demo"), digest("bin/demo"));
    assert_ne!(digest("bin/demo"), digest("bin/other"));
}
