//! What the kernels and those who launch them must agree on. The build scripts write it into
//! `constants.cuh`, each part a namespace.

macro_rules! sizes {
    ($($(#[$of_part:meta])* $part:ident { $($(#[$of_size:meta])* $name:ident = $value:expr;)* })*) => {
        $($(#[$of_part])* pub mod $part {
            $($(#[$of_size])* pub const $name: u32 = $value;)*
        })*

        /// Every part's name, and the names and values of its numbers.
        pub const ALL: &[(&str, &[(&str, u32)])] =
            &[$((stringify!($part), &[$((stringify!($name), $part::$name)),*])),*];
    };
}

sizes! {
    /// Of `element.cu`.
    elements {
        /// Threads of a block, one element each.
        THREADS = 128;
    }
    /// Of `points.cu`.
    points {
        /// Threads of a block, one point each.
        THREADS = 128;
    }
    /// Of what gives affine points: `fixed_base.cu` and `base_tables.cu`.
    normalize {
        /// Threads of a block, one point each.
        THREADS = 128;
    }
    /// Of `digits.cuh`.
    digits {
        /// Threads of a block that cuts scalars.
        CUT_THREADS = 256;
        /// Threads of a block that makes starts of counts.
        SCAN_THREADS = 256;
        /// Groups that they sum their counts by.
        SCAN_GROUPS = 16;
        /// Threads of a block that partitions digits, or counts or places records.
        SORT_THREADS = 1024;
        /// Digits or records that a thread sorts at once, in registers.
        SORT_LEN = 8;
        /// Blocks that sort, of one multiprocessor that has 2048 threads.
        SORT_BLOCKS = 2;
        /// Records that a block counts or places at least.
        MIN_CHUNK = 1024;
        /// The most upper bits of a bucket's number, by which digits are partitioned.
        MAX_BIN_BITS = 10;
        /// The most bits below those. Blocks of either sort take less than 64 KiB of shared memory.
        MAX_LOW_BITS = 11;
        /// Bytes of a record: an entry with the lower bits of its bucket's number.
        RECORD_BYTES = 8;
    }
    /// Of `msm_accumulate.cuh` and `msm_reduce.cuh`.
    msm {
        /// Threads of a block, of G1. Four blocks' sums fill no more than 160 KiB of shared memory.
        G1_THREADS = 128;
        /// The same of G2.
        G2_THREADS = 64;
        /// The most windows, as many as a scalar has of the least width, and the threads of the
        /// blocks that plan runs and that finish windows.
        MAX_WINDOWS = 128;
        /// Runs are this long before there are more than one for each thread that fits the device.
        GOOD_RUN_LEN = 24;
        /// And at least so long in any case.
        MIN_RUN_LEN = 8;
        /// Threads of accumulation, in numbers of those that the device keeps: several, for they
        /// end at different times.
        MAX_WAVES = 4;
        /// Blocks that one multiprocessor keeps at least, of G1.
        G1_BLOCKS_PER_SM = 4;
        /// The same of G2.
        G2_BLOCKS_PER_SM = 4;
        /// Threads of a block that weighs a window's sums, of G1.
        G1_WEIGH_THREADS = 128;
        /// The same of G2.
        G2_WEIGH_THREADS = 64;
    }
    /// Of `ntt.cuh`.
    ntt {
        /// The largest domain's base-2 logarithm.
        MAX_LG = 28;
        /// Bits of the largest tile.
        LG_TILE = 10;
        /// Bits of the largest digit.
        MAX_BITS = 9;
        /// Bits of the exponents whose powers are one table; another has those of the upper bits.
        LG_LOW = 10;
        /// Bits at either end of an element's number that the reversal's tiles have.
        REVERSAL_BITS = 4;
        /// Flag: roots are inverse roots.
        INVERSE = 1;
        /// Flag: before, an element's place in the digit is its number with its bits reversed.
        LOAD_REVERSED = 2;
        /// Flag: the same after.
        STORE_REVERSED = 4;
        /// Flag: the factors between passes come when loading, and with them powers of the coset's
        /// generator and the scale.
        FACTORS_AT_LOAD = 8;
        /// Flag: or when storing.
        FACTORS_AT_STORE = 16;
        /// Flag: those have powers of the coset's generator.
        FACTORS_WITH_COSET = 32;
        /// Flag: those have the scale.
        FACTORS_WITH_SCALE = 64;
        /// Flag: powers of the coset's generator on the other side, when loading.
        COSET_AT_LOAD = 128;
        /// Flag: the same when storing.
        COSET_AT_STORE = 256;
        /// Flag: with the factors comes the coset's power for the bits above the digit, too.
        FACTORS_WITH_COSET_ABOVE = 512;
        /// Flag: the fourth root that comes is the negative of the one to take.
        FOURTH_ROOT_NEGATED = 1024;
    }
}
