// From scalars to a digit plan: cut, partition by the upper bits of the bucket, then count and
// place within shared memory.
//
// Digits are signed (Booth): a window of c bits, with the bit below it, gives a digit in
// -2^(c-1)..=2^(c-1) without a carry from window to window. A scalar above r/2 is first replaced
// by r minus itself with the sign flipped, so r - 1 costs what 1 costs, and zeros cost nothing.
//
// A plan is a table of offsets and the entries. Window w's part of the table has
// `num_buckets + 1` words: where each bucket starts among the window's entries, and their number.
// Bucket b stands for the digits of magnitude b + 1. A window's entries have room for `stride`
// words; an entry is a scalar's index with the digit's sign in the top bit. The order within a
// bucket is whatever the atomic operations make it.
//
// Where the bases have tables of their multiples, table t takes the windows from t * num_windows
// on: digit w of scalar i counts as window w % num_windows of "scalar" (w / num_windows) * n + i, n
// being the number of scalars. After `Cut` there is nothing but num_windows windows of so many more
// scalars.
//
// Work is cut by position, never by bucket, and one address of the device's memory gets one atomic
// operation from a block's tile at most: a million equal scalars cost what a million different ones
// cost. Memory takes whole sectors, so a tile is sorted in shared memory and written in runs.
//
// Each kernel is a list of phases with a barrier between them. A phase is a function of the block
// and the thread, so that a test can play a block on the host.
#pragma once

#include "digits_sort.cuh"
#include "field.cuh"

namespace digits {

constexpr uint32_t SIGN = 0x80000000u;
// Blocks' sizes and limits are in ../src/sizes.rs.

// A bucket's number is a bin's and `low_bits` lower bits. With one bin there is no partition:
// records are the digits themselves, zeros included.
struct Shape {
    uint32_t window_bits, num_windows, low_bits, bin_bits, len;
    uint64_t stride;

    TL_HD uint32_t num_bins() const { return 1u << bin_bits; }
    TL_HD uint32_t num_buckets() const { return 1u << (window_bits - 1); }
};

// An entry with the lower bits of its bucket's number.
struct alignas(8) Record {
    uint32_t entry, low;
};
static_assert(sizeof(Record) == RECORD_BYTES, "as workspaces are sized");

// Digits of one scalar, lowest first.
class Cutter {
    uint32_t l[9];
    uint32_t below, c;
    bool flip;

  public:
    TL_HD Cutter(const Fr &scalar, uint32_t window_bits) : below(0), c(window_bits) {
        const Fr positive = scalar.from_montgomery();
        // Negation acts on limbs, whatever they stand for.
        const Fr negative = -positive;
        flip = less(negative, positive);
        TL_UNROLL
        for (int i = 0; i < 8; i++) l[i] = flip ? negative.l[i] : positive.l[i];
        l[8] = 0;
    }

    // The magnitude, and the sign in the top bit; 0 for 0.
    TL_HD uint32_t next() {
        const uint32_t value = ((l[0] << 1) | below) & ((2u << c) - 1);
        const bool is_negative = (value >> c) == 1;
        const uint32_t upper = (value + 1) >> 1;
        const uint32_t magnitude = is_negative ? (1u << c) - upper : upper;
        below = (l[0] >> (c - 1)) & 1;
        TL_UNROLL
        for (int i = 0; i < 8; i++)
            l[i] = uint32_t(((uint64_t(l[i + 1]) << 32) | l[i]) >> c);
        return magnitude == 0 ? 0 : magnitude | (is_negative != flip ? SIGN : 0);
    }

  private:
    static TL_HD bool less(const Fr &a, const Fr &b) {
        bool is_less = false;
        TL_UNROLL
        for (int i = 0; i < 8; i++) is_less = a.l[i] == b.l[i] ? is_less : a.l[i] < b.l[i];
        return is_less;
    }
};

// Writes the digits of all windows where the plan's entries will be, and counts them by bins.
// Shared: num_windows << bin_bits words, if there are bins.
struct Cut {
    Shape shape;
    uint32_t tables;
    const char *scalars;
    uint32_t *digits;
    uint32_t *bin_counts;

    TL_HD uint32_t num_counts() const {
        return shape.bin_bits == 0 ? 0 : shape.num_windows << shape.bin_bits;
    }

    TL_HD void clear(uint32_t *shared, uint32_t thread) const {
        for (uint32_t i = thread; i < num_counts(); i += CUT_THREADS) shared[i] = 0;
    }

    TL_HD void cut(uint32_t *shared, uint32_t block, uint32_t blocks, uint32_t thread) const {
        const uint64_t step = uint64_t(blocks) * CUT_THREADS;
        const uint32_t num_scalars = shape.len / tables;
        for (uint64_t i = uint64_t(block) * CUT_THREADS + thread; i < num_scalars; i += step) {
            Cutter cutter(Fr::load_read_only(scalars + 32 * i), shape.window_bits);
            // Past the top the digits are zeros.
            for (uint32_t t = 0; t < tables; t++)
                for (uint32_t w = 0; w < shape.num_windows; w++) {
                    const uint32_t digit = cutter.next();
                    digits[w * shape.stride + uint64_t(t) * num_scalars + i] = digit;
                    if (shape.bin_bits != 0 && digit != 0) {
                        const uint32_t bin = ((digit & ~SIGN) - 1) >> shape.low_bits;
                        atomic_add(&shared[(w << shape.bin_bits) + bin], 1);
                    }
                }
        }
    }

    TL_HD void publish(const uint32_t *shared, uint32_t thread) const {
        for (uint32_t i = thread; i < num_counts(); i += CUT_THREADS)
            if (shared[i] != 0) atomic_add(&bin_counts[i], shared[i]);
    }
};

// Counts of bins to starts. One block a window. A window's starts have a last one more, its number
// of records.
struct BinStarts {
    Shape shape;
    uint32_t *bin_counts;
    uint32_t *bin_starts;

    TL_HD Scan scan(uint32_t window) const {
        return Scan{bin_counts + (window << shape.bin_bits), shape.num_bins()};
    }

    // Counts become cursors.
    TL_HD void write(const uint32_t *sums, const uint32_t *groups, uint32_t window,
                     uint32_t thread) const {
        const Scan bins = scan(window);
        uint32_t *cursors = bin_counts + (window << shape.bin_bits);
        uint32_t *starts = bin_starts + window * (shape.num_bins() + 1);
        uint32_t start = Scan::before(sums, groups, thread);
        for (uint32_t i = bins.begin(thread); i < bins.end(thread); i++) {
            const uint32_t count = cursors[i];
            cursors[i] = start;
            starts[i] = start;
            start += count;
        }
        if (thread == SCAN_THREADS - 1) starts[shape.num_bins()] = start;
    }
};

// Digits to records, those of a bin side by side. Windows from `window_first`, whose records come
// one window after the other, `stride` of each.
struct Partition {
    Shape shape;
    uint32_t window_first;
    const uint32_t *digits;
    uint32_t *bin_cursors;
    Record *records;

    TL_HD uint32_t bucket(uint32_t digit) const { return (digit & ~SIGN) - 1; }

    TL_HD void rank(const Sort &sort, Sort::Registers &mine, uint32_t tile, uint32_t part,
                    uint32_t thread) const {
        const uint32_t *window = digits + uint64_t(window_first + part) * shape.stride;
        TL_UNROLL
        for (uint32_t k = 0; k < SORT_LEN; k++) {
            const uint64_t i = uint64_t(tile) * TILE + k * SORT_THREADS + thread;
            mine.word[k] = i < shape.len ? window[i] : 0;
        }
        TL_UNROLL
        for (uint32_t k = 0; k < SORT_LEN; k++)
            mine.rank[k] =
                sort.count(bucket(mine.word[k]) >> shape.low_bits, mine.word[k] != 0);
    }

    // A digit's number within the tile goes with it.
    TL_HD void put(const Sort &sort, const Sort::Registers &mine, uint32_t part,
                   uint32_t thread) const {
        sort.reserve(bin_cursors + ((window_first + part) << shape.bin_bits), thread);
        sort.put(mine, [=](uint32_t k, uint32_t) { return k * SORT_THREADS + thread; });
    }

    TL_HD void write(const Sort &sort, uint32_t tile, uint32_t part, uint32_t thread) const {
        Record *window = records + uint64_t(part) * shape.stride;
        TL_UNROLL
        for (uint32_t k = 0; k < SORT_LEN; k++) {
            const uint32_t at = k * SORT_THREADS + thread;
            if (at >= sort.num_items()) return;
            const uint32_t digit = sort.words[at], bucket = this->bucket(digit);
            const uint32_t entry = (tile * TILE + sort.halves[at]) | (digit & SIGN);
            window[sort.counts[bucket >> shape.low_bits] + at] =
                Record{entry, bucket & ((1u << shape.low_bits) - 1)};
        }
    }
};

// What `Count` and `Place` go through: each window's records, cut into `chunks` at most, as many as
// there are tiles of scalars, and those into segments that lie within one bin.
struct Records {
    Shape shape;
    uint32_t window_first, chunks;
    // As `Partition` leaves them; with one bin, digits of all windows.
    const void *records;
    const uint32_t *bin_starts;

    struct Segment {
        uint32_t begin, end, bin;
    };

    TL_HD const uint32_t *starts(uint32_t part) const {
        return bin_starts + (window_first + part) * (shape.num_bins() + 1);
    }

    TL_HD uint32_t total(uint32_t part) const {
        return shape.bin_bits == 0 ? shape.len : starts(part)[shape.num_bins()];
    }

    static_assert(MIN_CHUNK <= TILE, "a segment is sorted at once");
    // At most a tile, for there are no more records than scalars. Where most digits are zeros, chunks
    // are shorter and more blocks take part: one over many bins would keep a block long.
    TL_HD uint32_t chunk_len(uint32_t part) const {
        const uint32_t len = uint32_t((uint64_t(total(part)) + chunks - 1) / chunks);
        return len < MIN_CHUNK ? MIN_CHUNK : len;
    }

    // The segment from `begin`, or an empty one at the end of the chunk.
    TL_HD Segment segment(uint32_t part, uint32_t chunk, uint32_t begin, uint32_t bin) const {
        const uint64_t chunk_end = (uint64_t(chunk) + 1) * chunk_len(part);
        const uint32_t all = total(part);
        const uint32_t end = chunk_end < all ? uint32_t(chunk_end) : all;
        if (begin >= end) return Segment{begin, begin, bin};
        if (shape.bin_bits == 0) return Segment{begin, end, 0};
        const uint32_t *starts = this->starts(part);
        uint32_t low = bin, high = shape.num_bins();
        while (low + 1 < high) {
            const uint32_t middle = (low + high) / 2;
            if (starts[middle] <= begin)
                low = middle;
            else
                high = middle;
        }
        return Segment{begin, starts[low + 1] < end ? starts[low + 1] : end, low};
    }
    TL_HD Segment first(uint32_t part, uint32_t chunk) const {
        const uint64_t begin = uint64_t(chunk) * chunk_len(part);
        const uint32_t all = total(part);
        return segment(part, chunk, begin < all ? uint32_t(begin) : all, 0);
    }

    // A record with low = NONE is none.
    TL_HD Record record(uint32_t part, uint64_t i) const {
        if (shape.bin_bits != 0)
            return static_cast<const Record *>(records)[uint64_t(part) * shape.stride + i];
        const uint32_t *digits = static_cast<const uint32_t *>(records);
        const uint32_t digit = digits[uint64_t(window_first + part) * shape.stride + i];
        return Record{uint32_t(i) | (digit & SIGN), (digit & ~SIGN) - 1};
    }
};

struct LowCounts {
    uint32_t counts[1 << MAX_LOW_BITS];

    TL_HD void clear(const Shape &shape, uint32_t thread) {
        for (uint32_t i = thread; i < (1u << shape.low_bits); i += SORT_THREADS) counts[i] = 0;
    }
};

// Adds each record to its bucket's count, all windows' buckets one after the other.
struct Count {
    Records from;
    uint32_t *counts;

    TL_HD void count(LowCounts &shared, uint32_t part, const Records::Segment &segment,
                     uint32_t thread) const {
        // All are in flight before the first is counted.
        uint32_t low[SORT_LEN];
        TL_UNROLL
        for (uint32_t k = 0; k < SORT_LEN; k++) {
            const uint64_t i = uint64_t(segment.begin) + k * SORT_THREADS + thread;
            low[k] = i < segment.end ? from.record(part, i).low : NONE;
        }
        TL_UNROLL
        for (uint32_t k = 0; k < SORT_LEN; k++)
            if (low[k] != NONE) atomic_add(&shared.counts[low[k]], 1);
    }

    TL_HD void publish(const LowCounts &shared, uint32_t part, const Records::Segment &segment,
                       uint32_t thread) const {
        const Shape &shape = from.shape;
        uint32_t *bucket = counts + uint64_t(from.window_first + part) * shape.num_buckets() +
                           (segment.bin << shape.low_bits);
        for (uint32_t i = thread; i < (1u << shape.low_bits); i += SORT_THREADS)
            if (shared.counts[i] != 0) atomic_add(&bucket[i], shared.counts[i]);
    }
};

// Counts to starts within the plan's table. One block a bin and window.
struct Starts {
    Records from;
    uint32_t *counts;
    uint32_t *offsets;

    TL_HD uint32_t *bin_counts(uint32_t part, uint32_t bin) const {
        return counts + uint64_t(from.window_first + part) * from.shape.num_buckets() +
               (bin << from.shape.low_bits);
    }
    TL_HD Scan scan(uint32_t part, uint32_t bin) const {
        return Scan{bin_counts(part, bin), 1u << from.shape.low_bits};
    }

    // Counts become cursors.
    TL_HD void write(const uint32_t *sums, const uint32_t *groups, uint32_t part, uint32_t bin,
                     uint32_t thread) const {
        const Shape &shape = from.shape;
        const Scan buckets = scan(part, bin);
        uint32_t *cursors = bin_counts(part, bin);
        uint32_t *table = offsets +
                          uint64_t(from.window_first + part) * (shape.num_buckets() + 1) +
                          (bin << shape.low_bits);
        uint32_t start = Scan::before(sums, groups, thread);
        if (shape.bin_bits != 0) start += from.starts(part)[bin];
        for (uint32_t i = buckets.begin(thread); i < buckets.end(thread); i++) {
            const uint32_t count = cursors[i];
            cursors[i] = start;
            table[i] = start;
            start += count;
        }
        if (thread == SCAN_THREADS - 1 && bin == shape.num_bins() - 1)
            table[1u << shape.low_bits] = start;
    }
};

// Puts each record's entry into its bucket's place.
struct Place {
    Records from;
    uint32_t *cursors;
    uint32_t *entries;

    TL_HD void rank(const Sort &sort, Sort::Registers &mine, uint32_t part,
                    const Records::Segment &segment, uint32_t thread) const {
        TL_UNROLL
        for (uint32_t k = 0; k < SORT_LEN; k++) {
            const uint32_t at = k * SORT_THREADS + thread;
            const Record record = at < segment.end - segment.begin
                                      ? from.record(part, segment.begin + uint64_t(at))
                                      : Record{0, NONE};
            mine.word[k] = record.entry;
            mine.rank[k] = record.low;
        }
        TL_UNROLL
        for (uint32_t k = 0; k < SORT_LEN; k++)
            mine.rank[k] = sort.count(mine.rank[k], mine.rank[k] != NONE);
    }

    // An entry's bucket goes with it.
    TL_HD void put(const Sort &sort, const Sort::Registers &mine, uint32_t part,
                   const Records::Segment &segment, uint32_t thread) const {
        const Shape &shape = from.shape;
        sort.reserve(cursors + uint64_t(from.window_first + part) * shape.num_buckets() +
                         (segment.bin << shape.low_bits),
                     thread);
        sort.put(mine, [](uint32_t, uint32_t low) { return low; });
    }

    TL_HD void write(const Sort &sort, uint32_t part, uint32_t thread) const {
        uint32_t *window = entries + uint64_t(from.window_first + part) * from.shape.stride;
        TL_UNROLL
        for (uint32_t k = 0; k < SORT_LEN; k++) {
            const uint32_t at = k * SORT_THREADS + thread;
            if (at >= sort.num_items()) return;
            window[sort.counts[sort.halves[at]] + at] = sort.words[at];
        }
    }
};

}  // namespace digits
