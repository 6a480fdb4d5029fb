//! tree
pub(crate) fn kill_marked(_keeper: u32) {}
