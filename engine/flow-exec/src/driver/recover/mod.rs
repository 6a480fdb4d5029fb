//! What runs that died have left on this machine and in batch systems.

pub(super) mod left;
pub(super) mod orphans;
