//! placeholder
pub struct Dual;
pub struct DualBackend;
