// SPDX-License-Identifier: Apache-2.0
// The one tolerance table: how far compiled code may be from the double-precision oracle.
//
// limit = factor * (error of the naive evaluation in the element type) + floor * ulp of the largest
// value. The naive evaluation is the oracle itself with every operation rounded (EVAL_F32). The
// rule follows the tests of FlashAttention: an error counts relative to what plain code would have
// made.
//
// The largest error of an output is judged by its largest value, and that of a row, its largest and
// its root mean square, by the row's own: else rows of small values could be anything. The naive
// error of one row may be a lucky one, so `row` times it is allowed, and no less than what is usual
// relative to the values: what nine rows of ten have at most. (Where a weight is nearly 1 its
// gradient is what is left of two equal numbers: most rows have six digits, many have none, and
// which of the many have some is luck.)
//
// Whole numbers that floats were cut to are held to what the floats are, and may be one off where
// a float is next to a whole number: that is rare, so a row's mean error shows what is not.
#include "driver/driver.h"

#include <math.h>
#include <stdlib.h>

enum { ROW_LEAST = 32 }; // elements of a row: the mean of fewer is a matter of luck

typedef struct {
    double factor; // of the naive error
    double row;    // likewise, of a row
    double floor;  // in units of `ulp` times the largest reference value
    double ulp;
    double least; // sums of numbers that count as zero
    double mean;  // likewise, for the mean of a row
} Tolerance;

static const Tolerance tolerances[N_ELEM] = {
    [ELEM_F32] = {2, 8, 2, 0x1p-23, 0x1p-120, 0x1p-120},
    [ELEM_F64] = {2, 8, 16, 0x1p-52, 0x1p-1016, 0x1p-1016},
    [ELEM_F16] = {2, 8, 2, 0x1p-10, 0x1p-24, 0x1p-24},
    [ELEM_BF16] = {2, 8, 2, 0x1p-7, 0x1p-120, 0x1p-120},
    [ELEM_I32] = {0},
    [ELEM_I64] = {.floor = 1, .ulp = 0x1p-52}, // the oracle computes with doubles
    [ELEM_BOOL] = {0},
};
// Results of one program with other schedules, in units of what is computed with and of what is
// stored, times the largest value: sums in another order differ by a few.
static const double alike_computed = 1024, alike_stored = 2;
// And times the largest value of all results: where terms cancel, as those of the gradient of a
// bias of keys do, what is left is their rounding (chosen).
static const double alike_beside = 64;
static const double cut_step = 1, cut_mean = 0.36; // every eighth element is one off

static Tolerance tolerance_of(ErrorUnit unit) {
    Tolerance out = tolerances[unit.elem];
    out.least = unit.cut ? cut_step : out.least;
    out.mean = unit.cut ? cut_mean : out.mean;
    return out;
}

double tolerance_least(Elem elem) {
    return tolerances[elem].least;
}

Elem tolerance_coarser(Elem a, Elem b) {
    return elem_is_float(b) && tolerances[b].ulp > tolerances[a].ulp ? b : a;
}

static double difference(double a, double b) {
    if (isnan(a) && isnan(b))
        return 0;
    if (isnan(a) || isnan(b) || isinf(a) || isinf(b))
        return a == b ? 0 : INFINITY;
    return fabs(a - b);
}

// ---- what naive evaluations make ----------------------------------------------------------------

NaiveErrors tolerance_open(const AttTensorData *output, const double *reference, Arena *arena) {
    NaiveErrors out = {.count = tensor_count(output), .row = 1, .reference = reference};
    int64_t whole = 1; // of the dims from the right that make a row
    for (int k = output->rank; k-- > 0 && whole < ROW_LEAST;) {
        out.row = whole;
        whole *= output->shape[k];
    }
    bool few = out.row > 1 && whole >= ROW_LEAST; // rows of few elements are taken together
    out.row = few ? (ROW_LEAST + out.row - 1) / out.row * out.row : whole;
    out.rows = out.row ? out.count / out.row : 0;
    out.skipped = arena_array(arena, bool, out.count);
    out.of_row = arena_array(arena, RowError, out.rows);
    return out;
}

// The error of `actual` at an element, or with NULL the size of the reference. -1: is not judged.
static double error_at(const NaiveErrors *naive, const double *actual, int64_t i) {
    double reference = naive->reference[i];
    if (naive->skipped[i])
        return -1;
    if (actual)
        return difference(reference, actual[i]);
    return isfinite(reference) ? fabs(reference) : -1;
}

static RowError row_error(const NaiveErrors *naive, const double *actual, int64_t row) {
    int64_t begin = row * naive->row, judged = 0;
    int64_t end = row + 1 < naive->rows ? begin + naive->row : naive->count;
    double largest = 0, squares = 0;
    for (int64_t i = begin; i < end; i++)
        largest = fmax(largest, error_at(naive, actual, i));
    for (int64_t i = begin; i < end && largest > 0; i++) {
        double error = error_at(naive, actual, i), share = error / largest;
        judged += error >= 0;
        squares += error >= 0 ? share * share : 0;
    }
    if (largest == 0 || isinf(largest))
        return (RowError){largest, largest};
    return (RowError){largest, largest * sqrt(squares / (double)judged)};
}

void tolerance_add_naive(NaiveErrors *naive, const double *plain) {
    for (int64_t i = 0; i < naive->count; i++)
        if (!naive->skipped[i] && isinf(difference(naive->reference[i], plain[i]))) {
            naive->skipped[i] = true;
            naive->n_skipped++;
        }
    for (int64_t row = 0; row < naive->rows; row++) {
        RowError now = row_error(naive, plain, row), *most = &naive->of_row[row];
        most->largest = fmax(most->largest, now.largest);
        most->rms = fmax(most->rms, now.rms);
        naive->largest = fmax(naive->largest, most->largest);
    }
}

double tolerance_telling(const NaiveErrors *naive) {
    double rows = 0;
    for (int64_t row = 0; row < naive->rows && naive->largest > 0; row++) {
        double share = naive->of_row[row].rms / naive->largest;
        rows += share * share;
    }
    return naive->largest > 0 ? rows * (double)naive->row : (double)naive->count;
}

// ---- judging ------------------------------------------------------------------------------------

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double usual_of(double *values, int64_t count) {
    qsort(values, (size_t)count, sizeof *values, by_value);
    return count ? values[(count - 1) * 9 / 10] : 0;
}

// The naive error relative to the values, of most rows.
static RowError usual_error(const NaiveErrors *naive) {
    Arena *scratch = arena_new();
    double *largest = arena_array(scratch, double, naive->rows);
    double *rms = arena_array(scratch, double, naive->rows);
    int64_t count = 0;
    for (int64_t row = 0; row < naive->rows; row++) {
        RowError size = row_error(naive, NULL, row);
        if (size.largest == 0)
            continue;
        largest[count] = naive->of_row[row].largest / size.largest;
        rms[count++] = naive->of_row[row].rms / size.rms;
    }
    RowError out = {usual_of(largest, count), usual_of(rms, count)};
    arena_free(scratch);
    return out;
}

static double limit_of(const Tolerance *t, double factor, double naive, double size) {
    return factor * naive + t->floor * t->ulp * size;
}

// A row of zeros has no size of its own: the output's limit alone is for it.
static void judge_rows(const NaiveErrors *naive, const Tolerance *t, const double *actual,
                       OutputError *out) {
    RowError usual = usual_error(naive);
    double worst = 0;
    for (int64_t row = 0; row < naive->rows; row++) {
        RowError size = row_error(naive, NULL, row), error = row_error(naive, actual, row);
        const RowError *plain = &naive->of_row[row];
        if (size.largest == 0)
            continue;
        double largest =
            limit_of(t, t->row, fmax(plain->largest, usual.largest * size.largest), size.largest) +
            t->least;
        double rms =
            limit_of(t, t->row, fmax(plain->rms, usual.rms * size.rms), size.rms) + t->mean;
        double share = fmax(error.largest / largest, error.rms / rms);
        if (share <= worst)
            continue;
        worst = share;
        bool by_rms = error.rms / rms >= error.largest / largest;
        out->row = row * naive->row;
        out->row_error = by_rms ? error.rms : error.largest;
        out->row_limit = by_rms ? rms : largest;
    }
}

OutputError tolerance_judge(ErrorUnit unit, const NaiveErrors *naive, const double *actual) {
    Tolerance tolerance = tolerance_of(unit), *t = &tolerance;
    OutputError out = {.naive = naive->largest, .n_skipped = naive->n_skipped, .row = -1};
    for (int64_t row = 0; row < naive->rows; row++) {
        out.error = fmax(out.error, row_error(naive, actual, row).largest);
        out.largest = fmax(out.largest, row_error(naive, NULL, row).largest);
    }
    for (int64_t i = 0; i < naive->count; i++)
        out.n_wild += !naive->skipped[i] && !isfinite(naive->reference[i]);
    out.limit = limit_of(t, t->factor, naive->largest, out.largest) + t->least;
    if (elem_is_float(unit.elem) && naive->rows > 1)
        judge_rows(naive, t, actual, &out);
    out.row_fine = out.row < 0 || out.row_error <= out.row_limit;
    out.fine = out.error <= out.limit && out.row_fine &&
               (naive->n_skipped == 0 || naive->n_skipped < naive->count);
    return out;
}

double tolerance_largest(const double *values, int64_t count) {
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(values[i]))
            largest = fmax(largest, fabs(values[i]));
    return largest;
}

bool tolerance_alike(Elem elem, const double *before, const double *now, int64_t count,
                     double of_all) {
    double ulp = tolerances[elem_work(elem)].ulp;
    double units = alike_computed * ulp + alike_stored * tolerances[elem].ulp;
    double limit = tolerance_largest(before, count) * units + of_all * alike_beside * ulp;
    limit = elem_is_float(elem) ? limit : 0;
    for (int64_t i = 0; i < count; i++)
        if (difference(before[i], now[i]) > limit)
            return false;
    return true;
}
