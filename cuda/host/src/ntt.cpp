// The kernels of ntt.cu, block by block and between barriers thread by thread, now from the first, now
// from the last: what a barrier is missing for shows.
#include "ntt.cuh"

#include <vector>

using namespace ntt;

namespace {

struct Block {
    std::vector<Quad> shared;
    std::vector<Fr> values;
    uint32_t threads;
    bool backwards = false;

    char *memory() { return reinterpret_cast<char *>(shared.data()); }

    template <class Phase>
    void each(Phase phase) {
        for (uint32_t i = 0; i < threads; i++) {
            const uint32_t thread = backwards ? threads - 1 - i : i;
            phase(thread, *reinterpret_cast<Fr(*)[8]>(&values[8 * thread]));
        }
        backwards = !backwards;
    }
};

void run(const Pass &pass, Block &block, uint32_t tile, const Known &scale, const Known (&w)[3]) {
    char *shared = block.memory();
    using V = Fr(&)[8];
    block.each([&](uint32_t thread, V v) {
        pass.load(tile, thread, v);
        pass.prepare(shared, tile, thread, scale);
        if (pass.load_staged())
            pass.write(shared, thread, pass.places(0, pass.row(thread)), v);
    });
    if (pass.load_staged())
        block.each([&](uint32_t thread, V v) {
            pass.read(shared, thread, pass.reversed_places(0, pass.row(thread)), v);
        });
    const uint32_t steps = pass.steps();
    // Who has come past an exchange's barrier goes on at once.
    bool exchanged = false;
    uint32_t step = 0;
    const auto take = [&](uint32_t thread, V v) {
        if (exchanged) pass.read(shared, thread, pass.places(step, pass.row(thread)), v);
    };
    for (uint32_t round = 0; round <= steps; round++) {
        block.each([&](uint32_t thread, V v) {
            take(thread, v);
            const FourthRoot w4{w[1], pass.has(FOURTH_ROOT_NEGATED)};
            if (round != 0) transform(v, pass.levels(round - 1), w[0], w4, w[2]);
            for (uint32_t f = 0; f < pass.factor_count(round); f++)
                pass.multiply(pass.factor(shared, round, f, thread), v);
            if (pass.exchanges(round))
                pass.write(shared, thread, pass.places(round - 1, pass.row(thread)), v);
        });
        exchanged = pass.exchanges(round);
        step = round == steps ? 0 : round;
    }
    block.each([&](uint32_t thread, V v) {
        take(thread, v);
        if (pass.factor_count(steps) == 0) reduce(v);
        pass.store(tile, thread, v);
    });
}

} // namespace

extern "C" {
uint32_t twinlock_cuda_ntt_tables_len() { return TABLES_LEN; }

void twinlock_cuda_ntt_tables(char *tables) {
    for (uint32_t i = 0; i < TABLES_LEN; i++) table_entry(i).store(tables + 32 * size_t(i));
}

void twinlock_cuda_ntt_pass(uint32_t first, uint32_t end, uint32_t threads, uint32_t shared_bytes,
                            char *data, const char *tables, const uint32_t *words,
                            const void *factors) {
    const Pass pass{data, tables, words[0], words[1], words[2], words[3], words[4], words[5]};
    const char *factor = static_cast<const char *>(factors);
    const Known scale = Known::load(factor);
    const Known w[3] = {Known::load(factor + 64), Known::load(factor + 128),
                        Known::load(factor + 192)};
    for (uint32_t tile = first; tile < end; tile++) {
        // What is not written first shows.
        Block block{std::vector<Quad>(shared_bytes / 16, Quad{{~0u, ~0u, ~0u, ~0u}}),
                    std::vector<Fr>(8 * threads), threads};
        run(pass, block, tile, scale, w);
    }
}

void twinlock_cuda_ntt_tiny(char *data, const char *tables, const uint32_t *words,
                            const void *factors) {
    const Pass pass{data, tables, words[0], words[0], 0, 0, 0, words[1]};
    tiny(pass, Known::load(static_cast<const char *>(factors)));
}

void twinlock_cuda_ntt_reverse(uint32_t first, uint32_t end, char *data, const uint32_t *words) {
    std::vector<Quad> shared(Reversal::SHARED_BYTES / 16);
    char *memory = reinterpret_cast<char *>(shared.data());
    for (uint32_t tile = first; tile < end; tile++) {
        const Reversal reversal{data, words[0], tile};
        if (reversal.idle()) continue;
        for (uint32_t i = 0; i < Reversal::THREADS; i++) reversal.read(memory, i);
        for (uint32_t i = 0; i < Reversal::THREADS; i++) reversal.write(memory, i);
    }
}
}
