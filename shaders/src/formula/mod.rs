//! Straight-line programs over field registers.
