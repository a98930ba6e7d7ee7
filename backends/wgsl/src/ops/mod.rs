//! One file for each family of operations.

mod digits;
mod element;
mod msm;
mod ntt;
mod points;
