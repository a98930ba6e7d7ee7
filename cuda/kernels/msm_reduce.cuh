// Buckets, summed.
//
// A window's 2^k buckets are seen as a matrix of rows and columns: with b = row * columns + column,
//
//   sum (b + 1) B_b = columns * sum row * R_row + sum (column + 1) C_column
//
// where R and C are the sums of the rows and of the columns. Those take two additions a bucket,
// all independent; what is left are two short sums of this kind, for a block each.
#pragma once

#include "msm_accumulate.cuh"

namespace msm {

// Partial sums of a window's rows, then of its columns; all counts are powers of two.
struct Lines {
    uint32_t rows, columns;
    // Partial sums of a row and of a column.
    uint32_t row_parts, column_parts;

    TL_HD uint32_t num_row_parts() const { return rows * row_parts; }
    TL_HD uint32_t num_points() const { return rows * row_parts + columns * column_parts; }
};

// The points that one thread adds up, and where the sum belongs.
struct Part {
    uint64_t first, place;
    uint32_t count, step;
};

// A partial sum of buckets, by its number within the window.
TL_HD Part part_of_buckets(const Lines &out, uint32_t window, uint32_t at) {
    Part part;
    part.first = uint64_t(window) * out.rows * out.columns;
    if (at < out.num_row_parts()) {
        part.count = out.columns / out.row_parts;
        part.step = 1;
        part.first += uint64_t(at) * part.count;
        part.place = at;
    } else {
        const uint32_t column = (at - out.num_row_parts()) % out.columns;
        const uint32_t number = (at - out.num_row_parts()) / out.columns;
        part.count = out.rows / out.column_parts;
        part.step = out.columns;
        part.first += uint64_t(number) * part.count * part.step + column;
        part.place = out.num_row_parts() + column * out.column_parts + number;
    }
    return part;
}

// A partial sum of partial sums.
TL_HD Part part_of_parts(const Lines &in, const Lines &out, uint32_t window, uint32_t at) {
    Part part;
    part.first = uint64_t(window) * in.num_points();
    part.step = 1;
    part.place = at;
    if (at < out.num_row_parts()) {
        part.count = in.row_parts / out.row_parts;
        part.first += uint64_t(at) * part.count;
    } else {
        part.count = in.column_parts / out.column_parts;
        part.first += in.num_row_parts() + uint64_t(at - out.num_row_parts()) * part.count;
    }
    return part;
}

// Partial sums, of buckets if `in` has no parts, else of partial sums. One thread each.
template <class F, class Sum>
static TL_HD void sum(const Lines &in, const Lines &out, uint32_t num_windows, const char *points,
                      char *sums, const Sum &sum, uint32_t id) {
    const uint32_t window = id / out.num_points();
    if (window >= num_windows) return;
    const uint32_t at = id % out.num_points();
    const Part part = in.row_parts == 0 ? part_of_buckets(out, window, at)
                                        : part_of_parts(in, out, window, at);
    sum.clear();
    for (uint32_t i = 0; i < part.count; i++)
        sum.add_stored(point_at<F>(points, part.first + uint64_t(i) * part.step));
    sum.store(point_at<F>(sums, uint64_t(window) * out.num_points() + part.place));
}

// sum (i + 1) X_i over the columns of a window, or sum i X_i over its rows, by one block: T
// threads take `len` neighbours each, by running sums; suffix sums of their plain sums weigh them
// by their place; a tree adds up. Every addition goes through one place in the code, in steps of
// two phases with a barrier behind each.
template <class F, uint32_t T>
struct Weigh {
    struct Shared {
        alignas(16) char points[T * sizeof(Xyzz<F>)];
    };
    struct Registers {
        Xyzz<F> weighted, right;
    };

    // One sum a row and column.
    Lines lines;
    const char *sums;
    uint32_t window;
    bool of_rows;

    TL_HD uint32_t num_items() const { return of_rows ? lines.rows : lines.columns; }
    TL_HD uint32_t active() const { return num_items() < T ? num_items() : T; }
    TL_HD uint32_t len() const { return num_items() / active(); }

    static TL_HD uint32_t lg(uint32_t power) {
        uint32_t lg = 0;
        while ((1u << lg) < power) lg++;
        return lg;
    }

    // Rows are shifted by one, so that the first counts nothing.
    TL_HD Xyzz<F> item(uint32_t i) const {
        const uint64_t first = uint64_t(window) * lines.num_points();
        if (!of_rows) return Xyzz<F>::load(point_at<F>(sums, first + lines.rows + i));
        if (i + 1 == lines.rows) return Xyzz<F>::identity();
        return Xyzz<F>::load(point_at<F>(sums, first + i + 1));
    }

    // What a step does.
    enum Kind { RUN, WEIGH, SCAN, DOUBLE, JOIN, TREE };
    struct Step {
        Kind kind;
        uint32_t at;
    };

    TL_HD uint32_t num_steps() const { return 2 * len() + 2 * lg(active()) + lg(len()) + 1; }

    TL_HD Step step(uint32_t i) const {
        if (i < 2 * len()) return Step{(i & 1) == 0 ? RUN : WEIGH, i / 2};
        i -= 2 * len();
        if (i < lg(active())) return Step{SCAN, i};
        i -= lg(active());
        if (i < lg(len())) return Step{DOUBLE, i};
        i -= lg(len());
        if (i == 0) return Step{JOIN, 0};
        return Step{TREE, i - 1};
    }

    static TL_HD char *slot(Shared &shared, uint32_t thread) {
        return point_at<F>(shared.points, thread);
    }

    TL_HD void begin(Shared &shared, Registers &mine, uint32_t thread) const {
        mine.weighted = Xyzz<F>::identity();
        if (thread < active()) mine.weighted.store(slot(shared, thread));
    }

    // Phase one: what to add.
    TL_HD void read(Shared &shared, Registers &mine, const Step &step, uint32_t thread) const {
        mine.right = Xyzz<F>::identity();
        if (thread >= active()) return;
        uint32_t from = thread;
        switch (step.kind) {
            case RUN:
                mine.right = item(thread * len() + len() - 1 - step.at);
                return;
            case SCAN:
                from = thread + (1u << step.at);
                if (from >= active()) return;
                break;
            case TREE:
                from = thread + (active() >> (step.at + 1));
                if (from >= active() >> step.at) return;
                break;
            case WEIGH:
            case DOUBLE:
                break;
            case JOIN:
                if (thread == 0) return;
        }
        mine.right = Xyzz<F>::load(slot(shared, from));
    }

    // Phase two: adds it.
    TL_HD void add(Shared &shared, Registers &mine, const Step &step, uint32_t thread) const {
        if (thread >= active()) return;
        const bool to_weighted = step.kind == WEIGH || step.kind == JOIN;
        Xyzz<F> left = to_weighted ? mine.weighted : Xyzz<F>::load(slot(shared, thread));
        left.add(mine.right);
        if (step.kind == WEIGH)
            mine.weighted = left;
        else
            left.store(slot(shared, thread));
    }
};

// A window's sum, from those of rows and columns. One thread.
template <class F>
static TL_HD void finish(const char *weighed, char *windows, uint32_t num_windows,
                         uint32_t columns, uint32_t window) {
    if (window >= num_windows) return;
    Xyzz<F> sum = Xyzz<F>::load(point_at<F>(weighed, 2 * window));
    for (uint32_t i = 1; i < columns; i *= 2) sum = sum.dbl();
    sum.add(Xyzz<F>::load(point_at<F>(weighed, 2 * window + 1)));
    sum.to_jacobian().store(windows + uint64_t(window) * sizeof(Jacobian<F>));
}

}  // namespace msm
