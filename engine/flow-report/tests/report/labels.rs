//! The names that an author gives to axis values appear wherever a reader sees a value, in the right language, and
//! nowhere else.

use crate::common::{add_table, feb08, run, text, whole};
use serde_json::json;

#[test]
fn values_have_their_names_in_tables_sentences_charts_and_entries() {
    let labels = json!({"version": {"v7": {"en": "folders", "zh": "文件夹"}, "v11": {"en": "cropped", "zh": "已裁剪"}},
        "batch": {"8": {"en": "small", "zh": "小批"}}});
    let mut input = feb08::without_gpus();
    let mut table = serde_json::Value::Object(input.steps["solo_table"].with.clone());
    table["labels"] = labels;
    add_table(&mut input, "solo_table", table);
    let out = run("report", feb08::with(), &input).expect("a report");
    let page = whole(&out, "report.md");
    let (english, chinese) = page.split_once("\n## 中文").expect("two halves");
    // Names of instances keep their values, so that `flow show` finds them.
    let seen = |half: &str| {
        let lines =
            half.lines().filter(|line| !line.contains("version=") && !line.starts_with("- ") || line.contains("**"));
        lines.map(|line| line.to_owned() + "\n").collect::<String>()
    };
    for (half, own, others) in
        [(english, ["folders", "cropped", "small"], "文件夹"), (chinese, ["文件夹", "已裁剪", "小批"], "folders")]
    {
        for name in own {
            assert!(half.contains(name), "{name}: {half}");
        }
        assert!(!half.contains(others), "{half}");
        for line in seen(half).lines().filter(|line| line.starts_with('|') || line.starts_with("**")) {
            assert!(!line.contains("v7") && !line.contains("v11"), "{line}");
        }
    }
    assert!(english.contains("batch size small / 16 / 32") && chinese.contains("小批 / 16 / 32"), "{page}");
    let entry = text(&out, "entry.md");
    assert!(entry.contains("folders: undecided") && entry.contains("文件夹：") && !entry.contains("v7:"), "{entry}");
    for (lang, name) in [("en", "folders"), ("zh", "文件夹")] {
        let drawn = text(&out, &format!("charts/solo_table-together.{lang}.svg"));
        assert!(drawn.contains(name) && !drawn.contains(">v7 "), "{drawn}");
    }
    // CSV files keep the values.
    let csv = text(&out, "charts/solo_table.csv");
    assert!(csv.contains("v7") && !csv.contains("folders"), "{csv}");
}
