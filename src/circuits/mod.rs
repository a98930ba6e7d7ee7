//! Circuits that come with the program.

pub mod mix;
