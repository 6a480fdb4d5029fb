//! spawn
