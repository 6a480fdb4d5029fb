//! flow-exec
