//! What the tests of the keeper need as processes of their own: the keeper, and an engine that can be killed.
//!
//! With `__keeper RECORD` it is a keeper; with `engine FOLDER COMMAND…` it starts each command as an attempt below FOLDER and waits.

use std::{env, path::PathBuf, process::ExitCode};

use flow_core::AttemptId;
use flow_supervisor::{
    attempt::Folder,
    keeper::{self, KEEPER_ARG, Keeper, Request, Start, command_argv},
};

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    if args.first().is_some_and(|a| a == KEEPER_ARG) {
        return keeper::serve(args[1].as_ref());
    }
    let [_, folder, commands @ ..] = &args[..] else { return ExitCode::from(2) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        std::fs::create_dir_all(folder).expect("a folder");
        let record = PathBuf::from(folder).join("keeper.json");
        let mut keeper = Keeper::spawn(&env::current_exe().expect("a path"), &record).expect("a keeper");
        for (n, command) in commands.iter().enumerate() {
            let folder = Folder::create(PathBuf::from(folder).join(n.to_string())).expect("a folder");
            keeper.send(&Request::Start(Start {
                attempt: AttemptId(n as u32),
                argv: command_argv(command),
                env: env::vars().collect(),
                cwd: folder.work(),
                folder: folder.path().to_owned(),
                secrets: Vec::new(),
            }));
        }
        loop {
            keeper.next_event().await.expect("a keeper that lives");
        }
    })
}
