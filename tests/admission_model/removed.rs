//! One rule left out at a time: the model must find what the rule is there to prevent.

use twinlock::scheduler::admission::Rules;

use super::model::{HOLDER_RUNS, IN_ORDER, NO_DEADLOCK, NO_FAULT, explore};
use super::scenario::{Scenario, buffer, grows_and_shrinks, one_each, profile, resident};

/// The property breaks without the rule, and holds with it in the very same scenario.
fn breaks(rule: &str, property: &'static str, scenario: Scenario) {
    let mut whole = scenario.clone();
    whole.rules = Rules::ALL;
    whole.locks.release_is_free = true;
    whole.locks.wait_without_mem = true;
    let report = explore(whole, None);
    let broken: String = report.broken.iter().map(|found| found.text()).collect();
    assert!(report.broken.is_empty(), "{rule}, all rules in force\n{broken}");

    let report = explore(scenario, Some(property));
    let found = report.broken.iter().find(|found| found.property == property);
    let found = found.unwrap_or_else(|| panic!("{rule} left out, and still: {property}"));
    println!("  without: {rule}\n{}", found.text());
}

/// Both prestage 8 of 16 and neither can grow to 12.
#[test]
fn without_the_banker() {
    let scenario = Scenario::new("three of 12 on 16", &[16], one_each(&[(); 3].map(|()| grows_and_shrinks())));
    breaks("banker (1)", NO_DEADLOCK, scenario.without_cancels().with(|rules| rules.banker = false));
}
