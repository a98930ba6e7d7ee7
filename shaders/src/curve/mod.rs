//! Points: what the formulas are made of.
