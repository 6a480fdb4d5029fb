//! Serves the page of a run; `flow view` starts it. It only reads files, so it cannot slow the engine. This file has the
//! arguments, the clock and all printing.
#![forbid(unsafe_code)]

mod answer;
mod axes;
mod catalogue;
mod events;
mod facts;
mod graph;
mod guard;
mod listen;
mod record;
mod sentences;
mod source;

use std::{
    io::{self, Read, Write},
    path::PathBuf,
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::Parser;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};

use answer::Page;
use guard::Guard;
use listen::Listener;
use record::{Record, RemadeTexts};
use source::Source;

/// How long a connection may take to send its next request. A visible page sends one each second.
const IDLE: Duration = Duration::from_secs(5);
/// How long one connection is served, and how long its last answer may take.
const LONGEST: Duration = Duration::from_secs(300);
const GRACE: Duration = Duration::from_secs(30);

/// Serves the page of a run on this machine's loopback interface
#[derive(Debug, Parser)]
#[command(name = "flow-view", version)]
struct Arguments {
    /// The folder of a run in a store, or a file that `flow export --bundle` wrote; and another one to compare with it
    #[arg(required = true, num_args = 1..=2, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The port; 0 selects a free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Serve on this socket instead of a port; only this user may connect
    #[arg(long, value_name = "FILE", conflicts_with = "port")]
    socket: Option<PathBuf>,
    /// For runs that have no report files: read the files from standard input, for each run a JSON object by instance
    #[arg(long)]
    reports: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match open(&arguments).and_then(|records| serve(records, &arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _ = writeln!(io::stderr(), "error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The runs, with the reports that were made for them.
fn open(arguments: &Arguments) -> Result<Vec<Record>, String> {
    let mut reports: Vec<RemadeTexts> = match arguments.reports {
        true => serde_json::from_reader(io::stdin().lock()).map_err(|e| format!("the reports cannot be read: {e}"))?,
        false => Vec::new(),
    };
    reports.resize_with(arguments.runs.len(), RemadeTexts::new);
    let runs = arguments.runs.iter().zip(reports);
    runs.map(|(path, reports)| Record::open(Source::open(path)?, reports)).collect()
}

/// Serves the page until the process is interrupted.
fn serve(records: Vec<Record>, arguments: &Arguments) -> Result<(), String> {
    let failed = |e: io::Error| format!("the page cannot be served: {e}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let listener = match &arguments.socket {
            Some(file) => Listener::socket(file)?,
            None => Listener::port(arguments.port).await?,
        };
        let guard = Guard::new(listener.port, secret().map_err(failed)?, secret().map_err(failed)?);
        let titles: Vec<&str> = records.iter().map(|record| &*record.title).collect();
        announce(&titles.join(" and "), &listener, &guard.link());
        let page = Page::new(guard, records);
        loop {
            // Further connections wait for a place.
            let accepted = async { (page.place().await, listener.accept().await) };
            let accepted = tokio::select! {
                accepted = accepted => accepted,
                _ = tokio::signal::ctrl_c() => return Ok(()),
            };
            // The connection broke; others are served.
            let (place, Ok(stream)) = accepted else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let page = page.clone();
            tokio::task::spawn_local(async move {
                let _place = place;
                let answer = service_fn(move |request| {
                    let answer = page.answer(&request);
                    async move { Ok::<_, std::convert::Infallible>(answer) }
                });
                let mut http = http1::Builder::new();
                http.timer(TokioTimer::new()).header_read_timeout(IDLE);
                let connection = http.serve_connection(TokioIo::new(stream), answer);
                let mut connection = std::pin::pin!(connection);
                // A browser opens a new connection if it needs one. A connection that reads nothing must not keep its place.
                if tokio::time::timeout(LONGEST, connection.as_mut()).await.is_err() {
                    connection.as_mut().graceful_shutdown();
                    let _ = tokio::time::timeout(GRACE, connection).await;
                }
            });
        }
    })
}

/// 256 random bits, as text.
fn secret() -> io::Result<String> {
    let mut bytes = [0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Milliseconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Prints the link. A reader that has gone does not end the page.
fn announce(title: &str, listener: &Listener, link: &str) {
    let (port, host) = (listener.port, host());
    let to = listener.file.as_ref().map_or(format!("127.0.0.1:{port}"), |file| file.display().to_string());
    let remote = format!("from another machine: ssh -L {port}:{to} {host}, then open the link there");
    let text = format!("{title}: {link}\n{remote}\nCtrl-C ends the page; the run continues\n");
    let _ = io::stdout().write_all(text.as_bytes());
}

/// The host name for the ssh line.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = flow_core::visible(name.trim());
    if name.is_empty() { "HOST".to_owned() } else { name.to_string() }
}
