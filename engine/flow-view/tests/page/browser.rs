//! The page in a real browser, Debian's chromium.

use std::process::Command;

use crate::{
    report,
    server::{RUN, Server, bundle, failed, hostile, live},
};

/// What the browser made of a page: its elements, and what it said on the console.
fn opened(address: &str) -> (String, Vec<String>) {
    let profile = tempfile::tempdir().unwrap();
    let ran = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"])
        .args(["--virtual-time-budget=6000", "--window-size=1280,1600"])
        // Nothing else may be asked.
        .arg("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(address)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    let console = said.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
    (String::from_utf8_lossy(&ran.stdout).into_owned(), console)
}

#[test]
#[ignore = "needs chromium"]
fn a_browser_shows_a_bundle_in_both_languages_and_at_any_moment() {
    let server = Server::of_bundle(&bundle("feb08-2xH200"));
    let (page, console) = opened(&server.link());
    assert!(console.is_empty(), "{console:#?}");
    assert!(page.contains("data-ready=\"yes\""), "{page}");
    for text in [
        "done<b>16</b>",
        "skipped<b>",
        "solo[version=v7,batch=32]",
        "2 × NVIDIA H200",
        // Of a time per epoch, the table has the mean.
        "top1, best epoch</button>",
        "epoch_time</button>",
        "GPUs and CPUs over time",
        // The legend, and the columns.
        "<i></i>mean load</span>",
        "<i></i>waited for data</span>",
        "Foreign CPU load</label>",
    ] {
        assert!(page.contains(text), "`{text}` is missing: {page}");
    }
    let (page, console) = opened(&format!("{}#lang=zh&card=5", server.link()));
    assert!(console.is_empty(), "{console:#?}");
    for text in [
        "完成<b>16</b>",
        "已跳过<b>",
        "<i></i>等待数据</span>",
        "top1，最佳轮次</button>",
        "复制为 CSV",
        "运行环境",
        "GPU 负载",
    ] {
        assert!(page.contains(text), "`{text}` is missing: {page}");
    }
    let (page, console) = opened(&format!("{}#step=solo&form=parallel&zoom=1-2&lanes=2-9", server.link()));
    assert!(console.is_empty(), "{console:#?}");
    assert_eq!(page.matches("data-w=\"unzoom\">Whole range").count(), 2, "curves and lanes are zoomed: {page}");
    for text in ["class=\"row\"", "top1, best epoch</text>", "aria-pressed=\"true\"", "<b>solo_table</b>"] {
        assert!(page.contains(text), "`{text}` is missing: {page}");
    }
    let (page, _) = opened(&format!("{}#at=15", server.link()));
    for text in ["running<b>", "waiting<b>", "badge past"] {
        assert!(page.contains(text), "`{text}` is missing: {page}");
    }
}

#[test]
#[ignore = "needs chromium"]
fn a_browser_shows_a_killed_run_and_no_markup_of_a_step_acts() {
    let space = hostile();
    let server = Server::of_run(space.path(), RUN);
    let (page, console) = opened(&format!("{}#card=0", server.link()));
    assert!(console.is_empty(), "{console:#?}");
    assert!(page.contains("engine gone since"), "{page}");
    for state in [
        "done<b>2",
        "was running<b>1",
        "failed<b>1",
        "out of memory<b>1",
        "timed out<b>1",
        "skipped<b>1",
        "waiting<b>1",
    ] {
        assert!(page.contains(state), "`{state}` is missing: {page}");
    }
    assert!(
        page.contains("<title>hostile · flow</title>")
            && !page.contains("<img")
            && page.matches("<script").count() == 1
    );
    assert!(page.contains("&lt;img src=x"), "it is shown as text");
    // Each pane is there: the graph of steps, the axes, and the report, which acts in no way.
    for part in ["class=\"layer\"", "<svg", "class=\"cell", "sandbox=\"\""] {
        assert!(page.contains(part), "`{part}` is missing: {page}");
    }
    assert!(page.contains(">0.5000<"), "the best epoch, not the last: {page}");
    // It waits for what it waited for at that moment.
    assert!(page.contains("another goes first"), "{page}");
    let (gone, _) = opened(&format!("{}#card=6", server.link()));
    assert!(gone.contains("<h2 id=\"card-title\">") && !gone.contains("Forecast</dt>"), "nothing will start: {gone}");
    let (past, console) = opened(&format!("{}#at=2&card=6", server.link()));
    assert!(past.contains("Forecast</dt>"), "{past}");
    assert!(console.is_empty() && past.contains("badge past") && !past.contains("another goes first"), "{past}");
    assert!(past.contains("&gt; goes first") && past.matches("<script").count() == 1, "{past}");
    // Every control has a name.
    for control in ["<input", "<select", "<canvas"] {
        for piece in page.split(control).skip(1) {
            let tag = piece.split('>').next().unwrap();
            let is_named = ["aria-label", "aria-hidden", "type=\"checkbox\""].iter().any(|part| tag.contains(part));
            assert!(is_named, "{control}{tag}");
        }
    }
}

#[test]
#[ignore = "needs chromium"]
fn a_browser_shows_a_run_whose_last_attempt_failed_at_once() {
    let space = failed();
    let server = Server::of_run(space.path(), RUN);
    let (page, console) = opened(&server.link());
    assert!(console.is_empty(), "{console:#?}");
    assert!(page.contains("failed<b>1") && page.contains(">short</button>"), "{page}");
    assert!(page.contains("id=\"trouble\" class=\"trouble\" role=\"alert\"></p>"), "each pane is drawn: {page}");
}

#[test]
#[ignore = "needs chromium"]
fn a_browser_shows_when_an_instance_is_expected_to_start() {
    let (space, _lives) = live();
    let server = Server::of_run(space.path(), RUN);
    for (lang, texts) in
        [("en", ["Forecast</dt><dd>expected ", ", 20 min 0 s"]), ("zh", ["预测</dt><dd>预计 ", "，用时 20 min 0 s"])]
    {
        let (page, console) = opened(&format!("{}#lang={lang}&card=1", server.link()));
        assert!(console.is_empty(), "{console:#?}");
        for text in texts {
            assert!(page.contains(text), "`{text}` is missing: {page}");
        }
        // The run so far takes a quarter of the lanes, the forecast the rest.
        let slider = page.split("id=\"slider\"").nth(1).unwrap().split('>').next().unwrap();
        assert!(slider.contains("0.2") || slider.contains("calc(2"), "{slider}");
    }
    let (page, _) = opened(&format!("{}#card=0", server.link()));
    for text in ["Forecast</dt><dd>expected ", ", 20 min 0 s", "<meter value=\"0.5", "<i></i>expected</span>"] {
        assert!(page.contains(text), "it runs, `{text}` is missing: {page}");
    }
    let run = space.path().join("runs").join(RUN);
    let (page, _) = opened(&Server::of_both(&run, &run).link());
    assert!(page.contains("Change to abcd</button>") && !page.contains(">+0.0%<"), "it has not ended: {page}");
}

#[test]
#[ignore = "needs chromium"]
fn a_browser_shows_the_report_of_a_bundle_in_both_languages() {
    let server = Server::of_bundle_with(&bundle("feb08-2xH200"), &report::remade());
    for lang in ["en", "zh"] {
        let (page, _) = opened(&format!("{}#lang={lang}", server.link()));
        assert!(page.contains(&format!("src=\"/api/report/39?lang={lang}")), "{page}");
    }
}

#[test]
#[ignore = "needs chromium"]
fn a_browser_shows_two_runs_side_by_side() {
    let server = Server::of_both(&bundle("feb08-2xH200"), &bundle("feb08-1xH200"));
    let (page, console) = opened(&server.link());
    assert!(console.is_empty(), "{console:#?}");
    for text in [
        "compared with feb08, run 20261127-174400-7eb5; changes are from 067f to 7eb5",
        "Change to 7eb5</button>",
        // The last epochs, as `flow diff` has them.
        "top1 · 7eb5</button>",
        "class=\"plain s0 dots\"",
    ] {
        assert!(page.contains(text), "`{text}` is missing: {page}");
    }
    // The second run takes longer.
    let row = page.split("solo[version=v7,<wbr>batch=32]").nth(1).unwrap().split("</tr>").next().unwrap();
    for text in [">20 s<", ">27 s<", ">+35.1%<", ">+0.6 pp<"] {
        assert!(row.contains(text), "`{text}` is missing: {row}");
    }
    // Markup of the other run is text, too.
    let space = hostile();
    let server =
        Server::of_both(&space.path().join("runs").join(crate::server::LATER), &space.path().join("runs").join(RUN));
    let (page, _) = opened(&server.link());
    assert!(
        page.contains("compared with hostile") && !page.contains("<img") && page.matches("<script").count() == 1,
        "{page}"
    );
}
