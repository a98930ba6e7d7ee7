#!/usr/bin/env bash
# Tests and measures on a machine that has a GPU and its driver, but no Rust.
#
#   scripts/gpu.sh gather            build here, put stripped programs into .carry/ (64 MiB at most)
#   scripts/gpu.sh run BACKEND...    there, from the copied folder: tests, then benchmarks, then a table
#   scripts/gpu.sh scenes            there: the whole program under load, short of memory, on several devices
#   scripts/gpu.sh pair              there: a job on two cards against one
#   scripts/gpu.sh sanitize          there: CUDA kernels at small sizes under compute-sanitizer
#
# BACKEND is cuda or wgsl. Logs and results go to $OUT (default .carry/out). What is run can be
# narrowed: STEPS="device conformance bench prove locks", CONFORMANCE_LG=14, NTT_LG=16..24, G1_LG=16..22,
# G2_LG=14..18, PROVE_LG=18, LOCKS_LG=20, ITERATIONS=20. SANITIZER names compute-sanitizer where it is not in PATH.
# For CUDA, gather needs nvcc and builds for TWINLOCK_CUDA_ARCHS (default 90).
set -euo pipefail
self=$(realpath "$0")
cd "$(dirname "$self")/.."
carry=.carry

# The programs of a build, as "PACKAGE TARGET PATH"; cargo tells paths in JSON only.
test_programs() {
    cargo test --release --locked --no-run --message-format=json "$@" |
        sed -n 's/.*"package_id":"[^"]*#\([a-z-]*\)@.*"kind":\["test"\].*"name":"\([a-z_]*\)","src_path.*"executable":"\([^"]*\)".*/\1 \2 \3/p'
}

gather() {
    export TWINLOCK_CUDA_ARCHS=${TWINLOCK_CUDA_ARCHS:-90}
    rm -rf "$carry" && mkdir -p "$carry"
    # Without Sapling's parameters, which are 50 MB.
    cargo build --release --locked -p twinlock --bin twinlock \
        --no-default-features --features cli,cuda,wgsl "$@"
    cp target/release/twinlock "$carry/"
    # Field products a second.
    cargo build --release --locked -p twinlock-cuda --features kernels --example products
    cp target/release/examples/products "$carry/"
    test_programs -p twinlock-cuda -p twinlock-wgsl --features twinlock-cuda/kernels |
        while read -r package target program; do
            cp "$program" "$carry/$target-${package#twinlock-}"
        done
    strip --strip-all "$carry"/*
    local mebibytes
    mebibytes=$(du -sm "$carry" | cut -f1)
    du -h "$carry"/*
    [ "$mebibytes" -le 64 ] || {
        echo "$carry has $mebibytes MiB, 64 can be carried" >&2
        return 1
    }
}

# One line a step: what, how it ended, how long it took.
step() {
    local name=$1 start end status=ok
    shift
    start=$(date +%s)
    "$@" >"$out/$name.log" 2>&1 || status="FAILED ($?)"
    end=$(date +%s)
    printf '%-40s %-12s %5d s\n' "$name" "$status" $((end - start)) | tee -a "$out/summary.txt"
}

wanted() {
    [[ " ${STEPS:-device conformance bench prove locks} " == *" $1 "* ]]
}

# What a log says of failures, at most so many lines.
failures() {
    grep -E "^(test .*FAILED|---- |test result)|panicked|CUDA_ERROR|failed:" "$1" | cut -c1-200 | head -"$2" || true
}

run() {
    "$carry/twinlock" devices | tee "$out/devices.txt"
    for backend in "$@"; do
        local device=$backend:0
        local bench=("$carry/twinlock" bench --iterations "${ITERATIONS:-20}" --device "$device")
        export TWINLOCK_REQUIRE=$backend
        if wanted device; then
            step "device-$backend" "$carry/device-$backend"
            failures "$out/device-$backend.log" 40
        fi
        if wanted conformance; then
            step "conformance-$backend" env TWINLOCK_MAX_LG="${CONFORMANCE_LG:-14}" \
                "$carry/conformance-$backend" "$device" ${CONFORMANCE_ARGS:-}
            failures "$out/conformance-$backend.log" 40
        fi
        if wanted bench; then
            [ "$backend" != cuda ] || step "bench-cuda-products" "$carry/products"
            step "bench-$backend-ntt" "${bench[@]}" ntt --lg "${NTT_LG:-16..24}"
            step "bench-$backend-g1" "${bench[@]}" msm-g1 --lg "${G1_LG:-16..22}"
            step "bench-$backend-g1-porep" "${bench[@]}" msm-g1 --lg "${G1_LG:-16..22}" --scalars porep
            step "bench-$backend-g2" "${bench[@]}" msm-g2 --lg "${G2_LG:-14..18}"
        fi
        if wanted prove; then
            step "prove-$backend" "$carry/twinlock" prove mix --lg "${PROVE_LG:-18}" \
                --partitions 4 --device "$device" --timeline "$out/timeline-$backend.json"
        fi
        if wanted locks; then
            step "locks-$backend" "$carry/twinlock" bench locks --lg "${LOCKS_LG:-20}" \
                --memory "${LOCKS_MEMORY:-16GiB}" --device "$device"
        fi
    done
    for log in "$out"/bench-*.log "$out"/prove-*.log "$out"/locks-*.log; do
        [ -e "$log" ] || continue
        echo "== $(basename "$log" .log)"
        tail -25 "$log" | cut -c1-160
    done
    cat "$out/summary.txt"
}

# The most device memory (MiB) and host memory (MiB) seen while a program runs; its output goes to a log.
watched() {
    local name=$1 device=0 host=0 used resident pid
    shift
    "$@" >"$out/$name.log" 2>&1 &
    pid=$!
    : >"$out/$name.memory"
    while kill -0 "$pid" 2>/dev/null; do
        used=$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0)
        resident=$(awk '/VmRSS/ { print int($2 / 1024) }' "/proc/$pid/status" 2>/dev/null || true)
        echo "${used:-0} ${resident:-0}" >>"$out/$name.memory"
        sleep 0.25
    done
    wait "$pid" && status=ok || status="FAILED ($?)"
    read -r device host < <(awk '$1 > d { d = $1 } $2 > h { h = $2 } END { print d, h }' "$out/$name.memory")
    printf '%-28s %-10s device %6d MiB, host %6d MiB at most\n' "$name" "$status" "$device" "$host" |
        tee -a "$out/summary.txt"
    grep -E "^(times|cuda|wgsl|cpu)|verified|generated|error" "$out/$name.log" | cut -c1-170 || true
}

scenes() {
    local twinlock=$carry/twinlock keys=${KEYS:-/tmp}
    nvidia-smi --query-gpu=memory.used --format=csv,noheader -i 0
    watched generate-22 "$twinlock" params generate mix --lg 22 --device cuda:0 --out "$keys/mix22"
    watched generate-16 "$twinlock" params generate mix --lg 16 --device cuda:0 --out "$keys/mix16"
    watched six-partitions "$twinlock" prove mix --lg 22 --params "$keys/mix22" --partitions 6 \
        --device cuda:0 --synthesize-first --timeline "$out/timeline-six.json"
    watched one-gibibyte "$twinlock" prove mix --lg 22 --params "$keys/mix22" --device cuda:0 \
        --memory 1GiB --timeline "$out/timeline-1gib.json"
    watched several-devices "$twinlock" prove mix --lg 16 --params "$keys/mix16" --partitions 24 \
        --device cuda:0,wgsl:0,cpu --synthesize-first
    watched thousand-proofs "$twinlock" prove mix --lg 12 --partitions 1000 --device cuda:0
    echo "device and host MiB after a tenth, a half and all of it:"
    awk '{ line[NR] = $0 } END { print line[int(NR / 10) + 1]; print line[int(NR / 2)]; print line[NR - 1] }' \
        "$out/thousand-proofs.memory"
    "$twinlock" prove mix --lg 18 --partitions 20 --device cuda:0 >"$out/other.log" 2>&1 &
    local other=$!
    watched two-processes "$twinlock" prove mix --lg 18 --partitions 20 --device cuda:0
    wait "$other" || echo "two-processes: the other FAILED ($?)" | tee -a "$out/summary.txt"
    grep verified "$out/other.log" || true
    "$twinlock" bench locks --device cuda:0 --lg "${LOCKS_LG:-22}" --memory 16GiB | tee "$out/locks.log"
    for device in cuda:0 cpu; do
        "$twinlock" prove mix --lg 16 --profile bits --device "$device" --insecure-seed 7 --json |
            grep -E '"proof"' >"$out/same-$device.txt"
    done
    cmp "$out/same-cuda:0.txt" "$out/same-cpu.txt" && echo "the same proof on cuda:0 and cpu"
}

pair() {
    local twinlock=$carry/twinlock keys=${KEYS:-/tmp}
    "$twinlock" devices
    "$twinlock" params generate mix --lg 22 --device cuda:0 --out "$keys/mix22" | tail -1
    for round in 1 2; do
        for devices in cuda:0 cuda:0,cuda:1; do
            watched "job-$round-on-$devices" "$twinlock" prove mix --lg 22 --params "$keys/mix22" \
                --partitions "${PARTITIONS:-8}" --device "$devices" --synthesize-first \
                --timeline "$out/timeline-$devices.json"
        done
    done
    watched unequal "$twinlock" prove mix --lg 22 --params "$keys/mix22" --partitions 12 \
        --device cuda:0,cuda:1 --memory "${UNEQUAL:-cuda:0=8GiB,cuda:1=1GiB}" --synthesize-first
}

# Each tool over the suite at small sizes, but for trials whose faults are meant.
sanitize() {
    local sanitizer=${SANITIZER:-compute-sanitizer}
    # Mapped memory comes in pieces of 2 MiB, in which a stray access goes unseen.
    export TWINLOCK_CUDA_PLAIN_ALLOCATIONS=1 TWINLOCK_REQUIRE=cuda
    for tool in ${TOOLS:-memcheck racecheck}; do
        step "$tool" env TWINLOCK_MAX_LG="${CONFORMANCE_LG:-8}" "$sanitizer" --tool "$tool" --report-api-errors no \
            --error-exitcode 9 "$carry/conformance-cuda" --skip poison --skip memory:: \
            ${SANITIZE_FILTER:-cuda:0}
        grep -E "ERROR SUMMARY|RACECHECK SUMMARY|^========= (Invalid|Error|Race)" "$out/$tool.log" |
            sort | uniq -c | sort -rn | cut -c1-200 | head -20 || true
    done
    cat "$out/summary.txt"
}

command=${1:-}
shift || true
out=${OUT:-$carry/out}
case "$command" in
gather) gather "$@" ;;
run | scenes | pair | sanitize)
    mkdir -p "$out"
    : >"$out/summary.txt"
    "$command" "$@"
    ! grep FAILED "$out/summary.txt"
    ;;
*)
    sed -n '2,15s/^# \{0,1\}//p' "$self"
    exit 2
    ;;
esac
