//! The `twinlock` command.

fn main() {}
