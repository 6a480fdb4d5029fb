//! What runs that died have left on this machine and in batch systems.

pub(super) mod follow;
pub(super) mod orphans;
