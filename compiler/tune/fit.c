// SPDX-License-Identifier: Apache-2.0
// The rates of a machine, fitted to what was measured on it.
//
// The cost model predicts the seconds of a kernel from what it has counted and four rates: of
// arithmetic, and of bytes from L2, L3 and memory. What is due to each rate is known
// (tile_cost_rated), so that with x the logarithm of a rate over the one that is there
//
//     log predicted(x) - log predicted(0)  is about  - sum of due / predicted * x
//
// and the x of the least sum of squares of log(measured / predicted) are those of a linear problem,
// which is put together anew at its solution until that stays where it is (Gauss and Newton). Far
// from kinks, where a stage changes from waiting for arithmetic to waiting for bytes, a step is as
// good as exact.
//
// Some measurements were disturbed, and some kernels are beyond the model: residuals above FAR
// count by their size, not by its square (Huber, "Robust estimation of a location parameter",
// 1964).
//
// A rate that few measurements depend on, and these weakly, stays near to what it was, and one that
// none depends on exactly there: squares of x / USUAL are added to those of residuals / scatter,
// which is what residuals are on the whole (ridge regression; Hoerl and Kennard 1970). None becomes
// more than FACTOR times larger or smaller.
#include "tune/tune.h"

#include <math.h>

// All of these are chosen. USUAL, SETTLED: of x, logarithms of rates.
static const double USUAL = 0.5, FACTOR = 3;
static const double FAR = 0.2;            // of residuals
static const double LEAST_SCATTER = 0.03; // of measurements without any other error
static const double SETTLED = 1e-4;
static const double LEAST_PART = 0.25; // of the way to the fitted rates: all, half, a quarter
// Less is no difference: measurements that are repeated make more.
static const double SAME_ERROR = 1e-3, SAME_RANKS = 1e-2;
enum { STEPS_MOST = 30, HALVINGS = 6, SWEEPS = 60, DIGITS = 3 };

typedef struct {
    uint32_t kernel; // its number: of equal keys
    TileCost counted;
    double seconds;
} Sample;

typedef struct {
    Arena *arena;
    VEC(Sample) samples;
    VEC(const TuneKey *) kernels;
} Samples;

double *tune_rate(Machine *machine, TrafficLevel level) {
    double *const rates[N_FROM] = {
        [FROM_L1] = &machine->flops_per_second,
        [FROM_L2] = &machine->l2_bytes_per_second,
        [FROM_L3] = &machine->l3_bytes_per_second,
        [FROM_MEMORY] = &machine->memory_bytes_per_second,
    };
    return rates[level];
}

// ---- samples ------------------------------------------------------------------------------------

static uint32_t kernel_of(Samples *samples, const TuneKey *key) {
    uint32_t i = 0;
    while (i < samples->kernels.count && tune_key_compare(samples->kernels.at[i], key))
        i++;
    if (i == samples->kernels.count)
        vec_push(samples->arena, &samples->kernels, key);
    return i;
}

static Samples samples_open(const TuneMeasurements *measurements) {
    Samples samples = {.arena = arena_new()};
    for (uint32_t i = 0; i < measurements->count; i++) {
        const TuneMeasurement *m = &measurements->at[i];
        Sample sample = {.seconds = m->seconds};
        const char *why;
        if (!tune_counts_from_text(samples.arena, m->counts, &sample.counted, &why))
            ice("fit: a measurement without counts: %s", why);
        sample.kernel = kernel_of(&samples, &m->key);
        vec_push(samples.arena, &samples.samples, sample);
    }
    return samples;
}

// What takes no time that rates have to do with tells nothing of them.
static bool is_predicted(const RatedCost *rated) {
    return isfinite(rated->seconds) && rated->seconds > 0;
}

// ---- how well rates predict ---------------------------------------------------------------------

typedef struct {
    double *predicted, *measured;
    uint32_t count;
} Pairs;

// Of a kernel, or of all where it is their count.
static Pairs pairs_of(const Samples *samples, const Machine *machine, uint32_t kernel) {
    uint32_t n = samples->samples.count + 1;
    Pairs pairs = {arena_array(samples->arena, double, n), arena_array(samples->arena, double, n),
                   0};
    for (uint32_t i = 0; i < samples->samples.count; i++) {
        const Sample *sample = &samples->samples.at[i];
        if (kernel < samples->kernels.count && sample->kernel != kernel)
            continue;
        pairs.predicted[pairs.count] = tile_cost_rated(&sample->counted, machine).seconds;
        pairs.measured[pairs.count++] = sample->seconds;
    }
    return pairs;
}

static double ranks_of(const Pairs *pairs) {
    return tune_rank_correlation(pairs->predicted, pairs->measured, pairs->count);
}

static TuneFitness judge(const Samples *samples, const Machine *machine, uint32_t *ranked) {
    uint32_t n = samples->kernels.count;
    Pairs all = pairs_of(samples, machine, n);
    TuneFitness out = {.of_all = ranks_of(&all)};
    for (uint32_t i = 0; i < all.count; i++)
        out.error += fabs(all.predicted[i] / all.measured[i] - 1) / all.count;
    double sum = 0;
    *ranked = 0;
    for (uint32_t k = 0; k < n; k++) {
        Pairs pairs = pairs_of(samples, machine, k);
        double ranks = pairs.count < TUNE_RANKED_LEAST ? NAN : ranks_of(&pairs);
        sum += isnan(ranks) ? 0 : ranks;
        *ranked += !isnan(ranks);
    }
    out.ranks = *ranked ? sum / *ranked : NAN;
    return out;
}

// Not where one is NAN.
static bool is_lower(double after, double before, double by) {
    return after < before - by;
}

static bool is_better(const TuneFitness *after, const TuneFitness *before) {
    return is_lower(after->error, before->error, SAME_ERROR) &&
           !is_lower(after->ranks, before->ranks, SAME_RANKS) &&
           !is_lower(after->of_all, before->of_all, SAME_RANKS);
}

// ---- the fit ------------------------------------------------------------------------------------

typedef struct {
    const Samples *samples;
    const Machine *from; // x is 0
    double x[N_FROM];
    double nearness; // of a square of x, among squares of residuals
} Fit;

static Machine machine_at(const Machine *from, const double x[N_FROM]) {
    Machine out = *from;
    for (int r = 0; r < N_FROM; r++)
        *tune_rate(&out, r) *= exp(x[r]);
    return out;
}

static double weight_of(double residual) {
    return fabs(residual) <= FAR ? 1 : FAR / fabs(residual);
}

// Squares of the residuals, as far as they count, and of x.
static double sum_at(const Fit *fit, const double x[N_FROM], double nearness) {
    Machine machine = machine_at(fit->from, x);
    double sum = 0;
    for (uint32_t i = 0; i < fit->samples->samples.count; i++) {
        const Sample *sample = &fit->samples->samples.at[i];
        RatedCost rated = tile_cost_rated(&sample->counted, &machine);
        double residual = is_predicted(&rated) ? log(sample->seconds / rated.seconds) : 0;
        double size = fabs(residual);
        sum += size <= FAR ? size * size : FAR * (2 * size - FAR);
    }
    for (int r = 0; r < N_FROM; r++)
        sum += nearness * x[r] * x[r];
    return sum;
}

// The least squares of a linear problem are where normal * step = wanted.
typedef struct {
    double normal[N_FROM][N_FROM], wanted[N_FROM];
} Normal;

static Normal normal_at(const Fit *fit) {
    Machine machine = machine_at(fit->from, fit->x);
    Normal out = {0};
    for (uint32_t i = 0; i < fit->samples->samples.count; i++) {
        const Sample *sample = &fit->samples->samples.at[i];
        RatedCost rated = tile_cost_rated(&sample->counted, &machine);
        if (!is_predicted(&rated))
            continue;
        double residual = log(sample->seconds / rated.seconds);
        for (int r = 0; r < N_FROM; r++) {
            double slope = -weight_of(residual) * rated.due[r] / rated.seconds;
            out.wanted[r] += slope * residual;
            for (int c = 0; c < N_FROM; c++)
                out.normal[r][c] -= slope * rated.due[c] / rated.seconds;
        }
    }
    for (int r = 0; r < N_FROM; r++) {
        out.normal[r][r] += fit->nearness;
        out.wanted[r] -= fit->nearness * fit->x[r];
    }
    return out;
}

// One x after the other, within its bounds, until all stay: there are four.
static void solve(const Normal *n, const double x[N_FROM], double step[N_FROM]) {
    double most = log(FACTOR);
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (int r = 0; r < N_FROM; r++) {
            double wanted = n->wanted[r];
            for (int c = 0; c < N_FROM; c++)
                wanted -= c == r ? 0 : n->normal[r][c] * step[c];
            step[r] = fmin(fmax(wanted / n->normal[r][r], -most - x[r]), most - x[r]);
        }
}

// false: it is as good as where it was.
static bool take_step(Fit *fit) {
    double step[N_FROM] = {0}, next[N_FROM], largest = 0;
    double squares = sum_at(fit, fit->x, 0) / fit->samples->samples.count;
    fit->nearness = fmax(squares, LEAST_SCATTER * LEAST_SCATTER) / (USUAL * USUAL);
    double before = sum_at(fit, fit->x, fit->nearness);
    Normal normal = normal_at(fit);
    solve(&normal, fit->x, step);
    for (int r = 0; r < N_FROM; r++)
        largest = fmax(largest, fabs(step[r]));
    for (int i = 0; i < HALVINGS && largest > SETTLED; i++, largest /= 2) {
        for (int r = 0; r < N_FROM; r++)
            next[r] = fit->x[r] + ldexp(step[r], -i);
        if (sum_at(fit, next, fit->nearness) >= before)
            continue;
        for (int r = 0; r < N_FROM; r++)
            fit->x[r] = next[r];
        return true;
    }
    return false;
}

static double rounded(double rate) {
    double unit = pow(10, floor(log10(rate)) - (DIGITS - 1));
    return round(rate / unit) * unit;
}

// The machine in use with rates a part of the way to the fitted ones.
static Machine on_the_way(const Machine *used, Machine *fitted, double part) {
    Machine out = *used;
    for (int r = 0; r < N_FROM; r++) {
        double *rate = tune_rate(&out, r), to = *tune_rate(fitted, r);
        if (fabs(log(to / *rate)) > SETTLED)
            *rate = rounded(*rate * pow(to / *rate, part));
    }
    return out;
}

bool tune_fit(const TuneMeasurements *measurements, const Machine *measured, const Machine *used,
              TuneFit *out) {
    *out = (TuneFit){.machine = *used, .measurements = measurements->count};
    Samples samples = samples_open(measurements);
    Fit fit = {.samples = &samples, .from = measured};
    out->kernels = samples.kernels.count;
    out->before = out->after = judge(&samples, used, &out->ranked);
    bool enough = measurements->count >= TUNE_FIT_LEAST;
    for (int i = 0; i < STEPS_MOST && enough; i++)
        if (!take_step(&fit))
            break;
    Machine fitted = machine_at(measured, fit.x);
    for (double part = 1; part >= LEAST_PART && enough && !out->better; part /= 2) {
        Machine machine = on_the_way(used, &fitted, part);
        TuneFitness after = judge(&samples, &machine, &out->ranked);
        out->better = is_better(&after, &out->before);
        if (part == 1 || out->better) {
            out->machine = machine;
            out->after = after;
        }
    }
    arena_free(samples.arena);
    return enough;
}
