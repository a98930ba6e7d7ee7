// The number-theoretic transform over Fr, in place, in passes of tiles that fit shared memory.
//
// With n = (n_1, ..., n_P) by digits from the top and k = (k_P, ..., k_1), the digit k_1 lowest,
//     w^(n k) = product over p of w_(p)^(n_p K_p) w_(2^bits)^(n_p k_p)
// where K_p is what k_1, ..., k_(p-1) make (Bailey 1990). Pass p transforms along n_p and puts
// k_p in its place, bits reversed. From natural order the digits are taken from the top, and
// K_p, the bits above the digit reversed, is known when a tile is loaded: its factors come
// first. From bit-reversed order the digits are taken from the bottom and the mirror image holds:
// the bits above the digit, reversed, are the rest of n, and the factors w^(k_p rest) come last.
//
// A tile is 2^bits places of the digit by 2^cols neighbours. A thread has 8 elements of a place's
// column and does 3 levels (Gentleman-Sande) between two exchanges.
//
// Everything but the barriers is here, as functions of a thread's number, so that the host runs
// the same code thread by thread.
#pragma once

#include "known.cuh"

namespace ntt {

// Sizes and flags that the host must know are in ../src/sizes.rs.
constexpr uint32_t MAX_THREADS = (1u << LG_TILE) / 8;

// Tables, in elements. With their quotients, two elements each: powers of w_(2^k) for each k up to
// LG_TILE, from place 2^k - 1 on; the first powers of w_(2^MAX_LG); powers of the coset's
// generator, then of its inverse, to the 2^weight, for each weight. In Montgomery form: all powers
// of w_(2^LG_HIGH).
constexpr uint32_t LG_HIGH = MAX_LG - LG_LOW;
constexpr uint32_t LOW_AT = 2 * (2u << LG_TILE);
constexpr uint32_t COSET_AT = LOW_AT + (2u << LG_LOW);
constexpr uint32_t HIGH_AT = COSET_AT + 2 * (2 * MAX_LG << MAX_BITS);
constexpr uint32_t TABLES_LEN = HIGH_AT + (1u << LG_HIGH);

TL_HD uint32_t reverse_bits(uint32_t value, uint32_t bits) {
#ifdef __CUDA_ARCH__
    return bits == 0 ? 0 : __brev(value) >> (32 - bits);
#else
    uint32_t out = 0;
    for (uint32_t i = 0; i < bits; i++) out |= (value >> i & 1) << (bits - 1 - i);
    return out;
#endif
}

TL_HD constexpr uint32_t reverse3(uint32_t i) { return (i & 1) << 2 | (i & 2) | i >> 2; }

// Numbers of a thread's elements, first + i stride of element i, or of i with its bits reversed.
struct Numbers {
    uint32_t first, stride;
    bool reversed;

    TL_HD uint32_t at(uint32_t i) const {
        // The same three numbers for each i.
        const uint32_t low = reversed ? 4 * stride : stride, high = reversed ? stride : 4 * stride;
        return first + (i & 1 ? low : 0) + (i & 2 ? 2 * stride : 0) + (i & 4 ? high : 0);
    }
};

// What multiplies them: entries of a table modulo its length. Between steps element 0 takes none.
struct Factors {
    const char *table;
    Numbers numbers;
    uint32_t mask;
    bool between;

    TL_HD Known at(uint32_t i) const { return Known::load(table + 64 * (numbers.at(i) & mask)); }
};

// One pass. Shared memory holds a tile as two planes of quads, and behind it the factors of the
// digit's places.
struct Pass {
    char *data;
    const char *tables;
    uint32_t lg, bits, at, cols, weight, flags;

    TL_HD bool has(uint32_t flag) const { return (flags & flag) != 0; }
    TL_HD bool contiguous() const { return at == 0; }
    TL_HD uint32_t threads() const { return 1u << (bits - 3 + cols); }
    TL_HD uint32_t above() const { return lg - at - bits; }
    TL_HD uint32_t steps() const { return (bits + 2) / 3; }
    TL_HD char *factors(char *shared) const { return shared + (32u << (bits + cols)); }

    // The column of a thread, and its number within. Neighbours in memory are neighbours in number.
    TL_HD uint32_t column(uint32_t thread) const {
        return contiguous() ? thread >> (bits - 3) : thread & ((1u << cols) - 1);
    }
    TL_HD uint32_t row(uint32_t thread) const {
        return contiguous() ? thread & ((1u << (bits - 3)) - 1) : thread >> cols;
    }

    // The number of an element of the tile. Places next to each other are 2^at elements apart.
    TL_HD uint32_t element(uint32_t tile, uint32_t place, uint32_t column) const {
        if (contiguous()) return (tile << (bits + cols)) + (column << bits | place);
        const uint32_t tiles_below = at - cols;
        const uint32_t high = tile >> tiles_below;
        const uint32_t low = (tile & ((1u << tiles_below) - 1)) << cols;
        return (high << (at + bits)) + (place << at) + low + column;
    }

    // The reversed bits above the digit, those that all columns have in common.
    TL_HD uint32_t common_multiplier(uint32_t tile) const {
        const uint32_t high = contiguous() ? tile << cols : tile >> (at - cols);
        return reverse_bits(high, above());
    }

    // Cells of shared memory. Reversed, the places of 8 consecutive threads are in 8 banks of quads
    // in every step.
    TL_HD Numbers cells(const Numbers &places, uint32_t column) const {
        if (contiguous())
            return Numbers{column << bits | places.first, places.stride, places.reversed};
        return Numbers{places.first << cols | column, places.stride << cols, places.reversed};
    }
    static TL_HD char *cell(char *shared, uint32_t number) {
        return shared + 16 * (number ^ (number >> 3 & 7));
    }

    // The lowest bit that a step transforms.
    TL_HD uint32_t low_bit(uint32_t step) const {
        return step + 1 == steps() ? 0 : bits - 3 * (step + 1);
    }
    TL_HD uint32_t levels(uint32_t step) const {
        return step + 1 == steps() ? bits - 3 * step : 3;
    }
    // The places of a thread's elements in a step.
    TL_HD Numbers places(uint32_t step, uint32_t row) const {
        const uint32_t low = low_bit(step);
        return Numbers{row >> low << (low + 3) | (row & ((1u << low) - 1)), 1u << low, false};
    }
    // And with all bits reversed: of the first step, or else of the last.
    TL_HD Numbers reversed_places(uint32_t step, uint32_t row) const {
        const uint32_t reversed = reverse_bits(row, bits - 3);
        if (step == 0) return Numbers{reversed << 3, 1, true};
        return Numbers{reversed, 1u << (bits - 3), true};
    }

    TL_HD const char *table(uint32_t at) const { return tables + 32 * size_t(at); }
    TL_HD const char *coset(uint32_t weight) const {
        const uint32_t number = has(INVERSE) ? MAX_LG + weight : weight;
        return table(COSET_AT + 2 * (number << MAX_BITS));
    }
    // All powers of the root of order 2^lg.
    TL_HD const char *roots(uint32_t lg) const { return table(2 * ((1u << lg) - 1)); }

    // Before all else: the factors of the digit's places, into shared memory, so that those of a
    // thread's row are next to those of the next one's.
    TL_HD void prepare(char *shared, uint32_t tile, uint32_t thread, const Known &scale) const {
        if (!has(FACTORS_AT_LOAD | FACTORS_AT_STORE)) return;
        const uint32_t multiplier = common_multiplier(tile);
        const uint32_t common = multiplier << (MAX_LG - bits - above());
        for (uint32_t i = thread; i < 1u << bits; i += threads()) {
            uint32_t x = i;
            if (has(FACTORS_AT_STORE)) {
                const uint32_t top = reverse3(i >> (bits - 3)) << (bits - 3);
                x = top | reverse_bits(i & ((1u << (bits - 3)) - 1), bits - 3);
            }
            uint32_t exponent = x * common;
            if (has(INVERSE)) exponent = 0 - exponent;
            const uint32_t high = exponent >> LG_LOW & ((1u << LG_HIGH) - 1);
            const uint32_t low = exponent & ((1u << LG_LOW) - 1);
            Fr factor = Fr::load_read_only(table(HIGH_AT + high));
            TL_NO_UNROLL
            for (int k = 0; k < 4; k++) {
                Known other = scale;
                if (k == 0) {
                    if (low == 0) continue;
                    other = Known::load(table(LOW_AT + 2 * low));
                } else if (k == 1) {
                    if (!has(FACTORS_WITH_COSET)) continue;
                    other = Known::load(coset(weight) + 64 * x);
                } else if (k == 2) {
                    if (!has(FACTORS_WITH_COSET_ABOVE)) continue;
                    other = Known::load(coset(0) + 64 * multiplier);
                } else if (!has(FACTORS_WITH_SCALE)) {
                    continue;
                }
                factor = factor * other;
            }
            Known::from_montgomery(factor).store(factors(shared) + 64 * i);
        }
    }

    // Whether a thread's elements are others after a round.
    TL_HD bool exchanges(uint32_t round) const {
        return round != 0 && (round != steps() || store_staged());
    }

    // How many factors elements have in a round: round 0 is before the first step, the others are
    // after one.
    TL_HD uint32_t factor_count(uint32_t round) const {
        if (round != 0 && round != steps()) return 1;
        const uint32_t between = round == 0 ? FACTORS_AT_LOAD : FACTORS_AT_STORE;
        const uint32_t power = round == 0 ? COSET_AT_LOAD : COSET_AT_STORE;
        // Columns with a multiplier of their own have a second factor.
        if (has(between)) return contiguous() && cols != 0 ? 2 : 1;
        return has(power) ? 1 : 0;
    }
    // Number f of them.
    TL_HD Factors factor(char *shared, uint32_t round, uint32_t f, uint32_t thread) const {
        const bool load = round == 0;
        // Between two steps, elements number i of the outputs take the power of a root that the
        // bits not yet transformed and i make.
        if (!load && round != steps()) {
            const uint32_t low = low_bit(round - 1);
            const uint32_t mult = signed_power(row(thread) & ((1u << low) - 1));
            return Factors{roots(low + 3), {0, mult, true}, (8u << low) - 1, true};
        }
        const uint32_t row = this->row(thread), top = bits - 3;
        const uint32_t place = load ? row : reverse_bits(row, top);
        if (f == 1) {
            const uint32_t mult = signed_power(reverse_bits(column(thread), cols));
            const uint32_t mask = (1u << (bits + cols)) - 1;
            return Factors{roots(bits + cols), {place * mult, mult << top, !load}, mask, false};
        }
        if (has(load ? FACTORS_AT_LOAD : FACTORS_AT_STORE))
            return Factors{factors(shared), {row, 1u << top, false}, ~0u, false};
        return Factors{coset(weight), {place, 1u << top, !load}, ~0u, false};
    }
    TL_HD uint32_t signed_power(uint32_t power) const { return has(INVERSE) ? 0 - power : power; }

    // Multiplies a thread's elements, below 2 r, by one factor each; they are then below r.
    static TL_HD void multiply(const Factors &factors, Fr (&v)[8]) {
        // All are one, and the elements reduced already.
        if (!factors.between && factors.numbers.stride == 0) return;
        v[0] = factors.between ? v[0].subtract_if_not_below() : v[0] * factors.at(0);
        TL_UNROLL
        for (uint32_t i = 1; i < 8; i++) v[i] = v[i] * factors.at(i);
    }

    TL_HD Numbers elements(uint32_t tile, uint32_t thread, const Numbers &places) const {
        const uint32_t first = element(tile, places.first, column(thread));
        return Numbers{first, places.stride << at, places.reversed};
    }
    TL_HD void load(uint32_t tile, uint32_t thread, Fr (&v)[8]) const {
        const bool reversed = has(LOAD_REVERSED) && !load_staged();
        const uint32_t row = this->row(thread);
        const Numbers numbers =
            elements(tile, thread, reversed ? reversed_places(0, row) : places(0, row));
        TL_UNROLL
        for (uint32_t i = 0; i < 8; i++) v[i] = Fr::load(data + 32 * size_t(numbers.at(i)));
    }
    TL_HD void store(uint32_t tile, uint32_t thread, const Fr (&v)[8]) const {
        const uint32_t row = this->row(thread), last = steps() - 1;
        const Numbers numbers =
            elements(tile, thread,
                     has(STORE_REVERSED) ? reversed_places(last, row)
                                         : places(store_staged() ? 0 : last, row));
        TL_UNROLL
        for (uint32_t i = 0; i < 8; i++) v[i].store(data + 32 * size_t(numbers.at(i)));
    }

    TL_HD void write(char *shared, uint32_t thread, const Numbers &places, const Fr (&v)[8]) const {
        const Numbers cells = this->cells(places, column(thread));
        TL_UNROLL
        for (uint32_t i = 0; i < 8; i++) v[i].store_apart(cell(shared, cells.at(i)), plane());
    }
    TL_HD void read(char *shared, uint32_t thread, const Numbers &places, Fr (&v)[8]) const {
        const Numbers cells = this->cells(places, column(thread));
        TL_UNROLL
        for (uint32_t i = 0; i < 8; i++)
            v[i] = Fr::load_apart(cell(shared, cells.at(i)), plane());
    }
    TL_HD uint32_t plane() const { return 16u << (bits + cols); }

    // Tiles of consecutive elements are loaded and stored in order, through shared memory where a
    // thread's elements are others.
    TL_HD bool load_staged() const { return contiguous() && has(LOAD_REVERSED); }
    TL_HD bool store_staged() const { return contiguous() && !has(STORE_REVERSED); }
};

// The difference takes the factor.
TL_HD void butterfly(Fr &a, Fr &b) {
    const Fr sum = a + b;
    b = a - b;
    a = sum;
}
TL_HD void butterfly(Fr &a, Fr &b, const Known &w) {
    const Fr sum = a + b;
    b = a.unreduced_difference(b) * w;
    a = sum;
}
TL_HD void butterfly(Fr &a, Fr &b, const FourthRoot &w) {
    const Fr sum = a + b;
    b = w.times_difference(a, b);
    a = sum;
}

// Levels of 8 elements, bits `levels` - 1 down to 0 of their number. Those that come out are below
// 2 r.
TL_HD void transform(Fr (&v)[8], uint32_t levels, const Known &w8, const FourthRoot &w4,
                     const Known &w83) {
    if (levels >= 3) {
        butterfly(v[0], v[4]);
        butterfly(v[1], v[5], w8);
        butterfly(v[2], v[6], w4);
        butterfly(v[3], v[7], w83);
    }
    if (levels >= 2) {
        TL_UNROLL
        for (int i = 0; i < 8; i += 4) {
            butterfly(v[i], v[i + 2]);
            butterfly(v[i + 1], v[i + 3], w4);
        }
    }
    TL_UNROLL
    for (int i = 0; i < 8; i += 2) {
        const Fr sum = v[i].unreduced_sum(v[i + 1]);
        v[i + 1] = v[i].unreduced_difference(v[i + 1]);
        v[i] = sum;
    }
}

TL_HD void reduce(Fr (&v)[8]) {
    TL_UNROLL
    for (int i = 0; i < 8; i++) v[i] = v[i].subtract_if_not_below();
}

// 2 or 4 elements, by definition.
TL_HD void tiny(const Pass &pass, const Known &scale) {
    Fr in[4], out[4];
    const uint32_t n = 1u << pass.lg;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t place = pass.has(LOAD_REVERSED) ? reverse_bits(i, pass.lg) : i;
        in[i] = Fr::load(pass.data + 32 * place);
        if (pass.has(COSET_AT_LOAD)) in[i] = in[i] * Known::load(pass.coset(0) + 64 * i);
    }
    for (uint32_t k = 0; k < n; k++) {
        out[k] = Fr::zero();
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t power = pass.signed_power(i * k) & (n - 1);
            out[k] = out[k] + in[i] * Known::load(pass.roots(pass.lg) + 64 * power);
        }
        if (pass.has(COSET_AT_STORE)) out[k] = out[k] * Known::load(pass.coset(0) + 64 * k);
        if (pass.has(FACTORS_WITH_SCALE)) out[k] = out[k] * scale;
    }
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t place = pass.has(STORE_REVERSED) ? k : reverse_bits(k, pass.lg);
        out[k].store(pass.data + 32 * place);
    }
}

// Bit reversal in place. Elements whose numbers have the same middle bits, square tiles by their
// four top and four low bits, change places with those of the reversed middle: one block both.
struct Reversal {
    static constexpr uint32_t BITS = REVERSAL_BITS;
    static constexpr uint32_t THREADS = 1u << 2 * BITS;
    static constexpr uint32_t SHARED_BYTES = 2 * 32 * THREADS;

    char *data;
    uint32_t lg, tile;

    TL_HD uint32_t other() const { return reverse_bits(tile, lg - 2 * BITS); }
    // The other tile's block does it.
    TL_HD bool idle() const { return tile > other(); }

    TL_HD char *element(uint32_t middle, uint32_t place) const {
        const size_t high = place >> BITS, low = place & ((1u << BITS) - 1);
        return data + 32 * (high << (lg - BITS) | size_t(middle) << BITS | low);
    }
    // Cells of neighbours and those of a row's reversed places are in banks of their own.
    static TL_HD char *cell(char *shared, uint32_t half, uint32_t place) {
        return shared + 32 * THREADS * half + 16 * (place ^ (place >> 5 & 7));
    }
    static TL_HD void put(char *shared, uint32_t half, uint32_t place, const Fr &value) {
        store_quad(cell(shared, half, place), value.quad(0));
        store_quad(cell(shared, half, place) + 16 * THREADS, value.quad(1));
    }
    static TL_HD Fr get(char *shared, uint32_t half, uint32_t place) {
        Fr out;
        out.set_quad(0, load_quad(cell(shared, half, place)));
        out.set_quad(1, load_quad(cell(shared, half, place) + 16 * THREADS));
        return out;
    }

    TL_HD void read(char *shared, uint32_t thread) const {
        put(shared, 0, thread, Fr::load(element(tile, thread)));
        put(shared, 1, thread, Fr::load(element(other(), thread)));
    }
    TL_HD void write(char *shared, uint32_t thread) const {
        const uint32_t from = reverse_bits(thread, 2 * BITS);
        get(shared, 0, from).store(element(other(), thread));
        get(shared, 1, from).store(element(tile, thread));
    }
};

TL_HD Fr constant(const uint32_t *limbs) {
    Fr out;
    TL_UNROLL
    for (int i = 0; i < 8; i++) out.l[i] = limbs[i];
    return out;
}

// Power i of the tables: those with quotients first.
TL_HD Fr power_entry(uint32_t i) {
    constexpr uint32_t LOW = LOW_AT / 2, COSET = COSET_AT / 2, HIGH = HIGH_AT / 2;
    uint64_t exponent;
    Fr base;
    if (i < LOW) {
        uint32_t lg = 0;
        while ((2u << lg) - 1 <= i) lg++;
        exponent = i - ((1u << lg) - 1);
        // One place is left over.
        base = constant(FR_ROOTS + 8 * (lg <= LG_TILE ? lg : 0));
    } else if (i < COSET) {
        exponent = i - LOW;
        base = constant(FR_ROOTS + 8 * MAX_LG);
    } else if (i < HIGH) {
        const uint32_t number = (i - COSET) >> MAX_BITS;
        const bool inverse = number >= MAX_LG;
        exponent = (i - COSET) & ((1u << MAX_BITS) - 1);
        exponent <<= inverse ? number - MAX_LG : number;
        base = constant(FR_SHIFTS + (inverse ? 8 : 0));
    } else {
        exponent = i - HIGH;
        base = constant(FR_ROOTS + 8 * LG_HIGH);
    }
    Fr out = Fr::one();
    for (; exponent != 0; exponent >>= 1) {
        if (exponent & 1) out = out * base;
        base = base * base;
    }
    return out;
}

// The content of place i of the tables.
TL_HD Fr table_entry(uint32_t i) {
    if (i >= HIGH_AT) return power_entry(i - HIGH_AT / 2);
    const Known known = Known::from_montgomery(power_entry(i / 2));
    return i % 2 == 0 ? known.value : known.quotient;
}

} // namespace ntt
