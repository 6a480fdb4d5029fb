//! Built-in steps and what is made from results: tables, reports, published files, bundles.

pub(super) mod builtin;
pub(super) mod exports;
pub(super) mod publish;
pub(super) mod remake;
pub(super) mod stale;
