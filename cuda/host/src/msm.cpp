// The kernels of digits and MSM, played block by block and thread by thread: between two barriers
// each thread of a block runs its phase.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "digits.cuh"
#include "msm_reduce.cuh"

namespace {

// Now from the first, now from the last: no thread needs what another of its phase does.
template <class Phase>
void phase(uint32_t threads, Phase each) {
    thread_local bool backwards = false;
    backwards = !backwards;
    const bool order = backwards;
    for (uint32_t i = 0; i < threads; i++) each(order ? threads - 1 - i : i);
}

uint32_t div_up(uint64_t a, uint64_t b) { return uint32_t((a + b - 1) / b); }

// The threads of as many blocks as `count` of them need.
template <class Phase>
void grid(uint64_t count, uint32_t threads, Phase each) {
    phase(div_up(count, threads) * threads, each);
}

// What a thread keeps its sum in, between quads of others, as in a block: nothing is left of the thread
// before, and the process ends where quads of others have been written to.
template <class F>
class Kept {
    static constexpr uint32_t NEIGHBOURS = 3, STRIDE = NEIGHBOURS * sizeof(Quad);
    static constexpr char PATTERN = char(0xa5);
    using Sum = KeptSum<F, STRIDE>;
    alignas(16) char bytes[NEIGHBOURS * (Sum::BYTES + STRIDE)];

    void check() const {
        for (size_t i = 0; i < sizeof(bytes); i++) {
            const bool is_own =
                i < NEIGHBOURS * Sum::BYTES && i / sizeof(Quad) % NEIGHBOURS == 1;
            if (!is_own && bytes[i] != PATTERN) std::abort();
        }
    }

  public:
    Kept() { memset(bytes, PATTERN, sizeof(bytes)); }
    ~Kept() { check(); }

    Sum sum() {
        check();
        memset(bytes, PATTERN, sizeof(bytes));
        return Sum(bytes + sizeof(Quad));
    }
};

using namespace digits;

// The block-wide prefix sums of `Scan`, then `write(sums, groups, thread)`.
template <class Write>
void scan(const Scan &values, Write write) {
    std::vector<uint32_t> sums(SCAN_THREADS), groups(SCAN_GROUPS);
    phase(SCAN_THREADS, [&](uint32_t t) { values.sum(sums.data(), t); });
    phase(SCAN_THREADS, [&](uint32_t t) { Scan::group(sums.data(), groups.data(), t); });
    phase(SCAN_THREADS, [&](uint32_t t) { write(sums.data(), groups.data(), t); });
}

// A block's dynamic shared memory, with a guard behind it.
class SharedWords {
    static constexpr uint32_t PATTERN = 0xdeadbeef, GUARD = 64;
    std::vector<uint32_t> all;
    size_t size;

  public:
    explicit SharedWords(uint32_t bytes)
        : all((bytes + 3) / 4 + GUARD, PATTERN), size((bytes + 3) / 4) {}
    uint32_t *words() { return all.data(); }
    // Ends the process where something has been written behind the end.
    void check() const {
        for (size_t i = size; i < all.size(); i++)
            if (all[i] != PATTERN) std::abort();
    }
};

// As the host launches them: `Shape` of ../../src/digits.rs.
struct DigitsGrid {
    uint32_t cut_blocks, cut_shared_bytes, tiles, partition_shared_bytes, place_shared_bytes,
        at_once;
};
struct DigitsWork {
    uint32_t *bin_counts, *bin_starts, *counts;
    void *records;
};

// The phases of `Sort` between its items' counts and their places.
void start(const Sort &sort) {
    phase(SORT_THREADS, [&](uint32_t t) { sort.sum(t); });
    phase(SORT_THREADS, [&](uint32_t t) { sort.group(t); });
    phase(SORT_THREADS, [&](uint32_t t) { sort.start(t); });
}

void make_plan(const Shape &shape, uint32_t tables, const DigitsGrid &grid, const char *scalars,
               uint32_t *offsets, uint32_t *entries, const DigitsWork &work) {
    const uint32_t windows = shape.num_windows, at_once = grid.at_once;
    uint32_t *digits = shape.bin_bits == 0 ? static_cast<uint32_t *>(work.records) : entries;
    Record *records = static_cast<Record *>(work.records);

    const Cut cut{shape, tables, scalars, digits, work.bin_counts};
    for (uint32_t block = 0; block < grid.cut_blocks; block++) {
        SharedWords shared(grid.cut_shared_bytes);
        uint32_t *bins = shared.words();
        phase(CUT_THREADS, [&](uint32_t t) { cut.clear(bins, t); });
        phase(CUT_THREADS, [&](uint32_t t) { cut.cut(bins, block, grid.cut_blocks, t); });
        phase(CUT_THREADS, [&](uint32_t t) { cut.publish(bins, t); });
        shared.check();
    }
    if (shape.bin_bits != 0) {
        const BinStarts bins{shape, work.bin_counts, work.bin_starts};
        for (uint32_t w = 0; w < windows; w++)
            scan(bins.scan(w), [&](const uint32_t *sums, const uint32_t *groups, uint32_t t) {
                bins.write(sums, groups, w, t);
            });
    }
    for (uint32_t first = 0; first < windows; first += at_once) {
        const uint32_t parts = windows - first < at_once ? windows - first : at_once;
        for (uint32_t part = 0; shape.bin_bits != 0 && part < parts; part++)
            for (uint32_t tile = 0; tile < grid.tiles; tile++) {
                const Partition partition{shape, first, digits, work.bin_counts, records};
                SharedWords shared(grid.partition_shared_bytes);
                const Sort sort(shared.words(), shape.bin_bits);
                std::vector<Sort::Registers> mine(SORT_THREADS);
                phase(SORT_THREADS, [&](uint32_t t) { sort.clear(t); });
                phase(SORT_THREADS,
                      [&](uint32_t t) { partition.rank(sort, mine[t], tile, part, t); });
                start(sort);
                phase(SORT_THREADS, [&](uint32_t t) { partition.put(sort, mine[t], part, t); });
                phase(SORT_THREADS, [&](uint32_t t) { partition.write(sort, tile, part, t); });
                shared.check();
            }
        const Records source{shape, first, grid.tiles, work.records, work.bin_starts};
        for (uint32_t part = 0; part < parts; part++)
            for (uint32_t chunk = 0; chunk < grid.tiles; chunk++) {
                const Count count{source, work.counts};
                LowCounts shared;
                Records::Segment segment = source.first(part, chunk);
                while (segment.begin < segment.end) {
                    phase(SORT_THREADS, [&](uint32_t t) { shared.clear(shape, t); });
                    phase(SORT_THREADS,
                          [&](uint32_t t) { count.count(shared, part, segment, t); });
                    phase(SORT_THREADS,
                          [&](uint32_t t) { count.publish(shared, part, segment, t); });
                    segment = source.segment(part, chunk, segment.end, segment.bin);
                }
            }
        const Starts starts{source, work.counts, offsets};
        for (uint32_t part = 0; part < parts; part++)
            for (uint32_t bin = 0; bin < shape.num_bins(); bin++)
                scan(starts.scan(part, bin),
                     [&](const uint32_t *sums, const uint32_t *groups, uint32_t t) {
                         starts.write(sums, groups, part, bin, t);
                     });
        for (uint32_t part = 0; part < parts; part++)
            for (uint32_t chunk = 0; chunk < grid.tiles; chunk++) {
                const Place place{source, work.counts, entries};
                SharedWords shared(grid.place_shared_bytes);
                const Sort sort(shared.words(), shape.low_bits);
                std::vector<Sort::Registers> mine(SORT_THREADS);
                Records::Segment segment = source.first(part, chunk);
                while (segment.begin < segment.end) {
                    phase(SORT_THREADS, [&](uint32_t t) { sort.clear(t); });
                    phase(SORT_THREADS,
                          [&](uint32_t t) { place.rank(sort, mine[t], part, segment, t); });
                    start(sort);
                    phase(SORT_THREADS,
                          [&](uint32_t t) { place.put(sort, mine[t], part, segment, t); });
                    phase(SORT_THREADS, [&](uint32_t t) { place.write(sort, part, t); });
                    segment = source.segment(part, chunk, segment.end, segment.bin);
                }
                shared.check();
            }
    }
}

// As the host launches them: `Heads` of ../../src/msm.rs.
struct HeadsWork {
    uint32_t threads_of_wave, max_runs, num_folds;
    const msm::Level *folds;
    uint32_t *runs, *keys;
    char *heads;
};

template <class F, uint32_t THREADS, bool HAS_TABLES>
void fill_buckets(const msm::Plan &plan, const msm::Bases<HAS_TABLES> &bases, char *accumulator,
                  const HeadsWork &work) {
    std::vector<uint32_t> counts;
    for (uint32_t w = 0; w < plan.num_windows; w++) counts.push_back(plan.count(w));
    const msm::Runs runs{work.runs};
    runs.plan(counts.data(), plan.num_windows, work.threads_of_wave);
    const msm::Sums sums{accumulator, work.heads, work.keys};
    Kept<F> kept;
    grid(work.max_runs, THREADS, [&](uint32_t t) {
        msm::accumulate<F>(plan, runs, bases, sums, kept.sum(), work.max_runs, t);
    });
    for (uint32_t i = 0; i < work.num_folds; i++)
        grid(work.folds[i].runs_out(), THREADS,
             [&](uint32_t t) { msm::fold<F>(sums, work.folds[i], kept.sum(), t); });
}

template <class F, uint32_t T>
void weigh_windows(const msm::Lines &lines, uint32_t num_windows, const char *sums,
                   char *weighed) {
    using Weigh = msm::Weigh<Called<F>, T>;
    for (uint32_t block = 0; block < 2 * num_windows; block++) {
        const Weigh weigh{lines, sums, block / 2, block % 2 == 0};
        typename Weigh::Shared shared;
        std::vector<typename Weigh::Registers> mine(T);
        phase(T, [&](uint32_t t) { weigh.begin(shared, mine[t], t); });
        for (uint32_t i = 0; i < weigh.num_steps(); i++) {
            const typename Weigh::Step step = weigh.step(i);
            phase(T, [&](uint32_t t) { weigh.read(shared, mine[t], step, t); });
            phase(T, [&](uint32_t t) { weigh.add(shared, mine[t], step, t); });
        }
        Xyzz<Called<F>>::load(shared.points).store(msm::point_at<Called<F>>(weighed, block));
    }
}

// `levels` as `Lines` of ../../src/msm.rs; few threads weigh, or as many as on a device.
template <class F, uint32_t THREADS, uint32_t WEIGH_THREADS>
void sum_windows(const msm::Lines *levels, uint32_t num_levels, uint32_t num_windows, bool few,
                 const char *accumulator, char *scratch, char *windows) {
    const char *points = accumulator;
    msm::Lines in{levels->rows, levels->columns, 0, 0};
    for (uint32_t level = 0; level < num_levels; level++) {
        const msm::Lines &out = levels[level];
        const uint64_t count = uint64_t(num_windows) * out.num_points();
        Kept<F> kept;
        grid(count, THREADS, [&](uint32_t t) {
            msm::sum<F>(in, out, num_windows, points, scratch, kept.sum(), t);
        });
        points = scratch;
        scratch = msm::point_at<F>(scratch, count);
        in = out;
    }
    if (few)
        weigh_windows<F, 16>(in, num_windows, points, scratch);
    else
        weigh_windows<F, WEIGH_THREADS>(in, num_windows, points, scratch);
    grid(num_windows, msm::MAX_WINDOWS, [&](uint32_t t) {
        msm::finish<Called<F>>(scratch, windows, num_windows, in.columns, t);
    });
}

// Ends of what is addressed, in words but for records: those of each part's last window and bin.
// Nothing is read.
void ends(const Shape &shape, uint64_t *out) {
    const uint32_t last = shape.num_windows - 1;
    uint32_t *const none = nullptr;
    const auto words = [](const void *at) { return reinterpret_cast<uintptr_t>(at) / 4; };
    const BinStarts bins{shape, none, none};
    const Scan scan = bins.scan(last);
    const Records records{shape, last, 1, nullptr, none};
    const Scan low = Starts{records, none, none}.scan(0, shape.num_bins() - 1);
    const msm::Plan plan{none, none, shape.num_windows, shape.num_buckets(), shape.len,
                         shape.stride};
    out[0] = words(scan.values) + scan.len;
    out[1] = words(records.starts(0)) + shape.num_bins() + 1;
    out[2] = words(low.values) + low.len;
    out[3] = words(plan.table(last)) + shape.num_buckets() + 1;
}

}  // namespace

extern "C" {

void twinlock_cuda_digits(uint32_t window_bits, uint32_t num_windows, uint32_t bin_bits,
                          uint32_t len, uint64_t stride, uint32_t tables, const DigitsGrid *grid,
                          const void *scalars, uint32_t *offsets, uint32_t *entries,
                          uint32_t *bin_counts, uint32_t *bin_starts, uint32_t *counts,
                          void *records) {
    const Shape shape{window_bits, num_windows, window_bits - 1 - bin_bits, bin_bits, len, stride};
    make_plan(shape, tables, *grid, static_cast<const char *>(scalars), offsets, entries,
              DigitsWork{bin_counts, bin_starts, counts, records});
}

void twinlock_cuda_digits_ends(uint32_t window_bits, uint32_t num_windows, uint32_t bin_bits,
                               uint32_t len, uint64_t stride, uint64_t *out) {
    ends(Shape{window_bits, num_windows, window_bits - 1 - bin_bits, bin_bits, len, stride}, out);
}

// How many runs a plan of these counts has.
uint32_t twinlock_cuda_msm_runs(const uint32_t *counts, uint32_t num_windows, uint32_t threads,
                                uint32_t *words) {
    const msm::Runs runs{words};
    runs.plan(counts, num_windows, threads);
    return runs.first(num_windows);
}

// The points that a partial sum reads, the first and the last, and the place that it writes.
void twinlock_cuda_msm_part(uint32_t num_parts_in, const uint32_t *in, const uint32_t *out,
                            uint32_t window, uint32_t at, uint64_t *found) {
    const msm::Lines lines_in{in[0], in[1], in[2], in[3]}, lines{out[0], out[1], out[2], out[3]};
    const msm::Part part = num_parts_in == 0
                               ? msm::part_of_buckets(lines, window, at)
                               : msm::part_of_parts(lines_in, lines, window, at);
    found[0] = part.first;
    found[1] = part.first + uint64_t(part.count - 1) * part.step;
    found[2] = part.place;
}

#define TWINLOCK_MSM(group, F, THREADS, WEIGH_THREADS)                                         \
    void twinlock_cuda_msm_accumulate_##group(                                              \
        const uint32_t *offsets, const uint32_t *entries, uint32_t num_windows,             \
        uint32_t num_buckets, uint32_t len, uint64_t stride, const void *bases,             \
        const uint32_t *indices, uint32_t base_first, uint32_t num_bases, uint32_t tables,  \
        void *accumulator, const HeadsWork *work) {                                         \
        const msm::Plan plan{offsets, entries, num_windows, num_buckets, len, stride};      \
        const char *points = static_cast<const char *>(bases);                              \
        const auto fill = [&](const auto &by_scalar) {                                      \
            fill_buckets<F, THREADS>(plan, by_scalar, static_cast<char *>(accumulator),     \
                                     *work);                                                \
        };                                                                                  \
        if (tables == 1)                                                                    \
            fill(msm::Bases<false>{points, indices, base_first, num_bases, len, 1, 0});     \
        else                                                                                \
            fill(msm::Bases<true>{points, indices, base_first, num_bases, len / tables,     \
                                  tables, num_bases});                                      \
    }                                                                                       \
    void twinlock_cuda_msm_reduce_##group(const msm::Lines *levels, uint32_t num_levels,    \
                                          uint32_t num_windows, uint32_t few,               \
                                          const void *accumulator, void *scratch,           \
                                          void *windows) {                                  \
        sum_windows<F, THREADS, WEIGH_THREADS>(levels, num_levels, num_windows, few != 0,   \
                                               static_cast<const char *>(accumulator),      \
                                               static_cast<char *>(scratch),                \
                                               static_cast<char *>(windows));               \
    }

TWINLOCK_MSM(g1, Fp, msm::G1_THREADS, msm::G1_WEIGH_THREADS)
TWINLOCK_MSM(g2, Fp2, msm::G2_THREADS, msm::G2_WEIGH_THREADS)
}
