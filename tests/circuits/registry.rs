use rand::SeedableRng;
use rand::rngs::StdRng;
use twinlock::circuits::{CIRCUITS, CircuitOptions, KeySource, find};

fn error(name: &str, options: &CircuitOptions) -> String {
    match find(name, options) {
        Ok(_) => panic!("{name} was found"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_listed_circuit_is_found_and_valid() {
    for info in CIRCUITS {
        let lg = info.options.contains(&"lg").then_some(8);
        let entry = find(info.name, &CircuitOptions { lg, profile: None }).unwrap();
        assert_eq!(entry.info(), *info);
        assert!(entry.label().starts_with(info.name));
        let seeded = || entry.synthesize(&mut StdRng::seed_from_u64(7)).unwrap();
        assert!(seeded().is_satisfied());
        assert!(seeded() == seeded(), "a seed fixes the instance");
        assert!(!seeded().public_inputs().is_empty());
    }
}

#[test]
fn demonstration_keys_agree() {
    let options = |lg| CircuitOptions { lg: Some(lg), profile: Some("bits".into()) };
    let mut found = Vec::new();
    for lg in [7, 8] {
        let entry = find("mix", &options(lg)).unwrap();
        assert_eq!(entry.label(), format!("mix --lg {lg} --profile bits"));
        let KeySource::Generated(maker) = entry.parameters().unwrap() else {
            panic!("mix has no production key");
        };
        let key = maker.generate(None, &mut maker.demonstration_rng(), &|_, _| {}).unwrap();
        let vk = maker.generate_verifying_key(&mut maker.demonstration_rng()).unwrap();
        assert!(vk == key.vk);
        found.push(vk);
    }
    assert!(found[0] != found[1]);
}

#[test]
fn unknown_names_and_options_are_refused_with_what_there_is() {
    let none = CircuitOptions::default();
    let text = error("sapling", &none);
    assert!(text.starts_with("no circuit named `sapling`; there are: "), "{text}");
    assert!(CIRCUITS.iter().all(|info| text.contains(info.name)), "{text}");
    let lg = CircuitOptions { lg: Some(3), profile: None };
    assert_eq!(error("mix", &lg), "lg 3: mix of profile even needs one from 4 to 31");
    let profile = CircuitOptions { lg: None, profile: Some("x".into()) };
    assert_eq!(error("mix", &profile), "no profile named `x`; there are: even, bits");
    if cfg!(feature = "sapling") {
        assert_eq!(error("sapling-spend", &lg), "option lg: sapling-spend has no such choice");
        assert_eq!(
            error("sapling-output", &profile),
            "option profile: sapling-output has no such choice"
        );
    }
}
