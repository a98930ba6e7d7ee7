//! Single steps, with sizes small enough to follow by hand.
