// Kernels of the `digits` operation, in the order in which they run. See digits.cuh.
#include "digits.cuh"

using namespace digits;

// Every kernel begins with these.
#define SHAPE_PARAMS                                                                      \
    uint32_t window_bits, uint32_t num_windows, uint32_t low_bits, uint32_t bin_bits,     \
        uint32_t len, uint64_t stride
#define SHAPE Shape{window_bits, num_windows, low_bits, bin_bits, len, stride}

// Grid: any number of blocks. Dynamic shared memory: see `Cut`.
extern "C" __global__ void __launch_bounds__(CUT_THREADS)
    digits_cut(SHAPE_PARAMS, uint32_t tables, const char *scalars, uint32_t *digits,
               uint32_t *bin_counts) {
    extern __shared__ uint32_t bins[];
    const Cut cut{SHAPE, tables, scalars, digits, bin_counts};
    cut.clear(bins, threadIdx.x);
    __syncthreads();
    cut.cut(bins, blockIdx.x, gridDim.x, threadIdx.x);
    __syncthreads();
    cut.publish(bins, threadIdx.x);
}

// Grid: windows.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
    digits_bin_starts(SHAPE_PARAMS, uint32_t *bin_counts, uint32_t *bin_starts) {
    __shared__ uint32_t sums[SCAN_THREADS], groups[SCAN_GROUPS];
    const BinStarts bins{SHAPE, bin_counts, bin_starts};
    bins.scan(blockIdx.x).sum(sums, threadIdx.x);
    __syncthreads();
    Scan::group(sums, groups, threadIdx.x);
    __syncthreads();
    bins.write(sums, groups, blockIdx.x, threadIdx.x);
}

// Where a multiprocessor has 2048 threads.
#if defined(__CUDA_ARCH__) && \
    (__CUDA_ARCH__ == 800 || (__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200))
#define SORTING_BLOCKS SORT_BLOCKS
#else
#define SORTING_BLOCKS 1
#endif

// Grid: tiles of TILE scalars, windows. Dynamic shared memory: see `Sort`, by bins.
extern "C" __global__ void __launch_bounds__(SORT_THREADS, SORTING_BLOCKS)
    digits_partition(SHAPE_PARAMS, uint32_t window_first, const uint32_t *digits,
                     uint32_t *bin_cursors, Record *records) {
    extern __shared__ uint32_t shared[];
    const Sort sort(shared, bin_bits);
    Sort::Registers mine;
    const Partition partition{SHAPE, window_first, digits, bin_cursors, records};
    sort.clear(threadIdx.x);
    __syncthreads();
    partition.rank(sort, mine, blockIdx.x, blockIdx.y, threadIdx.x);
    __syncthreads();
    sort.sum(threadIdx.x);
    __syncthreads();
    sort.group(threadIdx.x);
    __syncthreads();
    sort.start(threadIdx.x);
    __syncthreads();
    partition.put(sort, mine, blockIdx.y, threadIdx.x);
    __syncthreads();
    partition.write(sort, blockIdx.x, blockIdx.y, threadIdx.x);
}

// Grid: chunks, as many as there are tiles; windows.
extern "C" __global__ void __launch_bounds__(SORT_THREADS)
    digits_count(SHAPE_PARAMS, uint32_t window_first, const void *records,
                 const uint32_t *bin_starts, uint32_t *counts) {
    __shared__ LowCounts shared;
    const Count count{Records{SHAPE, window_first, gridDim.x, records, bin_starts}, counts};
    const uint32_t part = blockIdx.y;
    Records::Segment segment = count.from.first(part, blockIdx.x);
    while (segment.begin < segment.end) {
        shared.clear(count.from.shape, threadIdx.x);
        __syncthreads();
        count.count(shared, part, segment, threadIdx.x);
        __syncthreads();
        count.publish(shared, part, segment, threadIdx.x);
        __syncthreads();
        segment = count.from.segment(part, blockIdx.x, segment.end, segment.bin);
    }
}

// Grid: bins, windows.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
    digits_starts(SHAPE_PARAMS, uint32_t window_first, const uint32_t *bin_starts,
                  uint32_t *counts, uint32_t *offsets) {
    __shared__ uint32_t sums[SCAN_THREADS], groups[SCAN_GROUPS];
    const Starts starts{Records{SHAPE, window_first, 1, nullptr, bin_starts}, counts, offsets};
    starts.scan(blockIdx.y, blockIdx.x).sum(sums, threadIdx.x);
    __syncthreads();
    Scan::group(sums, groups, threadIdx.x);
    __syncthreads();
    starts.write(sums, groups, blockIdx.y, blockIdx.x, threadIdx.x);
}

// Grid: chunks, as many as there are tiles; windows. Dynamic shared memory: see `Sort`, by the lower
// bits.
extern "C" __global__ void __launch_bounds__(SORT_THREADS, SORTING_BLOCKS)
    digits_place(SHAPE_PARAMS, uint32_t window_first, const void *records,
                 const uint32_t *bin_starts, uint32_t *cursors, uint32_t *entries) {
    extern __shared__ uint32_t shared[];
    const Sort sort(shared, low_bits);
    Sort::Registers mine;
    const Records source{SHAPE, window_first, gridDim.x, records, bin_starts};
    const Place place{source, cursors, entries};
    const uint32_t part = blockIdx.y;
    Records::Segment segment = place.from.first(part, blockIdx.x);
    while (segment.begin < segment.end) {
        sort.clear(threadIdx.x);
        __syncthreads();
        place.rank(sort, mine, part, segment, threadIdx.x);
        __syncthreads();
        sort.sum(threadIdx.x);
        __syncthreads();
        sort.group(threadIdx.x);
        __syncthreads();
        sort.start(threadIdx.x);
        __syncthreads();
        place.put(sort, mine, part, segment, threadIdx.x);
        __syncthreads();
        place.write(sort, part, threadIdx.x);
        __syncthreads();
        segment = place.from.segment(part, blockIdx.x, segment.end, segment.bin);
    }
}
