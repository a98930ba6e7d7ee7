// What blocks of digits.cuh do within shared memory: prefix sums, and sorting by small keys.
#pragma once

#include "constants.cuh"
#include "msm_atomic.cuh"

namespace digits {

// What a block sorts at once.
constexpr uint32_t TILE = SORT_THREADS * SORT_LEN;
constexpr uint32_t NONE = ~0u;

// Exclusive prefix sums of `len` words of one block, in three phases. Shared: SCAN_THREADS words
// of `sums`, SCAN_GROUPS of `groups`.
struct Scan {
    static constexpr uint32_t GROUP = SCAN_THREADS / SCAN_GROUPS;

    const uint32_t *values;
    uint32_t len;

    TL_HD uint32_t share() const { return (len + SCAN_THREADS - 1) / SCAN_THREADS; }
    TL_HD uint32_t begin(uint32_t thread) const { return min(thread * share(), len); }
    TL_HD uint32_t end(uint32_t thread) const { return min(begin(thread) + share(), len); }

    TL_HD void sum(uint32_t *sums, uint32_t thread) const {
        uint32_t total = 0;
        for (uint32_t i = begin(thread); i < end(thread); i++) total += values[i];
        sums[thread] = total;
    }

    TL_HD static void group(const uint32_t *sums, uint32_t *groups, uint32_t thread) {
        if (thread >= SCAN_GROUPS) return;
        uint32_t total = 0;
        for (uint32_t i = 0; i < GROUP; i++) total += sums[thread * GROUP + i];
        groups[thread] = total;
    }

    // The sum of what comes before a thread's first value.
    TL_HD static uint32_t before(const uint32_t *sums, const uint32_t *groups, uint32_t thread) {
        const uint32_t group = thread / GROUP;
        uint32_t total = 0;
        TL_UNROLL
        for (uint32_t i = 0; i < SCAN_GROUPS; i++) total += i < group ? groups[i] : 0;
        TL_UNROLL
        for (uint32_t i = 0; i < GROUP; i++)
            total += i < thread % GROUP ? sums[group * GROUP + i] : 0;
        return total;
    }

    static TL_HD uint32_t min(uint32_t a, uint32_t b) { return a < b ? a : b; }
};

// A block's items in the order of their keys: a word and a half of each. Phases: `clear`, then
// `count` for every item, `sum`, `group`, `start`, then `reserve` and `put`, of which neither reads
// what the other writes.
struct Sort {
    struct Registers {
        // Rank among those of the key, above it the key; NONE for no item.
        uint32_t word[SORT_LEN], rank[SORT_LEN];
    };
    static constexpr uint32_t RANK_BITS = 15;
    static_assert(TILE < (1u << RANK_BITS) && RANK_BITS + MAX_BIN_BITS < 32 &&
                      RANK_BITS + MAX_LOW_BITS < 32,
                  "fits a word");

    uint32_t num_keys;
    // Shared: `sort_shared_bytes` of ../src/digits.rs. Of items, of keys, of the scan with the
    // number of items at its end, then halves of items and of keys.
    uint32_t *words, *counts, *sums, *groups;
    uint16_t *halves, *starts;

    TL_HD Sort(uint32_t *shared, uint32_t key_bits) : num_keys(1u << key_bits) {
        words = shared;
        counts = words + TILE;
        sums = counts + num_keys;
        groups = sums + SCAN_THREADS;
        halves = reinterpret_cast<uint16_t *>(groups + SCAN_GROUPS + 1);
        starts = halves + TILE;
    }

    TL_HD uint32_t num_items() const { return groups[SCAN_GROUPS]; }
    TL_HD Scan scan() const { return Scan{counts, num_keys}; }

    TL_HD void clear(uint32_t thread) const {
        for (uint32_t i = thread; i < num_keys; i += SORT_THREADS) counts[i] = 0;
    }

    TL_HD uint32_t count(uint32_t key, bool is_item) const {
        return is_item ? atomic_add(&counts[key], 1) | (key << RANK_BITS) : NONE;
    }

    TL_HD void sum(uint32_t thread) const {
        if (thread < SCAN_THREADS) scan().sum(sums, thread);
    }

    TL_HD void group(uint32_t thread) const { Scan::group(sums, groups, thread); }

    TL_HD void start(uint32_t thread) const {
        if (thread >= SCAN_THREADS) return;
        const Scan keys = scan();
        uint32_t start = Scan::before(sums, groups, thread);
        for (uint32_t i = keys.begin(thread); i < keys.end(thread); i++) {
            starts[i] = uint16_t(start);
            start += counts[i];
        }
        if (thread == SCAN_THREADS - 1) groups[SCAN_GROUPS] = start;
    }

    // Takes room at each key's cursor. Counts become what leads from an item's place here to its
    // place there.
    TL_HD void reserve(uint32_t *cursors, uint32_t thread) const {
        for (uint32_t i = thread; i < num_keys; i += SORT_THREADS)
            if (counts[i] != 0) counts[i] = atomic_add(&cursors[i], counts[i]) - starts[i];
    }

    // `half(k, key)` goes with a thread's item k.
    template <class Half>
    TL_HD void put(const Registers &mine, Half half) const {
        TL_UNROLL
        for (uint32_t k = 0; k < SORT_LEN; k++) {
            if (mine.rank[k] == NONE) continue;
            const uint32_t key = mine.rank[k] >> RANK_BITS;
            const uint32_t at = starts[key] + (mine.rank[k] & ((1u << RANK_BITS) - 1));
            words[at] = mine.word[k];
            halves[at] = uint16_t(half(k, key));
        }
    }
};

}  // namespace digits
