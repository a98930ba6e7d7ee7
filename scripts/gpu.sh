#!/usr/bin/env bash
# Tests and measures on a machine that has a GPU and its driver, but no Rust.
#
#   scripts/gpu.sh gather [ARGS]     build here, put stripped programs into .carry/ (64 MiB at most)
#   scripts/gpu.sh run BACKEND...    there, from the copied folder: tests, sizes, products, small proofs
#   scripts/gpu.sh tables BACKEND TABLE...   there: what a table of benches/RESULTS.md is made of
#   scripts/gpu.sh scenes [SCENE...] there: the whole program under load, short of memory, on several devices
#   scripts/gpu.sh pair              there: a job on two cards against one
#   scripts/gpu.sh sanitize          there: CUDA kernels at small sizes under compute-sanitizer
#
# BACKEND is cuda or wgsl. TABLE, by what it repeats:
#   sizes        NTT; G1 MSM on random scalars, bits and PoRep's statistics; G2 MSM: each at several sizes
#   proofs       proofs of mix even and bits after synthesis (wgsl: beside the CPU)
#   base-tables  cuda: MSMs, proofs and a job with T tables of multiples, T = $TABLES (1 2 4 7 13)
#   steps        MSMs by step (--breakdown)
#   products     field products and squares a second
#   arithmetic   wgsl: NTT 2^22, G1 2^20, G2 2^16 with each arithmetic
#   conformance  the suite at 2^$CONFORMANCE_LG (cuda 16, wgsl 13); NTT and MSM at the largest sizes
# SCENE (all if none is named): open load streamed mixed many processes locks same.
#
# Sizes are lists of base-2 logarithms: NTT_LGS, G1_LGS, BITS_LGS, POREP_LGS, G2_LGS, PROVE_LGS, TABLE_LGS.
# ITERATIONS (20) are the runs of a median. All ends LIMIT seconds (570) after the start: what is left
# is told as NOT RUN, to be run by a call of its own with fewer tables or sizes; a step may take STEP_LIMIT
# (300), for one may hang. STEPS narrows run:
# "device product conformance sizes proofs prove locks". Logs and results go to $OUT (default .carry/out).
# SANITIZER names compute-sanitizer where it is not in PATH; KEYS is a folder for large keys (/tmp).
# For CUDA, gather needs nvcc and builds for TWINLOCK_CUDA_ARCHS (default 90). ARGS go to cargo: with
# `--features sapling` the program proves Sapling too, and has 50 MB more; PROGRAM_ONLY=1 leaves room
# for that by leaving the tests out.
set -euo pipefail
self=$(realpath "$0")
cd "$(dirname "$self")/.."
carry=.carry
twinlock=$carry/twinlock

# test_programs SUFFIX ARGS...: copies the test programs that cargo builds by ARGS, as TARGET-SUFFIX. It
# tells their paths in JSON only.
test_programs() {
    local suffix=$1
    shift
    cargo test --release --locked --no-run --message-format=json "$@" |
        sed -n 's/.*"kind":\["test"\].*"name":"\([a-z_]*\)","src_path.*"executable":"\([^"]*\)".*/\1 \2/p' |
        while read -r target program; do
            cp "$program" "$carry/$target-$suffix"
        done
}

gather() {
    export TWINLOCK_CUDA_ARCHS=${TWINLOCK_CUDA_ARCHS:-90}
    rm -rf "$carry" && mkdir -p "$carry"
    # Without Sapling's parameters, unless ARGS ask for them.
    cargo build --release --locked -p twinlock --bin twinlock \
        --no-default-features --features cli,cuda,wgsl "$@"
    cp target/release/twinlock "$carry/"
    if [ -z "${PROGRAM_ONLY:-}" ]; then
        # Field products a second.
        cargo build --release --locked -p twinlock-cuda --features kernels --example products
        cp target/release/examples/products "$carry/products-cuda"
        cargo build --release --locked -p twinlock-wgsl --example throughput
        cp target/release/examples/throughput "$carry/products-wgsl"
        test_programs cuda -p twinlock-cuda --features kernels
        test_programs wgsl -p twinlock-wgsl
        # The whole product on each backend.
        test_programs product -p twinlock --test devices --no-default-features --features cli,cuda,wgsl
        local file
        for file in {device,conformance,products}-{cuda,wgsl} devices-product; do
            [ -x "$carry/$file" ] || { echo "$file was not built" >&2 && return 1; }
        done
    fi
    strip --strip-all "$carry"/*
    local mebibytes
    mebibytes=$(du -sm "$carry" | cut -f1)
    du -h "$carry"/*
    [ "$mebibytes" -le 64 ] || {
        echo "$carry has $mebibytes MiB, 64 can be carried" >&2
        return 1
    }
}

# Runs a program until the deadline at most, and no longer than a step may take.
in_time() {
    local left=$((deadline - SECONDS)) most=${STEP_LIMIT:-300}
    [ "$left" -gt 0 ] || return 124
    [ "$left" -lt "$most" ] || left=$most
    timeout --kill-after=10 "$left" "$@"
}

# One line a step: what, how it ended, how long it took. None goes on past the deadline.
step() {
    local name=$1 start=$SECONDS status=ok
    shift
    # Of an earlier call.
    rm -f "$out/$name.log"
    if [ "$SECONDS" -ge "$deadline" ]; then
        status="NOT RUN"
    else
        in_time "$@" >"$out/$name.log" 2>&1 || status="FAILED ($?)"
    fi
    printf '%-40s %-12s %5d s\n' "$name" "$status" $((SECONDS - start)) | tee -a "$out/summary.txt"
}

wanted() {
    [[ " ${STEPS:-device product conformance sizes proofs prove locks} " == *" $1 "* ]]
}

# What a log says of failures, at most so many lines.
failures() {
    [ ! -e "$1" ] ||
        grep -E "^(test .*FAILED|---- |test result)|panicked|CUDA_ERROR|failed:" "$1" | cut -c1-200 | head -"$2" || true
}

# measure NAME "LGS" DEVICES WHAT ARGS...: one process a size.
measure() {
    local name=$1 lgs=$2 devices=$3 lg
    shift 3
    for lg in $lgs; do
        step "bench-$name-$lg" "$twinlock" bench --iterations "${ITERATIONS:-20}" --device "$devices" --lg "$lg" "$@"
    done
}

# Everything that was measured, a line each: medians and fastest runs in ms, then what else there is.
results() {
    local log
    [ -e "$out/devices.txt" ] && cat "$out/devices.txt"
    for log in "$out"/bench-*.log; do
        [ ! -e "$log" ] || awk -v name="$(basename "$log" .log)" '
            /^lg +device/ { head = $0 }
            /^[0-9]+ +[a-z]+(:[0-9]+)? / {
                if (NF > 4 && head != "") { print "  " head; head = "" }
                printf "%-34s %s\n", name, $0
            }
            / G\/s/ { printf "%-34s %s\n", name, $0 }' "$log"
    done
    for log in "$out"/{prove,locks}-*.log; do
        [ ! -e "$log" ] || { echo "== $(basename "$log" .log)"; shown "$log"; }
    done
    cat "$out/summary.txt"
}

# What a run of the program says of itself, without the proofs.
shown() {
    grep -E "^(times|cuda|wgsl|cpu|lg |[0-9]+ )|verified|generated|error" "$1" | cut -c1-170 || true
}

table() {
    local backend=$1 device=$1:0 what=$2 tables arithmetic
    export TWINLOCK_REQUIRE=$backend
    case "$backend $what" in
    "cuda sizes")
        measure cuda-ntt "${NTT_LGS:-16 18 20 22 24 26 27}" "$device" ntt
        measure cuda-g1 "${G1_LGS:-16 18 20 22 24 26}" "$device" msm-g1
        measure cuda-g1-porep "${POREP_LGS:-20 22 24}" "$device" msm-g1 --scalars porep
        measure cuda-g1-bits "${BITS_LGS:-20}" "$device" msm-g1 --scalars bits
        measure cuda-g2 "${G2_LGS:-16 18 20 22 24}" "$device" msm-g2
        measure cuda-g2-bits "${BITS_LGS:-20}" "$device" msm-g2 --scalars bits
        ;;
    "wgsl sizes")
        measure wgsl-ntt "${NTT_LGS:-16 20 22 24 25}" "$device" ntt
        measure wgsl-g1 "${G1_LGS:-16 20 22}" "$device" msm-g1
        measure wgsl-g1-porep "${POREP_LGS:-20}" "$device" msm-g1 --scalars porep
        measure wgsl-g1-bits "${BITS_LGS:-16 20 22}" "$device" msm-g1 --scalars bits
        measure wgsl-g2 "${G2_LGS:-16 17 18 20}" "$device" msm-g2
        measure wgsl-g2-bits "${BITS_LGS:-16}" "$device" msm-g2 --scalars bits
        ;;
    "cuda proofs")
        measure cuda-prove-even "${PROVE_LGS:-20 22 24}" "$device" prove
        measure cuda-prove-bits "${PROVE_LGS:-20 22 24}" "$device" prove --scalars bits
        ;;
    "wgsl proofs")
        measure wgsl-prove-even "${PROVE_LGS:-16 18}" "$device,cpu" prove
        measure wgsl-prove-bits "${PROVE_LGS:-16 18}" "$device,cpu" prove --scalars bits
        ;;
    "cuda base-tables")
        for tables in ${TABLES:-1 2 4 7 13}; do
            measure "cuda-g1-tables-$tables" "${TABLE_LGS:-20 22 24}" "$device" msm-g1 --base-tables "$tables"
            measure "cuda-g2-tables-$tables" "${TABLE_LGS:-20 22 24}" "$device" msm-g2 --base-tables "$tables"
        done
        for tables in 1 13; do
            measure "cuda-g1-porep-tables-$tables" 24 "$device" msm-g1 --scalars porep --base-tables "$tables"
            measure "cuda-prove-tables-$tables" 22 "$device" prove --base-tables "$tables"
            step "prove-cuda-tables-$tables" "$twinlock" prove mix --lg 22 --partitions 8 --device "$device" \
                --synthesize-first --base-tables "$tables"
        done
        ;;
    "cuda steps")
        measure cuda-g1-steps "20 26" "$device" msm-g1 --breakdown
        measure cuda-g2-steps 20 "$device" msm-g2 --breakdown
        ;;
    "wgsl steps")
        measure wgsl-g1-steps 20 "$device" msm-g1 --breakdown
        ;;
    "cuda products" | "wgsl products")
        step "bench-$backend-products" "$carry/products-$backend"
        ;;
    "wgsl arithmetic")
        for arithmetic in wide sparse narrow; do
            export TWINLOCK_WGSL_ARITHMETIC=$arithmetic
            measure "wgsl-ntt-$arithmetic" 22 "$device" ntt
            measure "wgsl-g1-$arithmetic" 20 "$device" msm-g1
            measure "wgsl-g2-$arithmetic" 16 "$device" msm-g2
        done
        unset TWINLOCK_WGSL_ARITHMETIC
        ;;
    "cuda conformance")
        suite all "${CONFORMANCE_LG:-16}" "$device"
        suite large 26 ::large
        suite past 25 ::past_2
        ;;
    "wgsl conformance")
        suite all "${CONFORMANCE_LG:-13}" "$device"
        suite ntt 24 ntt::large
        suite g1 22 msm_g1::large
        suite g2 20 msm_g2::large
        suite past 25 ::past_2
        ;;
    *)
        echo "there is no table $what of $backend" >&2
        return 2
        ;;
    esac
}

# suite NAME LG FILTER: conformance trials whose names have FILTER, up to 2^LG.
suite() {
    step "conformance-$backend-$1" env TWINLOCK_MAX_LG="$2" "$carry/conformance-$backend" "$3" ${CONFORMANCE_ARGS:-}
    failures "$out/conformance-$backend-$1.log" 40
}

tables() {
    local backend=$1 what
    shift
    in_time "$twinlock" devices >"$out/devices.txt"
    for what in "$@"; do
        table "$backend" "$what"
    done
    results
}

run() {
    in_time "$twinlock" devices | tee "$out/devices.txt"
    for backend in "$@"; do
        local device=$backend:0
        export TWINLOCK_REQUIRE=$backend
        if wanted device; then
            step "device-$backend" "$carry/device-$backend"
            failures "$out/device-$backend.log" 40
        fi
        if wanted product; then
            step "product-$backend" env TWINLOCK_PROGRAM="$(realpath "$twinlock")" "$carry/devices-product" "$backend::"
            failures "$out/product-$backend.log" 40
        fi
        if wanted conformance; then
            suite all "${CONFORMANCE_LG:-14}" "$device"
        fi
        if wanted sizes; then
            table "$backend" products
            table "$backend" sizes
        fi
        if wanted proofs; then
            PROVE_LGS=${PROVE_LGS:-18} table "$backend" proofs
        fi
        if wanted prove; then
            step "prove-$backend" "$twinlock" prove mix --lg "${PROVE_LG:-18}" \
                --partitions 4 --device "$device" --timeline "$out/timeline-$backend.json"
        fi
        if wanted locks; then
            step "locks-$backend" "$twinlock" bench locks --lg "${LOCKS_LG:-20}" \
                --memory "${LOCKS_MEMORY:-16GiB}" --device "$device"
        fi
    done
    results
}

# Samples the first card's memory (MiB) every 20 ms into a file; its process is `sampler`.
sample_card() {
    : >"$1"
    # Unbuffered, or what a buffer holds is lost with the process.
    stdbuf -oL nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0 -lms 20 >"$1" 2>/dev/null &
    sampler=$!
    for _ in {1..100}; do
        [ ! -s "$1" ] || return 0
        sleep 0.05
    done
    echo "nvidia-smi gives no samples" >&2
}

# The most device memory (MiB) and host memory (MiB) seen while a program runs; its output goes to a
# log.
watched() {
    local name=$1 device host samples status=ok pid sampler start
    shift
    if [ "$SECONDS" -ge "$deadline" ]; then
        printf '%-28s NOT RUN\n' "$name" | tee -a "$out/summary.txt"
        return
    fi
    sample_card "$out/$name.card"
    : >"$out/$name.host"
    start=$SECONDS
    "$@" >"$out/$name.log" 2>&1 &
    pid=$!
    while kill -0 "$pid" 2>/dev/null; do
        awk '/VmRSS/ { print int($2 / 1024) }' "/proc/$pid/status" >>"$out/$name.host" 2>/dev/null || true
        [ "$SECONDS" -lt "$deadline" ] || kill -9 "$pid" 2>/dev/null || true
        sleep 0.05
    done
    wait "$pid" || status="FAILED ($?)"
    kill "$sampler" 2>/dev/null || true
    wait "$sampler" 2>/dev/null || true
    samples=$(wc -l <"$out/$name.card")
    device=$(sort -n "$out/$name.card" | tail -1)
    host=$(sort -n "$out/$name.host" | tail -1)
    printf '%-28s %-12s device %6d MiB (%d samples), host %6d MiB at most, %d s\n' \
        "$name" "$status" "${device:-0}" "$samples" "${host:-0}" $((SECONDS - start)) | tee -a "$out/summary.txt"
    shown "$out/$name.log"
}

# Lines of a file after a tenth, a half and all of it.
course() {
    awk '{ line[NR] = $0 } END { print line[int(NR / 10) + 1], line[int(NR / 2) + 1], line[NR] }' "$1"
}

scenes() {
    local keys=${KEYS:-/tmp} scene
    [ $# -gt 0 ] || set -- open load streamed mixed many processes locks same
    echo "the card's memory before anything: $(nvidia-smi --query-gpu=memory.used --format=csv,noheader -i 0)" |
        tee -a "$out/summary.txt"
    for scene in "$@"; do
        "scene_$scene"
    done
    cat "$out/summary.txt"
}

# A key of `mix` even in $keys, made once.
key() {
    [ -e "$keys/mix$1" ] || watched "generate-$1" "$twinlock" params generate mix --lg "$1" --device cuda:0 --out "$keys/mix$1"
}

# The context and next to nothing else: an NTT of one element has three pieces of 2 or 4 MiB.
scene_open() {
    watched open "$twinlock" bench ntt --device cuda:0 --lg 0 --iterations 10000
}

# As it is, and with kernels timed, which says for how much of the time they ran and costs a little.
scene_load() {
    key 22
    watched six-partitions "$twinlock" prove mix --lg 22 --params "$keys/mix22" --partitions 6 \
        --device cuda:0 --synthesize-first --timeline "$out/timeline-six.json"
    watched six-partitions-profiled env TWINLOCK_CUDA_PROFILE=1 "$twinlock" prove mix --lg 22 --params "$keys/mix22" \
        --partitions 6 --device cuda:0 --synthesize-first
    grep -h "^cuda:0 kernels" "$out/six-partitions-profiled.log" | tee -a "$out/summary.txt" ||
        echo "six-partitions-profiled FAILED to tell when kernels ran" | tee -a "$out/summary.txt"
}

scene_streamed() {
    key 22
    watched one-gibibyte "$twinlock" prove mix --lg 22 --params "$keys/mix22" --device cuda:0 \
        --memory 1GiB --timeline "$out/timeline-1gib.json"
}

scene_mixed() {
    key 16
    watched several-devices "$twinlock" prove mix --lg 16 --params "$keys/mix16" --partitions 24 \
        --device cuda:0,wgsl:0,cpu --synthesize-first
}

scene_many() {
    watched thousand-proofs "$twinlock" prove mix --lg 12 --partitions 1000 --device cuda:0
    echo "MiB of the card and of the host after a tenth, a half and all of the time:"
    course "$out/thousand-proofs.card"
    course "$out/thousand-proofs.host"
}

scene_processes() {
    in_time "$twinlock" prove mix --lg 18 --partitions 20 --device cuda:0 >"$out/other.log" 2>&1 &
    local other=$!
    watched two-processes "$twinlock" prove mix --lg 18 --partitions 20 --device cuda:0
    wait "$other" || echo "two-processes: the other FAILED ($?)" | tee -a "$out/summary.txt"
    grep verified "$out/other.log" || true
}

scene_locks() {
    step locks-cuda "$twinlock" bench locks --device cuda:0 --lg "${LOCKS_LG:-22}" --memory 16GiB
    cat "$out/locks-cuda.log"
}

# The same proofs on cuda:0 and on the CPU, for the same r and s; Sapling's where the program has it.
scene_same() {
    local circuit device
    for circuit in "mix --lg 16 --profile bits" sapling-spend sapling-output; do
        local name=same-${circuit%% *}
        for device in cuda:0 cpu; do
            # shellcheck disable=SC2086
            in_time "$twinlock" prove $circuit --device "$device" --insecure-seed 7 --json \
                >"$out/$name-${device%:0}.json" 2>"$out/$name.log" || break
        done
        if grep -q "no circuit named" "$out/$name.log"; then
            echo "$name: not in this program" | tee -a "$out/summary.txt"
        elif grep -h '"proof"' "$out/$name-cuda.json" >"$out/$name.a" &&
            grep -h '"proof"' "$out/$name-cpu.json" | cmp -s - "$out/$name.a"; then
            echo "$name: the same proof on cuda:0 and cpu" | tee -a "$out/summary.txt"
        else
            echo "$name FAILED: not the same proof on cuda:0 and cpu" | tee -a "$out/summary.txt"
        fi
    done
}

pair() {
    local keys=${KEYS:-/tmp}
    in_time "$twinlock" devices
    key 22
    for round in 1 2 3; do
        for cards in 1 2; do
            local devices=cuda:0
            [ "$cards" = 1 ] || devices=cuda:0,cuda:1
            watched "job-$round-on-$cards" "$twinlock" prove mix --lg 22 --params "$keys/mix22" \
                --partitions "${PARTITIONS:-8}" --device "$devices" --synthesize-first \
                --timeline "$out/timeline-$round-on-$cards.json"
        done
    done
    watched unequal "$twinlock" prove mix --lg 22 --params "$keys/mix22" --partitions 12 \
        --device cuda:0,cuda:1 --memory "${UNEQUAL:-cuda:0=8GiB,cuda:1=1GiB}" --synthesize-first
}

# Each tool over the suite at small sizes, but for trials whose faults are meant, and those of wide
# windows, whose buckets take gigabytes.
sanitize() {
    local sanitizer=${SANITIZER:-compute-sanitizer}
    # Mapped memory comes in pieces of 2 MiB, in which a stray access goes unseen.
    export TWINLOCK_CUDA_PLAIN_ALLOCATIONS=1 TWINLOCK_REQUIRE=cuda
    for tool in ${TOOLS:-memcheck racecheck}; do
        step "$tool" env TWINLOCK_MAX_LG="${CONFORMANCE_LG:-8}" "$sanitizer" --tool "$tool" --report-api-errors no \
            --error-exitcode 9 "$carry/conformance-cuda" --skip poison --skip memory:: --skip wide_windows \
            ${SANITIZE_FILTER:-cuda:0}
        grep -E "ERROR SUMMARY|RACECHECK SUMMARY|^========= (Invalid|Error|Race)" "$out/$tool.log" |
            sort | uniq -c | sort -rn | cut -c1-200 | head -20 || true
    done
    cat "$out/summary.txt"
}

command=${1:-}
shift || true
out=${OUT:-$carry/out}
deadline=$((SECONDS + ${LIMIT:-570}))
case "$command" in
gather) gather "$@" ;;
run | tables | scenes | pair | sanitize)
    mkdir -p "$out"
    : >"$out/summary.txt"
    "$command" "$@"
    [ -s "$out/summary.txt" ] || { echo "nothing was run" >&2 && exit 1; }
    ! grep -E "FAILED|NOT RUN" "$out/summary.txt"
    ;;
*)
    awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$self"
    exit 2
    ;;
esac
