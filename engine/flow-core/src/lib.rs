//! flow-core
