//! serve
/// The keeper's whole life.
pub fn serve() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
