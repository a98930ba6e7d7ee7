// Buckets, filled by a digit plan.
//
// Work is cut by position in the sorted entries, not by bucket, so a bucket of a million points
// costs what a million points in many buckets cost. A run of entries of one window belongs to one
// thread; runs are numbered over all windows, and their length follows from the plan, so that few
// entries keep as many threads busy as many do. A bucket that starts in the run is its own: it
// begins from the accumulator and ends there. What the run adds to a bucket of an earlier run is
// its *head*, a point and the bucket's number over all windows as key. Heads of one bucket lie side
// by side; they are folded in runs by the same rule, level by level, until one run is left, which
// can have no head.
#pragma once

#include "kept_sum.cuh"

namespace msm {

// Blocks' sizes and lengths of runs are in ../src/sizes.rs. The key of a run without a head.
constexpr uint32_t NO_KEY = ~0u;
constexpr uint32_t NO_BASE = ~0u;
constexpr uint32_t SIGN = 0x80000000u;

template <class F>
static TL_HD const char *point_at(const char *points, uint64_t index) {
    return points + index * sizeof(Xyzz<F>);
}
template <class F>
static TL_HD char *point_at(char *points, uint64_t index) {
    return points + index * sizeof(Xyzz<F>);
}

// A plan, see digits.cuh, and how it is cut into runs.
struct Plan {
    const uint32_t *offsets;
    const uint32_t *entries;
    uint32_t num_windows, num_buckets, len;
    uint64_t stride;

    TL_HD const uint32_t *table(uint32_t window) const {
        return offsets + uint64_t(window) * (num_buckets + 1);
    }

    // No plan of `len` scalars has more, but anybody's bytes may.
    TL_HD uint32_t count(uint32_t window) const {
        const uint32_t count = table(window)[num_buckets];
        return count < len ? count : len;
    }

    // The bucket that owns a position, at or behind the bucket `low`.
    TL_HD uint32_t bucket_at(const uint32_t *table, uint32_t low, uint32_t position) const {
        uint32_t high = num_buckets;
        while (low + 1 < high) {
            const uint32_t middle = low + (high - low) / 2;
            if (table[middle] <= position)
                low = middle;
            else
                high = middle;
        }
        return low;
    }
};

// The runs of a plan: the length of all but a window's last, then each window's first run, then
// the number of runs.
struct Runs {
    uint32_t *words;

    TL_HD uint32_t len() const { return words[0]; }
    TL_HD uint32_t first(uint32_t window) const { return words[1 + window]; }

    // One thread. `counts` are the windows' entries; `resident` is the number of threads that the
    // device keeps at once.
    TL_HD void plan(const uint32_t *counts, uint32_t num_windows, uint32_t resident) const {
        uint64_t total = 0;
        for (uint32_t w = 0; w < num_windows; w++) total += counts[w];
        uint64_t len = 0;
        for (uint32_t waves = MAX_WAVES; waves != 0 && len < GOOD_RUN_LEN; waves--) {
            const uint64_t threads = uint64_t(waves) * resident;
            len = (total + threads - 1) / threads;
        }
        if (len < MIN_RUN_LEN) len = MIN_RUN_LEN;
        words[0] = uint32_t(len);
        uint32_t runs = 0;
        for (uint32_t w = 0; w < num_windows; w++) {
            words[1 + w] = runs;
            runs += uint32_t((counts[w] + len - 1) / len);
        }
        words[1 + num_windows] = runs;
    }

    TL_HD uint32_t window_of(uint32_t num_windows, uint32_t run) const {
        uint32_t low = 0, high = num_windows;
        while (low + 1 < high) {
            const uint32_t middle = (low + high) / 2;
            if (first(middle) <= run)
                low = middle;
            else
                high = middle;
        }
        return low;
    }
};

// Bases by the number of their scalar, table by table. Kernels for one table know that there is no
// other: they have no register to spare.
template <bool HAS_TABLES>
struct Bases {
    const char *points;
    // Base numbers by scalar, or null where they are the same.
    const uint32_t *indices;
    // Base i of the map is points[i - first] of each table; outside there is none.
    uint32_t first, num_bases;
    uint32_t num_scalars, tables;
    // Points of a table, `num_bases` or more.
    uint32_t table_len;

    // NO_BASE if there is none.
    TL_HD uint32_t index(uint32_t entry) const {
        uint32_t index = entry & ~SIGN, table = 0;
        if constexpr (HAS_TABLES) {
            table = index / num_scalars;
            if (table >= tables) return NO_BASE;
            index -= table * num_scalars;
        }
        if (indices != nullptr) {
            // An entry never names a scalar past the last one, unless the plan is none.
            index = index < num_scalars ? indices[index] : NO_BASE;
            if (index == NO_BASE) return NO_BASE;
        }
        index -= first;
        return index < num_bases ? table * table_len + index : NO_BASE;
    }

    template <class F>
    TL_HD const char *at(uint32_t index) const {
        return points + uint64_t(index) * sizeof(Affine<F>);
    }
};

TL_HD void prefetch(const char *at) {
#ifdef __CUDA_ARCH__
    asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
#else
    (void)at;
#endif
}

// Where sums go: a run's head, or the accumulator's bucket.
struct Sums {
    char *accumulator;
    char *heads;
    uint32_t *keys;

    template <class F, class Sum>
    TL_HD void store(bool is_head, uint32_t run, uint32_t bucket, const Sum &sum) const {
        sum.store(is_head ? point_at<F>(heads, run) : point_at<F>(accumulator, bucket));
        if (is_head) keys[run] = bucket;
    }
};

// A run of entries, and the bucket that its owner is filling: `Sum` is a `KeptSum`.
template <class F, class Sum>
class Run {
    const Plan &plan;
    const Sums &sums;
    const uint32_t *table;
    uint32_t run, first_bucket, bucket, bucket_end;
    bool is_head;

  public:
    const uint32_t *entries;
    uint32_t begin, end;
    Sum sum;

    // Whether there is such a run; its key is written.
    static TL_HD bool exists(const Plan &plan, const Runs &runs, const Sums &sums,
                             uint32_t max_runs, uint32_t run) {
        if (run >= max_runs) return false;
        sums.keys[run] = NO_KEY;
        return run < runs.first(plan.num_windows);
    }

    TL_HD Run(const Plan &plan, const Runs &runs, const Sums &sums, const Sum &sum, uint32_t run)
        : plan(plan), sums(sums), run(run), sum(sum) {
        const uint32_t window = runs.window_of(plan.num_windows, run);
        table = plan.table(window);
        entries = plan.entries + window * plan.stride;
        first_bucket = window * plan.num_buckets;
        begin = (run - runs.first(window)) * runs.len();
        const uint32_t rest = plan.count(window) - begin;
        end = begin + (rest < runs.len() ? rest : runs.len());
        bucket = plan.bucket_at(table, 0, begin);
        bucket_end = table[bucket + 1];
        is_head = table[bucket] < begin;
        if (is_head)
            sum.clear();
        else
            load();
    }

    // Makes `sum` that of the bucket that owns a position, not before the last one asked for.
    TL_HD void move_to(uint32_t position) {
        if (position < bucket_end || bucket + 1 >= plan.num_buckets) return;
        flush();
        is_head = false;
        bucket++;
        if (table[bucket + 1] <= position) bucket = plan.bucket_at(table, bucket, position);
        bucket_end = table[bucket + 1];
        load();
    }

    TL_HD void load() const { sum.load(point_at<F>(sums.accumulator, first_bucket + bucket)); }
    TL_HD void flush() const { sums.store<F>(is_head, run, first_bucket + bucket, sum); }
};

// One thread a run; `max_runs` keys are written.
template <class F, bool HAS_TABLES, class Sum>
static TL_HD void accumulate(const Plan &plan, const Runs &runs, const Bases<HAS_TABLES> &bases,
                             const Sums &sums, const Sum &sum, uint32_t max_runs, uint32_t id) {
    if (!Run<F, Sum>::exists(plan, runs, sums, max_runs, id)) return;
    Run<F, Sum> run(plan, runs, sums, sum, id);
    // Entries without a base are passed over before an addition, so that the threads of a warp
    // add together.
    uint32_t ahead = run.begin, entry = 0, index = NO_BASE;
    auto advance = [&]() {
        index = NO_BASE;
        while (ahead < run.end && index == NO_BASE) {
            entry = run.entries[ahead++];
            index = bases.index(entry);
        }
    };
    advance();
    while (index != NO_BASE) {
        run.move_to(ahead - 1);
        const bool negate = (entry & SIGN) != 0;
        Affine<F> point = Affine<F>::load_read_only(bases.template at<F>(index));
        advance();
        if (index != NO_BASE) {
            prefetch(bases.template at<F>(index));
            prefetch(bases.template at<F>(index) + sizeof(Affine<F>) - 1);
        }
        if (negate) point.y = -point.y;
        run.sum.add(point);
    }
    run.flush();
}

// A level of heads: `runs_in` of them from `in_first`, folded in runs of `run_len` to the next
// level's from `out_first`.
struct Level {
    uint32_t runs_in, run_len, in_first, out_first;

    TL_HD uint32_t runs_out() const { return (runs_in + run_len - 1) / run_len; }
};

// One thread a run of heads.
template <class F, class Sum>
static TL_HD void fold(const Sums &sums, const Level &level, const Sum &sum, uint32_t id) {
    if (id >= level.runs_out()) return;
    const uint32_t begin = id * level.run_len;
    const uint32_t end =
        begin + level.run_len < level.runs_in ? begin + level.run_len : level.runs_in;
    const uint32_t *keys = sums.keys + level.in_first;
    const char *heads = point_at<F>(sums.heads, level.in_first);
    const uint32_t run = level.out_first + id;
    sums.keys[run] = NO_KEY;
    uint32_t current = NO_KEY;
    bool is_head = false;
    for (uint32_t i = begin; i < end; i++) {
        const uint32_t key = keys[i];
        if (key != current) {
            if (current != NO_KEY) sums.store<F>(is_head, run, current, sum);
            current = key;
            is_head = key != NO_KEY && i == begin && i != 0 && keys[i - 1] == key;
            if (is_head)
                sum.clear();
            else if (key != NO_KEY)
                sum.load(point_at<F>(sums.accumulator, key));
        }
        if (key != NO_KEY) sum.add_stored(point_at<F>(heads, i));
    }
    if (current != NO_KEY) sums.store<F>(is_head, run, current, sum);
}

}  // namespace msm
