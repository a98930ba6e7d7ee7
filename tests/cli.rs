//! The built command, run as people and scripts run it.

#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Runs the command in a directory of its own.
struct Shell {
    dir: TempDir,
}

struct Ran {
    code: i32,
    out: String,
    err: String,
}

/// The program, without what Mesa's layer that reorders devices says where there is no desktop.
fn program() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_twinlock"));
    program.env("NODEVICE_SELECT", "1");
    program
}

impl Shell {
    fn new() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self, line: &str) -> Ran {
        self.run_with(line, &[])
    }

    /// Runs `twinlock` with the words of `line`; both outputs are pipes.
    fn run_with(&self, line: &str, variables: &[(&str, &str)]) -> Ran {
        let Output { status, stdout, stderr } = program()
            .args(line.split_whitespace())
            .current_dir(self.dir.path())
            .env_remove("TWINLOCK_LOG")
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        let out = String::from_utf8(stdout).unwrap();
        let err = String::from_utf8(stderr).unwrap();
        for text in [&out, &err] {
            assert!(!text.contains(['\r', '\x1b', '\x08']), "{line}: terminal codes in {text:?}");
        }
        let code = status.code().unwrap();
        assert!(!err.contains("panicked"), "{line}: {err}");
        Ran { code, out, err }
    }

    /// Runs what must succeed and print JSON and nothing else.
    fn json(&self, line: &str) -> Value {
        let ran = self.run(line);
        assert_eq!(ran.code, 0, "{line}: {}", ran.err);
        serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{line}: {e} in {}", ran.out))
    }

    /// Runs what must fail with exit code 2 and one line that has all of `words`.
    fn error(&self, line: &str, words: &[&str]) {
        let ran = self.run(line);
        assert_eq!(ran.code, 2, "{line}: {}{}", ran.out, ran.err);
        assert_eq!(ran.out, "", "{line}");
        let error = ran.err.lines().last().unwrap_or_default();
        for word in words {
            assert!(error.contains(word), "{line}: no {word:?} in {error:?}");
        }
    }
}

fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut document = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut document);
    fs::write(path, serde_json::to_vec(&document).unwrap()).unwrap();
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

#[test]
fn every_command_has_help_with_an_example() {
    let shell = Shell::new();
    for command in [
        "prove",
        "verify",
        "params",
        "params inspect",
        "params check",
        "params generate",
        "plan",
        "devices",
        "bench",
    ] {
        let ran = shell.run(&format!("{command} --help"));
        assert_eq!(ran.code, 0, "{command}: {}", ran.err);
        assert!(ran.out.contains("Example"), "{command}: {}", ran.out);
        assert!(ran.out.contains(&format!("twinlock {command}")), "{command}: {}", ran.out);
        assert_eq!(ran.err, "");
    }
    assert!(shell.run("--help").out.contains("TWINLOCK_LOG"));
    let version = shell.run("--version");
    assert_eq!(version.code, 0);
    assert_eq!(version.out, format!("twinlock {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn usage_errors_have_code_2() {
    let shell = Shell::new();
    for line in [
        "",
        "nothing",
        "prove",
        "prove mix --lg x",
        "prove mix --partitions 0",
        "verify mix",
        "bench ntt --lg 5..4",
        "bench ntt --lg 4 --iterations 0",
        "bench ntt --lg 4 --scalars none",
    ] {
        let ran = shell.run(line);
        assert_eq!(ran.code, 2, "{line}");
        assert_eq!(ran.out, "", "{line}");
        assert_ne!(ran.err, "", "{line}");
    }
}

#[test]
fn unknown_names_are_told_what_exists() {
    let shell = Shell::new();
    shell.error("prove sapling", &["circuit", "`sapling`", "mix"]);
    shell.error("prove mix --lg 6 --device tpu", &["device", "`tpu`", "auto", "cpu"]);
    shell.error("prove mix --lg 6 --profile odd", &["profile", "`odd`", "even", "bits"]);
    shell.error("prove mix --lg 3", &["3", "from 4 to 31"]);
    if cfg!(feature = "sapling") {
        shell.error("verify sapling-spend --lg 6 --proof x", &["lg", "sapling-spend"]);
        shell.error("params generate sapling-output --out x", &["sapling-output", "production"]);
    }
    shell.error("bench ntt --device cpu,tpu --lg 4", &["device", "`tpu`", "cpu"]);
    shell.error("params generate none --out x", &["circuit", "`none`", "mix"]);
}

#[test]
fn devices_lists_the_cpu() {
    let shell = Shell::new();
    let listing = shell.json("devices --json");
    let cpu = listing["devices"].as_array().unwrap().iter().find(|d| d["name"] == "cpu").unwrap();
    assert_eq!(cpu["usable"], true);
    assert!(cpu["memory_bytes"].as_u64().unwrap() > 0);
    assert!(listing["backends"].as_array().unwrap().contains(&"cpu".into()));
    let ran = shell.run("devices");
    assert!(ran.out.contains("cpu"), "{}", ran.out);
    for backend in ["cuda", "wgsl"] {
        if !listing["backends"].as_array().unwrap().contains(&backend.into()) {
            let line = format!("{backend} cannot be used: not part of this build\n");
            assert!(ran.out.contains(&line), "{}", ran.out);
            let reason = [backend, "not part of this build"];
            shell.error(&format!("prove mix --lg 6 --device {backend}:0"), &reason);
            assert!(!shell.run("prove mix --lg 6").err.contains(backend));
        }
    }
    assert_eq!(ran.err, "");
}

#[test]
fn proofs_go_from_prove_to_verify() {
    let shell = Shell::new();
    for (profile, lg, own, rows) in [("even", 7, 120, 122), ("bits", 8, 192, 194)] {
        let size = format!("mix --lg {lg} --profile {profile}");
        let printed =
            shell.json(&format!("prove {size} --partitions 2 --device cpu --json --out p.json"));
        let written: Value =
            serde_json::from_slice(&fs::read(shell.path("p.json")).unwrap()).unwrap();
        assert_eq!(printed, written);
        assert_eq!(printed["circuit"], "mix");
        assert_eq!(printed["device"], "cpu");
        assert_eq!(printed["constraints"], own);
        assert_eq!(printed["constraints_with_input_rows"], rows);
        assert_eq!(printed["domain"], 1 << lg);
        for time in ["load", "synthesis", "prove", "verify"] {
            assert!(printed["times_ms"][time].as_f64().unwrap() > 0.0, "{time}");
        }
        let proofs = printed["proofs"].as_array().unwrap();
        assert_eq!(proofs.len(), 2);
        for proof in proofs {
            assert_eq!(text(&proof["proof"]).len(), 384);
            assert_eq!(proof["public_inputs"].as_array().unwrap().len(), 1);
            assert_eq!((&proof["verified"], &proof["device"]), (&true.into(), &"cpu".into()));
        }
        assert_ne!(proofs[0]["proof"], proofs[1]["proof"]);
        assert_ne!(proofs[0]["public_inputs"], proofs[1]["public_inputs"]);

        let ran = shell.run(&format!("verify {size} --proof p.json"));
        assert_eq!((ran.code, &ran.out[..]), (0, "proof 0: valid\nproof 1: valid\n"));
        let verdict = shell.json(&format!("verify {size} --proof p.json --json"));
        assert_eq!(verdict["valid"], true);
        let left: Vec<_> = fs::read_dir(shell.dir.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "temporary files stay: {left:?}");
    }
}

#[test]
fn text_output_has_the_proof() {
    let shell = Shell::new();
    let ran = shell.run("prove mix --lg 6");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("1 of 1 proofs verified"), "{}", ran.out);
    assert!(ran.err.contains("test"), "test parameters are announced: {}", ran.err);
    assert!(!ran.out.contains("notice"), "{}", ran.out);
}

#[test]
fn a_seed_repeats_a_run() {
    let shell = Shell::new();
    let proofs = |line: &str| shell.json(line)["proofs"].clone();
    let seeded = proofs("prove mix --lg 6 --json --insecure-seed 7");
    assert_eq!(seeded, proofs("prove mix --lg 6 --json --insecure-seed 7"));
    assert_ne!(seeded, proofs("prove mix --lg 6 --json --insecure-seed 8"));
    assert_ne!(proofs("prove mix --lg 6 --json"), proofs("prove mix --lg 6 --json"));
    let ran = shell.run("prove mix --lg 6 --insecure-seed 7");
    assert!(ran.err.contains("warning: ") && ran.err.contains("seed"), "{}", ran.err);
}

#[test]
fn what_is_tampered_with_is_invalid() {
    let shell = Shell::new();
    let path = shell.path("p.json");
    let verify = |what: &str, expected: i32, word: &str| {
        let ran = shell.run("verify mix --lg 6 --proof p.json");
        assert_eq!(ran.code, expected, "{what}: {}{}", ran.out, ran.err);
        assert!(ran.out.contains(word), "{what}: {}", ran.out);
    };
    shell.json("prove mix --lg 6 --partitions 2 --json --out p.json");
    verify("as made", 0, "proof 1: valid");
    let good = fs::read(&path).unwrap();

    // Another proof's points are good points.
    edit(&path, |document| {
        let other = document["proofs"][0]["proof"].clone();
        document["proofs"][1]["proof"] = other;
    });
    verify("proof of another input", 1, "proof 0: valid\nproof 1: INVALID");

    fs::write(&path, &good).unwrap();
    edit(&path, |document| {
        let input = &mut document["proofs"][0]["public_inputs"][0];
        *input = "01".repeat(32).into();
    });
    verify("another input", 1, "proof 0: INVALID\nproof 1: valid");

    // A flipped sign bit gives -A; another flipped bit, as a rule, no point of the group.
    for bit in ["sign", "last"] {
        fs::write(&path, &good).unwrap();
        edit(&path, |document| {
            let mut bytes = hex::decode(text(&document["proofs"][0]["proof"])).unwrap();
            let (at, mask) = if bit == "sign" { (0, 0x20) } else { (191, 1) };
            bytes[at] ^= mask;
            document["proofs"][0]["proof"] = hex::encode(bytes).into();
        });
        verify(bit, 1, "proof 0: INVALID");
    }
}

#[test]
fn malformed_proof_files_are_errors_that_name_the_place() {
    let shell = Shell::new();
    let path = shell.path("p.json");
    let verify = "verify mix --lg 6 --proof p.json";
    shell.error(verify, &["p.json", "No such file"]);
    shell.json("prove mix --lg 6 --json --out p.json");
    let good = fs::read(&path).unwrap();
    let broken = |change: &dyn Fn(&mut Value), words: &[&str]| {
        fs::write(&path, &good).unwrap();
        edit(&path, change);
        shell.error(verify, words);
    };
    broken(&|d| d["proofs"] = Value::Array(Vec::new()), &["p.json", "`proofs` is empty"]);
    broken(&|d| d["proofs"] = Value::Null, &["p.json", "line 1"]);
    broken(&|d| d["proofs"][0]["proof"] = "00".into(), &["proofs[0].proof", "2", "384"]);
    broken(&|d| d["proofs"][0]["proof"] = "xy".repeat(192).into(), &["proofs[0].proof", "'x'"]);
    broken(
        &|d| d["proofs"][0]["public_inputs"][0] = "ff".repeat(32).into(),
        &["proofs[0].public_inputs[0]", "modulus"],
    );
    broken(
        &|d| d["proofs"][0]["public_inputs"] = Value::Array(Vec::new()),
        &["public inputs of proof 0", "expected 1, found 0"],
    );
    broken(&|d| d["label"] = "other".into(), &["p.json", "`other`", "`mix --lg 6"]);
    broken(&|d| d["label"] = Value::Null, &["p.json", "line 1"]);
    for garbage in
        [&b"\xff\xfe garbage"[..], b"", b"[]", b"{\"circuit\": \"mix\"}", &good[..good.len() / 2]]
    {
        fs::write(&path, garbage).unwrap();
        // All but the last are wrong in their only line; that one ends too soon.
        let line = format!("line {} ", garbage.split(|byte| *byte == b'\n').count());
        shell.error(verify, &["p.json", &line]);
    }
}

#[test]
fn parameters_are_generated_inspected_and_checked() {
    let shell = Shell::new();
    let made = shell.json("params generate mix --lg 7 --out m.params --vk-out m.vk --json");
    assert_eq!(made["trailing_bytes"], 0);
    let counts = |table: &Value| -> Vec<(String, u64)> {
        let sections = table["sections"].as_array().unwrap().iter();
        sections.map(|s| (text(&s["name"]), s["count"].as_u64().unwrap())).collect()
    };
    let inspected = shell.json("params inspect m.params --strict --json");
    assert_eq!(counts(&made), counts(&inspected));
    let expected = [("vk", 6), ("ic", 2), ("h", 127), ("l", 120), ("a", 121)];
    for ((name, count), expected) in counts(&inspected).iter().zip(expected) {
        assert_eq!((&name[..], *count), expected);
    }
    let report = shell.json("params check m.params --strict --json");
    assert_eq!(report["problem_count"], 0);

    // A file of its own key: prove and verify with it, and not with the test key.
    shell.json("prove mix --lg 7 --params m.params --json --out p.json");
    assert_eq!(shell.run("verify mix --lg 7 --params m.params --proof p.json").code, 0);
    assert_eq!(shell.run("verify mix --lg 7 --params m.vk --proof p.json").code, 0);
    assert_eq!(shell.run("verify mix --lg 7 --proof p.json").code, 1);
    shell.error("prove mix --lg 8 --params m.params", &["expected", "found"]);

    shell.run("params generate mix --lg 7 --out a.params --insecure-seed 5");
    shell.run("params generate mix --lg 7 --out b.params --insecure-seed 5");
    let read = |name| fs::read(shell.path(name)).unwrap();
    assert_eq!(read("a.params"), read("b.params"));
    assert_ne!(read("a.params"), read("m.params"));
}

#[test]
fn bad_parameter_files_are_found_out() {
    let shell = Shell::new();
    shell.json("params generate mix --lg 7 --out m.params --json");
    let good = fs::read(shell.path("m.params")).unwrap();
    let section = |name: &str| {
        let table = shell.json("params inspect m.params --json");
        let sections = table["sections"].as_array().unwrap().clone();
        sections.iter().find(|s| s["name"] == name).unwrap()["offset"].as_u64().unwrap() as usize
    };
    let l = section("l");

    // Cut within l: the count there asks for more than is left.
    fs::write(shell.path("cut.params"), &good[..l + 100]).unwrap();
    for command in ["params inspect", "params check", "prove mix --lg 7 --params"] {
        shell.error(&format!("{command} cut.params"), &["cut.params", "section l", "120 points"]);
    }
    fs::write(shell.path("empty.params"), b"").unwrap();
    shell.error("params check empty.params", &["empty.params", "empty"]);
    shell.error("params inspect missing.params", &["missing.params", "No such file"]);

    let mut long = good.clone();
    long.extend([7; 10]);
    fs::write(shell.path("long.params"), &long).unwrap();
    assert_eq!(shell.json("params inspect long.params --json")["trailing_bytes"], 10);
    assert_eq!(shell.run("params check long.params").code, 0);
    for command in ["params inspect", "params check"] {
        shell.error(&format!("{command} long.params --strict"), &["trailing", "10 bytes"]);
    }

    // The last bit of point 3's y.
    let mut flipped = good;
    flipped[l + 4 * 96 - 1] ^= 1;
    fs::write(shell.path("bad.params"), &flipped).unwrap();
    let ran = shell.run("params check bad.params");
    assert_eq!(ran.code, 1, "{}", ran.err);
    let expected = format!("problem: section l, point 3, byte {}: ", l + 3 * 96);
    assert!(ran.out.contains(&expected), "{}", ran.out);
    let ran = shell.run("params check bad.params --json");
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &report["problems"][0]["index"]), (1, &3.into()));
    shell.error("prove mix --lg 7 --params bad.params", &["bad.params", "section l"]);
}

#[test]
fn bench_measures_and_compares() {
    let shell = Shell::new();
    for what in ["ntt", "msm-g1", "msm-g2", "prove"] {
        let line = format!(
            "bench {what} --device cpu,cpu --lg 7..8 --scalars porep --iterations 2 --breakdown --json"
        );
        let results = shell.json(&line);
        assert_eq!((&results["bench"], &results["scalars"]), (&what.into(), &"porep".into()));
        assert!(results["machine"]["cores"].as_u64().unwrap() > 0);
        let rows = results["results"].as_array().unwrap();
        let sizes: Vec<_> = rows.iter().map(|row| row["lg"].as_u64().unwrap()).collect();
        assert_eq!(sizes, [7, 7, 8, 8], "{what}");
        for row in rows {
            assert!(row["median_ms"].as_f64().unwrap() > 0.0);
            assert!(!row["steps"].as_array().unwrap().is_empty(), "{what}");
        }
        assert_eq!(rows[0]["ratio"], 1.0);
    }
    let ran = shell.run("bench ntt --device cpu --lg 0 --iterations 1");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("cpu") && !ran.out.contains("ratio"), "{}", ran.out);
}

/// Sizes that no machine has room for: refused before anything is made, with the bytes needed and available.
#[test]
fn sizes_beyond_the_machine_are_errors() {
    let shell = Shell::new();
    shell.error("prove mix --lg 32", &["lg 32", "from 4 to 31"]);
    shell.error("prove mix --lg 32 --profile bits", &["lg 32", "from 7 to 31"]);
    shell.error("params generate mix --lg 32 --out m", &["lg 32", "from 4 to 31"]);
    shell.error("verify mix --lg 32 --proof p", &["lg 32", "from 4 to 31"]);
    shell.error("bench ntt --lg 32", &["lg", "32", "31"]);
    // Of 2^31 rows an assignment has 256 GiB, and a key 1.4 TiB.
    let memory = &shell.json("devices --json")["devices"][0]["memory_bytes"];
    if memory.as_u64().unwrap() < 64 << 30 {
        for line in [
            "prove mix --lg 31",
            "params generate mix --lg 30 --out m",
            "bench prove --device cpu --lg 31",
            "bench ntt --device cpu --lg 31",
            "bench msm-g1 --device cpu --lg 30",
            "bench msm-g2 --device cpu --lg 31",
        ] {
            shell.error(line, &["bytes", "exceeds the limit of"]);
        }
    }
    assert_eq!(fs::read_dir(shell.dir.path()).unwrap().count(), 0);
}

#[test]
fn logs_go_to_standard_error() {
    let shell = Shell::new();
    let ran = shell.run_with("devices --json", &[("TWINLOCK_LOG", "not=a=filter")]);
    assert_eq!(ran.code, 0);
    assert!(ran.err.contains("TWINLOCK_LOG"), "{}", ran.err);
    assert!(serde_json::from_str::<Value>(&ran.out).is_ok());
}

#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let shell = Shell::new();
    shell.error("prove mix --lg 6 --out none/p.json", &["none/p.json", "No such file"]);
    shell.error("params generate mix --lg 6 --out none/m", &["none/m", "No such file"]);
    shell.error("params generate mix --lg 6 --out m --vk-out none/v", &["none/v", "No such file"]);
    // A proof that fails leaves the last one, and nothing else.
    fs::write(shell.path("p.json"), "last").unwrap();
    shell.error("prove mix --lg 6 --params none --out p.json", &["none", "No such file"]);
    assert_eq!(fs::read(shell.path("p.json")).unwrap(), b"last");
    let mut permissions = fs::metadata(shell.path("p.json")).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(shell.path("p.json"), permissions).unwrap();
    shell.error("prove mix --lg 6 --out p.json", &["p.json", "read-only"]);
    assert_eq!(fs::read(shell.path("p.json")).unwrap(), b"last");
    assert_eq!(fs::read_dir(shell.dir.path()).unwrap().count(), 1);
}

#[cfg(unix)]
#[test]
fn an_output_that_is_no_file_is_written_to_and_stays() {
    use std::os::unix::fs::FileTypeExt;
    let shell = Shell::new();
    let pipe = shell.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let through_pipe = |line: &str| {
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read(pipe).unwrap()
        });
        let printed = shell.json(line);
        assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo(), "{line}");
        (printed, reader.join().unwrap())
    };
    let (printed, read) = through_pipe("prove mix --lg 6 --json --out pipe");
    assert_eq!(printed, serde_json::from_slice::<Value>(&read).unwrap());
    for (other, option) in [("m.vk", "--out pipe --vk-out m.vk"), ("m", "--out m --vk-out pipe")] {
        let line = format!("params generate mix --lg 6 --json --insecure-seed 1 {option}");
        let (_, read) = through_pipe(&line);
        let written = fs::read(shell.path(other)).unwrap();
        let (long, short) = if other == "m" { (&written, &read) } else { (&read, &written) };
        assert!(!short.is_empty() && long.len() > short.len());
        assert_eq!(&long[..short.len()], &short[..], "the key starts the parameters");
    }
    assert_eq!(fs::read_dir(shell.dir.path()).unwrap().count(), 3);
}

#[cfg(unix)]
#[test]
fn an_input_that_is_no_file_is_an_error_at_once() {
    let shell = Shell::new();
    assert!(Command::new("mkfifo").arg(shell.path("pipe")).status().unwrap().success());
    for line in [
        "params inspect pipe",
        "params check pipe",
        "prove mix --lg 6 --params pipe",
        "verify mix --lg 6 --proof pipe",
        "params inspect .",
    ] {
        shell.error(line, &[line.split(' ').next_back().unwrap(), "not a regular file"]);
    }
    shell.json("prove mix --lg 6 --json --out p.json");
    shell.error("verify mix --lg 6 --params pipe --proof p.json", &["pipe", "not a regular file"]);
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let mut child = program()
        .args(["devices", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), &ended.stderr[..]), (Some(0), &b""[..]));
}
