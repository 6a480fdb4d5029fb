//! flow-report
