// The kernels of digits and MSM, played block by block and thread by thread: between two barriers
// each thread of a block runs its phase.
#include <vector>

#include "digits.cuh"
#include "msm_reduce.cuh"

namespace {

template <class Phase>
void phase(uint32_t threads, Phase each) {
    for (uint32_t thread = 0; thread < threads; thread++) each(thread);
}

uint32_t div_up(uint64_t a, uint64_t b) { return uint32_t((a + b - 1) / b); }

using namespace digits;

// The block-wide prefix sums of `Scan`, then `write(sums, groups, thread)`.
template <class Write>
void scan(const Scan &values, Write write) {
    std::vector<uint32_t> sums(SCAN_THREADS), groups(SCAN_THREADS);
    phase(SCAN_THREADS, [&](uint32_t t) { values.sum(sums.data(), t); });
    phase(SCAN_THREADS, [&](uint32_t t) { Scan::group(sums.data(), groups.data(), t); });
    phase(SCAN_THREADS, [&](uint32_t t) { write(sums.data(), groups.data(), t); });
}

void make_plan(const Shape &shape, uint32_t tables, uint32_t at_once, const char *scalars,
               uint32_t *offsets, uint32_t *entries) {
    const uint32_t windows = shape.num_windows;
    std::vector<uint32_t> bin_counts(windows << shape.bin_bits);
    std::vector<uint32_t> bin_starts(windows * (shape.num_bins() + 1));
    std::vector<uint32_t> counts(size_t(windows) * shape.num_buckets());
    std::vector<uint32_t> own_digits(shape.bin_bits == 0 ? windows * shape.stride : 0);
    std::vector<Record> records(shape.bin_bits == 0 ? 0 : at_once * shape.stride);
    uint32_t *digits = shape.bin_bits == 0 ? own_digits.data() : entries;
    const void *from = shape.bin_bits == 0 ? static_cast<const void *>(digits) : records.data();

    const Cut cut{shape, tables, scalars, digits, bin_counts.data()};
    const uint32_t cut_blocks = 3;
    for (uint32_t block = 0; block < cut_blocks; block++) {
        std::vector<uint32_t> shared(bin_counts.size(), 0xdeadbeefu);
        phase(CUT_THREADS, [&](uint32_t t) { cut.clear(shared.data(), t); });
        phase(CUT_THREADS, [&](uint32_t t) { cut.cut(shared.data(), block, cut_blocks, t); });
        phase(CUT_THREADS, [&](uint32_t t) { cut.publish(shared.data(), t); });
    }
    if (shape.bin_bits != 0) {
        const BinStarts bins{shape, bin_counts.data(), bin_starts.data()};
        for (uint32_t w = 0; w < windows; w++)
            scan(bins.scan(w), [&](const uint32_t *sums, const uint32_t *groups, uint32_t t) {
                bins.write(sums, groups, w, t);
            });
    }
    const uint32_t tiles = div_up(shape.len, PARTITION_THREADS * PARTITION_LEN);
    const uint32_t chunks = div_up(shape.len, CHUNK);
    for (uint32_t first = 0; first < windows; first += at_once) {
        const uint32_t parts = windows - first < at_once ? windows - first : at_once;
        for (uint32_t part = 0; shape.bin_bits != 0 && part < parts; part++)
            for (uint32_t tile = 0; tile < tiles; tile++) {
                const Partition partition{shape, first, digits, bin_counts.data(),
                                          records.data()};
                Partition::Shared shared;
                std::vector<Partition::Registers> mine(PARTITION_THREADS);
                phase(PARTITION_THREADS, [&](uint32_t t) { partition.clear(shared, t); });
                phase(PARTITION_THREADS,
                      [&](uint32_t t) { partition.rank(shared, mine[t], tile, part, t); });
                phase(PARTITION_THREADS, [&](uint32_t t) { partition.reserve(shared, part, t); });
                phase(PARTITION_THREADS,
                      [&](uint32_t t) { partition.write(shared, mine[t], tile, part, t); });
            }
        const Records source{shape, first, from, bin_starts.data()};
        for (uint32_t part = 0; part < parts; part++)
            for (uint32_t chunk = 0; chunk < chunks; chunk++) {
                const Count count{source, counts.data()};
                LowCounts shared;
                Records::Segment segment = source.first(part, chunk);
                while (segment.begin < segment.end) {
                    phase(PLACE_THREADS, [&](uint32_t t) { shared.clear(shape, t); });
                    phase(PLACE_THREADS,
                          [&](uint32_t t) { count.count(shared, part, segment, t); });
                    phase(PLACE_THREADS,
                          [&](uint32_t t) { count.publish(shared, part, segment, t); });
                    segment = source.segment(part, chunk, segment.end, segment.bin);
                }
            }
        const Starts starts{source, counts.data(), offsets};
        for (uint32_t part = 0; part < parts; part++)
            for (uint32_t bin = 0; bin < shape.num_bins(); bin++)
                scan(starts.scan(part, bin),
                     [&](const uint32_t *sums, const uint32_t *groups, uint32_t t) {
                         starts.write(sums, groups, part, bin, t);
                     });
        for (uint32_t part = 0; part < parts; part++)
            for (uint32_t chunk = 0; chunk < chunks; chunk++) {
                const Place place{source, counts.data(), entries};
                LowCounts shared;
                std::vector<Place::Registers> mine(PLACE_THREADS);
                Records::Segment segment = source.first(part, chunk);
                while (segment.begin < segment.end) {
                    phase(PLACE_THREADS, [&](uint32_t t) { shared.clear(shape, t); });
                    phase(PLACE_THREADS,
                          [&](uint32_t t) { place.rank(shared, mine[t], part, segment, t); });
                    phase(PLACE_THREADS,
                          [&](uint32_t t) { place.reserve(shared, part, segment, t); });
                    phase(PLACE_THREADS,
                          [&](uint32_t t) { place.write(shared, mine[t], part, segment, t); });
                    segment = source.segment(part, chunk, segment.end, segment.bin);
                }
            }
    }
}

template <class F, bool HAS_TABLES>
void fill_buckets(const msm::Plan &plan, const msm::Bases<HAS_TABLES> &bases, uint32_t resident,
                  char *accumulator) {
    std::vector<uint32_t> counts;
    for (uint32_t w = 0; w < plan.num_windows; w++) counts.push_back(plan.count(w));
    std::vector<uint32_t> words(plan.num_windows + 2);
    const msm::Runs runs{words.data()};
    runs.plan(counts.data(), plan.num_windows, resident);

    // More than there are, as a launch has that knows only how many there may be.
    std::vector<msm::Level> levels;
    const uint32_t max_runs = runs.first(plan.num_windows) + 5;
    uint32_t total = max_runs;
    for (uint32_t in = max_runs, at = 0; in > 1;) {
        const msm::Level level{in, levels.empty() ? 2u : 3u, at, at + in};
        levels.push_back(level);
        at += in;
        in = level.runs_out();
        total += in;
    }
    std::vector<uint32_t> keys(total, 0xdeadbeefu);
    std::vector<Xyzz<F>> heads(total);
    const msm::Sums sums{accumulator, reinterpret_cast<char *>(heads.data()), keys.data()};
    phase(max_runs + 3, [&](uint32_t t) {
        msm::accumulate<F>(plan, runs, bases, sums, max_runs, t);
    });
    for (const msm::Level &level : levels)
        phase(level.runs_out() + 3, [&](uint32_t t) { msm::fold<Called<F>>(sums, level, t); });
}

// `Sum` is what F is where buckets are summed.
template <class F, class Sum>
void sum_windows(msm::Lines lines, uint32_t num_windows, const char *accumulator, char *windows) {
    constexpr uint32_t THREADS = 16;
    using Weigh = msm::Weigh<Called<F>, THREADS>;
    std::vector<Xyzz<F>> sums(num_windows * lines.num_points());
    phase(uint32_t(sums.size()) + 3, [&](uint32_t t) {
        const msm::Lines none{lines.rows, lines.columns, 0, 0};
        msm::sum<Sum>(none, lines, num_windows, accumulator, reinterpret_cast<char *>(sums.data()),
                    t);
    });
    while (lines.row_parts > 1 || lines.column_parts > 1) {
        msm::Lines out = lines;
        out.row_parts = lines.row_parts > 4 ? lines.row_parts / 4 : 1;
        out.column_parts = lines.column_parts > 4 ? lines.column_parts / 4 : 1;
        std::vector<Xyzz<F>> fewer(num_windows * out.num_points());
        phase(uint32_t(fewer.size()) + 3, [&](uint32_t t) {
            msm::sum<Sum>(lines, out, num_windows, reinterpret_cast<const char *>(sums.data()),
                        reinterpret_cast<char *>(fewer.data()), t);
        });
        sums = fewer;
        lines = out;
    }
    std::vector<Xyzz<Called<F>>> weighed(2 * num_windows);
    for (uint32_t block = 0; block < 2 * num_windows; block++) {
        const Weigh weigh{lines, reinterpret_cast<const char *>(sums.data()), block / 2,
                          block % 2 == 0};
        typename Weigh::Shared shared;
        std::vector<typename Weigh::Registers> mine(THREADS);
        phase(THREADS, [&](uint32_t t) { weigh.begin(shared, mine[t], t); });
        for (uint32_t i = 0; i < weigh.num_steps(); i++) {
            const typename Weigh::Step step = weigh.step(i);
            phase(THREADS, [&](uint32_t t) { weigh.read(shared, mine[t], step, t); });
            phase(THREADS, [&](uint32_t t) { weigh.add(shared, mine[t], step, t); });
        }
        weighed[block] = Xyzz<Called<F>>::load(shared.points);
    }
    phase(num_windows + 3, [&](uint32_t t) {
        msm::finish<Called<F>>(reinterpret_cast<const char *>(weighed.data()), windows, num_windows,
                       lines.columns, t);
    });
}

}  // namespace

extern "C" {

void twinlock_cuda_digits(uint32_t window_bits, uint32_t num_windows, uint32_t bin_bits,
                          uint32_t len, uint64_t stride, uint32_t tables, uint32_t at_once,
                          const void *scalars, uint32_t *offsets, uint32_t *entries) {
    const Shape shape{window_bits, num_windows, window_bits - 1 - bin_bits, bin_bits, len, stride};
    make_plan(shape, tables, at_once, static_cast<const char *>(scalars), offsets, entries);
}

#define TWINLOCK_MSM(group, F, Sum)                                                         \
    void twinlock_cuda_msm_accumulate_##group(                                              \
        const uint32_t *offsets, const uint32_t *entries, uint32_t num_windows,             \
        uint32_t num_buckets, uint32_t len, uint64_t stride, const void *bases,             \
        const uint32_t *indices, uint32_t base_first, uint32_t num_bases, uint32_t tables,  \
        uint32_t resident, void *accumulator) {                                             \
        const msm::Plan plan{offsets, entries, num_windows, num_buckets, len, stride};      \
        const char *points = static_cast<const char *>(bases);                              \
        const auto fill = [&](const auto &by_scalar) {                                      \
            fill_buckets<F>(plan, by_scalar, resident, static_cast<char *>(accumulator));   \
        };                                                                                  \
        if (tables == 1)                                                                    \
            fill(msm::Bases<false>{points, indices, base_first, num_bases, len, 1, 0});     \
        else                                                                                \
            fill(msm::Bases<true>{points, indices, base_first, num_bases, len / tables,     \
                                  tables, num_bases});                                      \
    }                                                                                       \
    void twinlock_cuda_msm_reduce_##group(uint32_t num_windows, uint32_t rows,              \
                                          uint32_t columns, uint32_t row_parts,             \
                                          uint32_t column_parts, const void *accumulator,   \
                                          void *windows) {                                  \
        sum_windows<F, Sum>(msm::Lines{rows, columns, row_parts, column_parts},             \
                            num_windows, static_cast<const char *>(accumulator),            \
                            static_cast<char *>(windows));                                  \
    }

TWINLOCK_MSM(g1, Fp, Fp)
TWINLOCK_MSM(g2, Fp2, Called<Fp2>)
}
