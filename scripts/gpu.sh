#!/usr/bin/env bash
# Tests and measures on a machine that has a GPU and its driver, but no Rust.
#
#   scripts/gpu.sh gather            build here, put stripped programs into .carry/ (64 MiB at most)
#   scripts/gpu.sh run BACKEND...    there, from the copied folder: tests, then benchmarks, then a table
#   scripts/gpu.sh sanitize          there: CUDA kernels at small sizes under compute-sanitizer
#
# BACKEND is cuda or wgsl. Logs and results go to $OUT (default .carry/out). What is run can be
# narrowed: STEPS="conformance device bench prove", CONFORMANCE_LG=14, NTT_LG=16..24, G1_LG=16..22,
# G2_LG=14..18, PROVE_LG=18, ITERATIONS=20. SANITIZER names compute-sanitizer where it is not in PATH.
# For CUDA, gather needs nvcc and builds for TWINLOCK_CUDA_ARCHS (default 90).
set -euo pipefail
cd "$(dirname "$0")/.."
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
    [[ " ${STEPS:-conformance device bench prove} " == *" $1 "* ]]
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
            step "bench-$backend-ntt" "${bench[@]}" ntt --lg "${NTT_LG:-16..24}"
            step "bench-$backend-g1" "${bench[@]}" msm-g1 --lg "${G1_LG:-16..22}"
            step "bench-$backend-g1-porep" "${bench[@]}" msm-g1 --lg "${G1_LG:-16..22}" --scalars porep
            step "bench-$backend-g2" "${bench[@]}" msm-g2 --lg "${G2_LG:-14..18}"
        fi
        if wanted prove; then
            step "prove-$backend" "$carry/twinlock" prove mix --lg "${PROVE_LG:-18}" \
                --partitions 4 --device "$device" --timeline "$out/timeline-$backend.json"
        fi
    done
    for log in "$out"/bench-*.log "$out"/prove-*.log; do
        [ -e "$log" ] || continue
        echo "== $(basename "$log" .log)"
        tail -25 "$log" | cut -c1-160
    done
    cat "$out/summary.txt"
}

# Each tool over the suite at small sizes, but for trials whose faults are meant.
sanitize() {
    local sanitizer=${SANITIZER:-compute-sanitizer}
    # Mapped memory comes in pieces of 2 MiB, in which a stray access goes unseen.
    export TWINLOCK_CUDA_PLAIN_ALLOCATIONS=1 TWINLOCK_REQUIRE=cuda
    for tool in ${TOOLS:-memcheck racecheck}; do
        step "$tool" env TWINLOCK_MAX_LG="${CONFORMANCE_LG:-8}" "$sanitizer" --tool "$tool" \
            --error-exitcode 9 "$carry/conformance-cuda" --skip poison --skip memory:: \
            ${SANITIZE_FILTER:-cuda:0}
        grep -E "ERROR SUMMARY|RACECHECK SUMMARY|^========= (Invalid|Error|Race)" "$out/$tool.log" |
            sort | uniq -c | sort -rn | cut -c1-200 | head -20
    done
    cat "$out/summary.txt"
}

command=${1:-}
shift || true
out=${OUT:-$carry/out}
case "$command" in
gather) gather "$@" ;;
run | sanitize)
    mkdir -p "$out"
    : >"$out/summary.txt"
    "$command" "$@"
    ;;
*)
    sed -n '2,13s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
