//! flow-testkit
