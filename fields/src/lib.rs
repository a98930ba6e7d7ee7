//! Constants of BLS12-381's fields as little-endian 32-bit limbs: one source for every kernel language.
