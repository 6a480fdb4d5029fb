//! The page as a browser and as an attacker see it: finished runs, killed runs and bundles are served, only to who has the
//! link, and nothing that a step wrote becomes markup.

mod browser;
mod report;
mod server;

use flow_core::{Bundle, RunId};
use flow_runs::StoreDir;
use flow_store::Import;
use serde_json::Value;

use server::{Server, bundle, hostile};

/// The page's own cookie, and a request with it.
fn get(server: &Server, path: &str) -> (u16, String) {
    let cookie = server.cookie();
    let answer = server.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost:{}\r\nCookie: {cookie}\r\n", server.port));
    (answer.status, answer.body)
}

#[test]
fn a_bundle_is_served() {
    let server = Server::of_bundle(&bundle("feb08-2xH200"));
    assert!(server.output.contains(&format!("ssh -L {0}:127.0.0.1:{0} ", server.port)), "{}", server.output);
    let (status, page) = get(&server, "/");
    assert!(status == 200 && page.contains("<html lang=\"en\">") && page.contains("/app.js"), "{page}");
    let files =
        ["app.js", "style.css", "fold.js", "draw.js", "card.js", "curves.js", "steps.js", "words.js", "catalogue.js"];
    for file in files.map(|file| format!("/{file}")).iter().chain([&"/icon.svg".to_owned()]) {
        assert_eq!(get(&server, file).0, 200, "{file}");
    }
    let (_, text) = get(&server, "/api/updates?from=0");
    let updates: Value = serde_json::from_str(&text).unwrap();
    let events = updates["events"].as_array().unwrap();
    let count = |name: &str| events.iter().filter(|event| event["e"] == name).count();
    assert_eq!(
        (count("start"), count("instance"), count("started"), count("recorded"), count("end")),
        (1, 40, 16, 16, 1)
    );
    assert!(count("epoch") > 20, "a bundle has its epochs in the series");
    let waited = |event: &Value| event["result"]["waited"].as_f64().is_some_and(|share| share > 0.4);
    assert!(events.iter().any(waited), "it waited for data");
    assert_eq!(updates["goals"]["top1"], "max");
    let times: Vec<u64> = events.iter().map(|event| event["t"].as_u64().unwrap()).collect();
    assert!(times.is_sorted());
    let next = updates["next"].as_u64().unwrap();
    let (_, text) = get(&server, &format!("/api/updates?from={next}"));
    let updates: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&updates["events"], &updates["ended"]), (&serde_json::json!([]), &Value::Bool(true)));
    let solo = events.iter().find(|e| e["e"] == "instance" && e["step"] == "solo").unwrap()["i"].as_u64().unwrap();
    let (status, result) = get(&server, &format!("/api/result/{solo}"));
    assert!(status == 200 && result.contains("NVIDIA H200"), "{result}");
    let (status, series) = get(&server, &format!("/api/series/{solo}"));
    assert!(status == 200 && series.contains("\"epoch_times\""), "{series}");
    assert_eq!(get(&server, "/api/log/0").0, 404, "a bundle has no logs");
    let steps = updates_of(&server, "/api/updates?from=0")["steps"].clone();
    let solo_table = steps.as_array().unwrap().iter().find(|step| step["step"] == "solo_table").unwrap();
    let needs = solo_table["needs"].as_array().unwrap();
    assert!(needs.iter().any(|at| steps[at.as_u64().unwrap() as usize]["step"] == "solo"), "{steps}");
    let (status, axes) = get(&server, &format!("/api/axes/{solo}?form=heat&value=0&x=0&y=1&width=900"));
    let axes: Value = serde_json::from_str(&axes).unwrap();
    assert_eq!(
        (status, &axes["axes"], &axes["values"][0]),
        (200, &serde_json::json!(["batch", "version"]), &"top1, best epoch".into())
    );
    assert!(axes["values"].as_array().unwrap().contains(&"epoch_time".into()), "a mean over epochs: {axes}");
    assert!(axes["svg"].as_str().unwrap().contains("class=\"cell"), "{axes}");
    let early = format!("/api/axes/{solo}?until={}", times[0]);
    assert_eq!(get(&server, &early).0, 404, "there were no results yet");
    assert_eq!(get(&server, &format!("/api/report/{solo}")).0, 404, "it made no report");
}

fn updates_of(server: &Server, path: &str) -> Value {
    serde_json::from_str(&get(server, path).1).unwrap()
}

#[test]
fn a_second_run_is_served_next_to_the_first() {
    let space = hostile();
    let second = space.path().join("runs").join(server::RUN);
    let server = Server::of_both(&bundle("feb08-2xH200"), &second);
    assert!(server.output.contains("feb08 run ") && server.output.contains(" and hostile run "), "{}", server.output);
    let start = |path: &str| updates_of(&server, path)["events"][0]["workflow"].clone();
    assert_eq!(updates_of(&server, "/api/updates?from=0")["runs"], 2);
    assert_eq!((start("/api/updates?from=0"), start("/api/updates?from=0&run=1")), ("feb08".into(), "hostile".into()));
    assert!(get(&server, "/api/log/0?run=1").1.contains("the end"));
    for run in ["2", "-1", "x"] {
        assert_eq!(get(&server, &format!("/api/updates?from=0&run={run}")).0, 404, "{run}");
    }
}

#[test]
fn a_report_is_a_page_without_any_rights() {
    let space = hostile();
    let server = Server::of_run(space.path(), server::RUN);
    let cookie = server.cookie();
    for lang in ["en", "zh", "de"] {
        let answer = server.ask(&format!(
            "GET /api/report/7?lang={lang} HTTP/1.1\r\nHost: localhost:{}\r\nCookie: {cookie}\r\n",
            server.port
        ));
        assert_eq!(answer.status, 200, "{lang}");
        assert!(
            answer.head.contains("default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox;"),
            "{}",
            answer.head
        );
        for acts in ["<script", "<img", "javascript:"] {
            assert!(!answer.body.contains(acts), "{acts}: {}", answer.body);
        }
        assert!(answer.body.contains("&lt;script&gt;"), "it is shown as text");
    }
    let others = server.ask(&format!("GET /api/report/7 HTTP/1.1\r\nHost: localhost:{}\r\n", server.port));
    assert_eq!(others.status, 403);
}

#[test]
fn a_bundle_shows_the_reports_that_were_made_for_it() {
    let server = Server::of_bundle_with(&bundle("feb08-2xH200"), &report::remade());
    let updates = updates_of(&server, "/api/updates?from=0");
    let mut results = updates["events"].as_array().unwrap().iter().filter(|event| event["e"] == "recorded");
    assert!(results.any(|event| event["i"] == 39 && event["result"]["folder"] == true), "{updates}");
    for lang in ["en", "zh"] {
        let (status, page) = get(&server, &format!("/api/report/39?lang={lang}"));
        assert!(status == 200 && page.contains(&format!("id=\"{lang}-1\"")), "{page}");
    }
    assert_eq!(get(&server, "/api/report/38").0, 404);
}

#[test]
fn a_socket_serves_only_its_owner() {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    let space = hostile();
    let file = space.path().join("view.sock");
    // It is left from a page that was killed.
    drop(std::os::unix::net::UnixListener::bind(&file).unwrap());
    // Another test's child may have inherited it for a moment.
    while std::os::unix::net::UnixStream::connect(&file).is_ok() {
        std::thread::yield_now();
    }
    let run = space.path().join("runs").join(server::RUN);
    let server = Server::start(&[run.as_os_str(), "--socket".as_ref(), file.as_os_str()]);
    assert!(server.output.contains(&format!("ssh -L 8080:{} ", file.display())), "{}", server.output);
    let meta = std::fs::metadata(&file).unwrap();
    assert!(meta.file_type().is_socket() && meta.permissions().mode() & 0o777 == 0o600);
    let ask = |path: &str| server.ask_on(&file, &format!("GET {path} HTTP/1.1\r\nHost: localhost:8080\r\n"));
    assert_eq!((ask(&server.path).status, ask("/").status), (200, 403));
    let said = server::fails(&[run.to_str().unwrap(), "--socket", file.to_str().unwrap()]);
    assert!(said.contains("is in use, perhaps by another `flow view`"), "{said}");
    let plain = space.path().join("plain");
    std::fs::write(&plain, "").unwrap();
    let said = server::fails(&[run.to_str().unwrap(), "--socket", plain.to_str().unwrap()]);
    assert!(said.contains("exists and is not a socket"), "{said}");
}

/// Asks again until the answer is the one that is waited for.
fn until(ask: impl Fn() -> Value, is_it: impl Fn(&Value) -> bool) -> Value {
    let begun = std::time::Instant::now();
    loop {
        let answer = ask();
        if is_it(&answer) {
            return answer;
        }
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "waited in vain, last: {answer}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn a_run_in_a_store_is_served_and_followed() {
    let space = hostile();
    let server = Server::of_run(space.path(), "20261128-010203-abcd");
    let updates = |from: u64| -> Value {
        let (status, text) = get(&server, &format!("/api/updates?from={from}"));
        assert_eq!(status, 200);
        serde_json::from_str(&text).unwrap()
    };
    let first = updates(0);
    assert_eq!((&first["lives"], &first["ended"]), (&Value::Bool(false), &Value::Bool(false)), "it was killed");
    let (_, log) = get(&server, "/api/log/0");
    assert!(log.contains("<script>") && !log.contains('\u{1b}'), "{log:?}");
    assert!(log.len() <= 64 << 10 && log.ends_with("the end"), "{}", log.len());
    let waits = first["events"].as_array().unwrap().iter().filter(|event| event["e"] == "waits");
    let why: Vec<&Value> = waits.map(|event| &event["of"][0][0]).collect();
    assert!(why.len() == 2 && why[1][0] == "another goes first" && why[1][1] == "another 在先", "{why:?}");
    let forecast = first["events"].as_array().unwrap().iter().find(|event| event["e"] == "forecast").unwrap();
    assert_eq!(forecast["of"], serde_json::json!([[6, 600_000, 1_800_000, [0]]]));
    // What is appended arrives, a half-written line when it is whole.
    server::append(space.path(), "{\"at\":1795824300000,\"event\":\"notice\",");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(updates(first["next"].as_u64().unwrap())["events"], serde_json::json!([]));
    server::append(space.path(), "\"text\":\"later\"}\n");
    let more = until(|| updates(first["next"].as_u64().unwrap()), |more| more["events"][0].is_object());
    assert_eq!(more["events"][0]["text"], serde_json::json!(["later", "later"]));
    // A damaged line is reported.
    assert_eq!(more["trouble"], Value::Null);
    server::append(space.path(), "{\"at\":1795824300000,\"ev\n");
    let damaged = until(|| updates(0), |updates| updates["trouble"].is_array());
    let trouble = damaged["trouble"][0].as_str().unwrap();
    assert!(trouble.starts_with("lines of the journal that cannot be read: 1;"), "{trouble}");
}

#[test]
fn a_reused_result_is_found_in_its_run_with_its_best_epoch() {
    let space = hostile();
    let server = Server::of_run(space.path(), server::LATER);
    let (_, text) = get(&server, "/api/updates?from=0");
    let updates: Value = serde_json::from_str(&text).unwrap();
    let cached = updates["events"].as_array().unwrap().iter().find(|event| event["e"] == "cached").unwrap();
    assert_eq!(
        cached["result"]["metrics"]["acc"],
        serde_json::json!({"v": 0.0, "unit": server::MARKUP, "sd": null, "n": null, "best": 0.5})
    );
    let (status, series) = get(&server, "/api/series/0");
    assert!(status == 200 && series.contains("[0,2.0,null,0.5]"), "{series}");
}

#[test]
fn an_imported_run_has_its_epochs_too() {
    let space = tempfile::tempdir().unwrap();
    let store = StoreDir::create(space.path()).unwrap();
    let bundle = Bundle::read(&std::fs::read(bundle("feb07-2xH200")).unwrap()).unwrap();
    let run = bundle.origin.run.0.clone();
    let import = Import::add(&store, bundle, 1, |_| RunId("20261128-000000-0001".to_owned())).unwrap().unwrap();
    let (_, inside) = Import::run_in(&store.run(&import)).unwrap().unwrap();
    let server = Server::of_run(inside.store().path(), &run);
    let (_, text) = get(&server, "/api/updates?from=0");
    let updates: Value = serde_json::from_str(&text).unwrap();
    let events = updates["events"].as_array().unwrap();
    assert!(events.iter().filter(|event| event["e"] == "epoch").count() >= 18, "{text}");
    assert_eq!(updates["logs"], Value::Bool(false));
}

#[test]
fn only_a_browser_with_the_link_is_served() {
    let server = Server::of_bundle(&bundle("feb07-1xH200"));
    let host = format!("Host: localhost:{}\r\n", server.port);
    let cookie = format!("Cookie: {}\r\n", server.cookie());
    let status = |head: &str| server.ask(head).status;
    assert_eq!(status(&format!("GET / HTTP/1.1\r\n{host}")), 403, "no token");
    assert_eq!(status(&format!("GET /?token={} HTTP/1.1\r\n{host}", "0".repeat(64))), 403, "a wrong token");
    assert_eq!(status(&format!("GET /?token= HTTP/1.1\r\n{host}")), 403, "an empty token");
    assert_eq!(status(&format!("GET /api/updates?from=0 HTTP/1.1\r\n{host}")), 403);
    assert_eq!(status(&format!("GET /api/updates?from=0 HTTP/1.1\r\n{host}{cookie}")), 200);
    // DNS rebinding: the browser asks this port under the attacker's name.
    assert_eq!(status(&format!("GET /api/updates?from=0 HTTP/1.1\r\nHost: evil.example\r\n{cookie}")), 403);
    assert_eq!(status(&format!("GET {} HTTP/1.1\r\nHost: evil.example:{}\r\n", server.path, server.port)), 403);
    assert_eq!(status(&format!("GET / HTTP/1.1\r\n{host}{cookie}Origin: http://evil.example\r\n")), 403);
    assert_eq!(status(&format!("GET / HTTP/1.1\r\n{host}{cookie}Sec-Fetch-Site: cross-site\r\n")), 403);
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        assert_eq!(status(&format!("{method} / HTTP/1.1\r\n{host}{cookie}Content-Length: 0\r\n")), 405, "{method}");
    }
    for path in [
        "/../Cargo.toml",
        "/..%2f..%2fetc/passwd",
        "/api/log/../../etc/passwd",
        "/api/log/..%2f..%2fjournal.jsonl",
        "//etc/passwd",
        "/api/result/-1",
        "/api/result/99999999999999999999",
        "/api/series/0x0",
        "/api/",
        "/api/updates/1",
    ] {
        assert_eq!(status(&format!("GET {path} HTTP/1.1\r\n{host}{cookie}")), 404, "{path}");
    }
    let answer = server.ask(&format!("GET / HTTP/1.1\r\n{host}{cookie}Accept-Language: zh-CN,zh;q=0.9\r\n"));
    assert!(answer.body.contains("lang=\"zh\""), "{}", answer.body);
    for header in [
        "content-security-policy: default-src 'none'",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
    ] {
        assert!(answer.head.contains(header), "{}", answer.head);
    }
    for inline in ["<style", "style=", "onclick", "<script>", "javascript:", "http:", "https:"] {
        assert!(!answer.body.contains(inline), "{inline}");
    }
    let let_in = server.ask(&format!("GET {} HTTP/1.1\r\n{host}", server.path));
    assert!(let_in.status == 200 && let_in.head.contains("httponly; samesite=strict"), "{}", let_in.head);
}

#[test]
fn connections_without_a_request_do_not_keep_others_out() {
    let server = Server::of_bundle(&bundle("feb07-1xH200"));
    let host = format!("Host: localhost:{}\r\n", server.port);
    let idle: Vec<_> = (0..300).map(|_| std::net::TcpStream::connect(("127.0.0.1", server.port)).unwrap()).collect();
    // It waits until they are closed.
    assert_eq!(server.ask(&format!("GET {} HTTP/1.1\r\n{host}", server.path)).status, 200);
    drop(idle);
    // Who is refused keeps no connection.
    let mut stranger = std::net::TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    stranger.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
    std::io::Write::write_all(&mut stranger, format!("GET / HTTP/1.1\r\n{host}\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stranger, &mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
}

#[test]
fn a_log_that_leads_elsewhere_is_not_shown() {
    let space = hostile();
    let log = space.path().join("runs/20261128-010203-abcd/attempts/0/log");
    std::fs::remove_file(&log).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &log).unwrap();
    let server = Server::of_run(space.path(), "20261128-010203-abcd");
    assert_eq!(get(&server, "/api/log/0").0, 404);
    assert_eq!(get(&server, "/api/log/1").0, 404, "its folder in the journal is `../../..`");
}

#[test]
fn what_cannot_be_served_is_said() {
    let space = hostile();
    let store = space.path().to_str().unwrap();
    let run = |name: &str| space.path().join("runs").join(name).into_os_string().into_string().unwrap();
    let fails = |arguments: &[&str], why: &str| {
        let ran = server::fails(arguments);
        assert!(ran.contains(why), "{ran}");
    };
    fails(&[&run("20261128-010203-0000")], "cannot be read: No such file");
    fails(&[store], "there is no run");
    fails(&["/nowhere.bundle"], "`/nowhere.bundle` cannot be read: No such file");
    fails(&["/etc/passwd"], "it is not a bundle");
    fails(&["/dev/null"], "cannot be read");
    let server = Server::of_bundle(&bundle("feb07-1xH200"));
    let port = server.port.to_string();
    let file = bundle("feb07-1xH200");
    fails(&[file.to_str().unwrap(), "--port", &port], &format!("port {port} is in use"));
    let empty = "20261128-010203-eeee";
    std::fs::create_dir(space.path().join("runs").join(empty)).unwrap();
    std::fs::write(space.path().join("runs").join(empty).join("journal.jsonl"), "{\"at\":1,\"ev").unwrap();
    fails(&[&run(empty)], "the journal of this run has no beginning");
}
