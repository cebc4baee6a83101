// SPDX-License-Identifier: Apache-2.0
// Optimizers from text to updates in place: the prelude's against their formulas in double
// precision over several steps, what is refused, and the same bits for any number of threads.
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline.h"
#include "product/product.h"
#include "train/train.h"

enum { STATES_MAX = 2, SETTINGS_MAX = 8 };

// ---- compiling ----------------------------------------------------------------------------------
typedef struct {
    Session *session;
    LoadedProduct *loaded;
    AttOptimizer optimizer;
    AttSetting settings[SETTINGS_MAX];
} Made;

static bool lower(Session *session, const PipelineOptions *options, Compilation *compiled,
                  LoadedProduct **out) {
    const char *why = NULL;
    if (!pipeline_lower(session, options, compiled))
        return false;
    ProductFunction function = {.suffix = "", .programs = &compiled->tile, .n_parts = 1};
    *out = product_load(session, &function, target_host(&why), NULL, &why);
    assert_non_null(*out);
    return true;
}

static Program *parse(Session *session, const char *text) {
    Program *program = program_new(session->arena);
    ast_parse(session, program, sources_add(session->sources, "<test>", text, strlen(text)));
    ast_add_prelude(session, program);
    bool fine = ast_resolve(session, program);
    if (!fine)
        diags_print(session->diags, stderr, DIAGS_TEXT, false);
    assert_true(fine);
    return program;
}

static PipelineOptions options_for_host(void) {
    const char *why = NULL;
    const Target *target = target_host(&why);
    assert_non_null(target);
    return (PipelineOptions){.machine = &target->machine, .stop = AFTER_TILE, .verify = true};
}

// false after diagnostics.
static bool try_make(const char *text, const char *name, Made *out) {
    Session *session = session_new();
    Program *program = parse(session, text);
    PipelineOptions options = options_for_host();
    Def *def = program_find_def(program, names_find(session->names, name));
    Compilation compiled;
    *out = (Made){.session = session};
    if (!pipeline_build_optimizer(session, program, def, &options, &compiled) ||
        !lower(session, &options, &compiled, &out->loaded))
        return false;
    OptimizerFacts facts = def_optimizer_facts(session->arena, def);
    for (uint32_t i = 0; i < facts.settings.count; i++)
        out->settings[i] = (AttSetting){facts.settings.at[i].name, facts.settings.at[i].value};
    out->optimizer = (AttOptimizer){.name = name,
                                    .module = product_module(out->loaded),
                                    .rank = facts.rank,
                                    .n_states = facts.n_states,
                                    .n_settings = facts.settings.count,
                                    .settings = out->settings};
    return true;
}

static void unmake(Made *made) {
    product_unload(made->loaded);
    session_free(made->session);
}

// ---- tensors ------------------------------------------------------------------------------------
typedef struct {
    int rank;
    int64_t shape[4];
    int64_t r, c; // as a matrix
} Shape;

static const Shape shapes[] = {
    {0, {0}, 1, 1},          {1, {1}, 1, 1},
    {1, {37}, 1, 37},        {2, {5, 3}, 5, 3},
    {2, {40, 23}, 40, 23},   {3, {16, 8, 2}, 16, 16},
    {3, {6, 4, 30}, 24, 30}, {4, {3, 5, 7, 2}, 15, 14},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

typedef struct {
    int64_t count, state_count[STATES_MAX];
    float *tensor, *gradient, *states[STATES_MAX];
} Data;

static void fill(float *out, int64_t count, uint64_t stream) {
    att_random_normal_from(7, stream, 0, count, out);
}

static int64_t volume(int rank, const int64_t *shape) {
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= shape[i];
    return count;
}

static Data data_new(const AttOptimizer *optimizer, const Shape *shape) {
    Data data = {.count = volume(shape->rank, shape->shape)};
    data.tensor = malloc((size_t)data.count * sizeof(float));
    data.gradient = malloc((size_t)data.count * sizeof(float));
    fill(data.tensor, data.count, 1);
    for (int64_t k = 0; k < optimizer->n_states; k++) {
        int64_t own[ATT_RANK_MAX];
        int rank = att_optimizer_state(optimizer, k, shape->rank, shape->shape, own);
        data.state_count[k] = volume(rank, own);
        data.states[k] = calloc((size_t)data.state_count[k], sizeof(float));
    }
    return data;
}

static void data_free(Data *data) {
    free(data->tensor);
    free(data->gradient);
    for (int k = 0; k < STATES_MAX; k++)
        free(data->states[k]);
}

// ---- formulas, in double precision --------------------------------------------------------------
// What an optimizer makes of a tensor of r x c: W and states are changed, g is scaled already.
typedef void Formula64(int64_t r, int64_t c, double *W, const double *g, double *const *states,
                       double step, double lr, const double *settings);

static void sgd(int64_t r, int64_t c, double *W, const double *g, double *const *states,
                double step, double lr, const double *s) {
    (void)step;
    for (int64_t i = 0; i < r * c; i++) {
        states[0][i] = s[0] * states[0][i] + g[i] + s[1] * W[i];
        W[i] -= lr * states[0][i];
    }
}

static void adam_with(int64_t n, double *W, const double *gradient, double *const *states,
                      double step, double lr, const double *s, double decay) {
    for (int64_t i = 0; i < n; i++) {
        double g = gradient[i] + decay * W[i];
        states[0][i] = s[0] * states[0][i] + (1 - s[0]) * g;
        states[1][i] = s[1] * states[1][i] + (1 - s[1]) * g * g;
        double root = sqrt(states[1][i]) / sqrt(1 - pow(s[1], step));
        W[i] -= lr / (1 - pow(s[0], step)) * states[0][i] / (root + s[2]);
    }
}

static void adam(int64_t r, int64_t c, double *W, const double *g, double *const *states,
                 double step, double lr, const double *s) {
    adam_with(r * c, W, g, states, step, lr, s, s[3]);
}

static void adamw(int64_t r, int64_t c, double *W, const double *g, double *const *states,
                  double step, double lr, const double *s) {
    for (int64_t i = 0; i < r * c; i++)
        W[i] *= 1 - lr * s[3];
    adam_with(r * c, W, g, states, step, lr, s, 0);
}

static double mean_square(int64_t n, const double *x, int64_t stride) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i * stride] * x[i * stride];
    return sum / (double)n;
}

// As PyTorch has it: of one row, the column's mean squares are those of the elements.
static void adafactor(int64_t r, int64_t c, double *W, const double *g, double *const *states,
                      double step, double lr, const double *s) {
    double share = pow(step, s[0]), mean_row = 0, *u = malloc((size_t)(r * c) * sizeof *u);
    double rate = fmax(s[2], sqrt(mean_square(r * c, W, 1))) * fmin(lr, 1 / sqrt(step));
    for (int64_t i = 0; i < r; i++)
        states[0][i] += share * (mean_square(c, g + i * c, 1) - states[0][i]);
    for (int64_t k = 0; k < c; k++)
        states[1][k] += share * (mean_square(r, g + k, c) - states[1][k]);
    for (int64_t i = 0; i < r; i++)
        mean_row += states[0][i] / (double)r;
    for (int64_t i = 0; i < r * c; i++) {
        double estimate = states[0][i / c] * states[1][i % c] / fmax(mean_row, s[1]);
        estimate = r > 1 ? estimate : states[1][i % c];
        u[i] = g[i] / sqrt(fmax(estimate, s[1] * s[1]));
    }
    double clip = fmax(1, sqrt(mean_square(r * c, u, 1)) / s[3]);
    for (int64_t i = 0; i < r * c; i++)
        W[i] = W[i] * (1 - lr * s[4]) - rate / clip * u[i];
    free(u);
}

// ---- updates against formulas -------------------------------------------------------------------
static double *widen(int64_t count, const float *x) {
    double *wide = malloc((size_t)count * sizeof *wide);
    for (int64_t i = 0; i < count; i++)
        wide[i] = x[i];
    return wide;
}

static void check_close(const char *what, int64_t count, const float *have, const double *want) {
    double most = 0, error = 0;
    for (int64_t i = 0; i < count; i++) {
        most = fmax(most, fabs(want[i]));
        error = fmax(error, fabs(have[i] - want[i]));
    }
    if (!(error <= 1e-5 * most))
        fail_msg("%s: an error of %g, the largest is %g", what, error, most);
}

static void check_steps(AttContext *ctx, const AttOptimizer *optimizer, Formula64 *formula,
                        const Shape *shape, const double *settings, float lr) {
    enum { STEPS = 4 };
    Data data = data_new(optimizer, shape);
    double *W = widen(data.count, data.tensor), *g = malloc((size_t)data.count * sizeof *g);
    double *states[STATES_MAX] = {0}, used[SETTINGS_MAX];
    float told[SETTINGS_MAX];
    for (int64_t i = 0; i < optimizer->n_settings; i++) {
        told[i] = (float)(settings ? settings[i] : optimizer->settings[i].value);
        used[i] = told[i];
    }
    for (int64_t k = 0; k < optimizer->n_states; k++)
        states[k] = widen(data.state_count[k], data.states[k]);
    for (int step = 1; step <= STEPS; step++) {
        fill(data.gradient, data.count, 10 + (uint64_t)step);
        for (int64_t i = 0; i < data.count; i++)
            g[i] = 0.25 * data.gradient[i];
        formula(shape->r, shape->c, W, g, states, step, lr, used);
        AttUpdate update = {(float)step, lr, 0.25f, settings ? told : NULL};
        assert_int_equal(att_optimizer_update(ctx, optimizer, shape->rank, shape->shape,
                                              data.tensor, data.gradient, data.states, &update),
                         ATT_OK);
        check_close(optimizer->name, data.count, data.tensor, W);
        for (int64_t k = 0; k < optimizer->n_states; k++)
            check_close(att_optimizer_state_name(optimizer, k), data.state_count[k], data.states[k],
                        states[k]);
    }
    for (int64_t k = 0; k < optimizer->n_states; k++)
        free(states[k]);
    free(W);
    free(g);
    data_free(&data);
}

// Different bits in f32 and double: 1 - 0.999.
static void check_prelude(AttContext *ctx, const char *name, Formula64 *formula,
                          const double *settings, float lr) {
    Made made;
    assert_true(try_make("", name, &made));
    for (int i = 0; i < N_SHAPES; i++) {
        check_steps(ctx, &made.optimizer, formula, &shapes[i], NULL, lr);
        check_steps(ctx, &made.optimizer, formula, &shapes[i], settings, lr);
    }
    unmake(&made);
}

static void sgd_is_its_formula(void **state) {
    check_prelude(*state, "sgd", sgd, (double[]){0.9, 0.1}, 0.1f);
}
static void adam_is_its_formula(void **state) {
    check_prelude(*state, "adam", adam, (double[]){0.8, 0.95, 1e-3, 0.1}, 0.01f);
}
static void adamw_is_its_formula(void **state) {
    check_prelude(*state, "adamw", adamw, (double[]){0.8, 0.95, 1e-3, 0.1}, 0.01f);
}
static void adafactor_is_its_formula(void **state) {
    check_prelude(*state, "adafactor", adafactor, (double[]){-0.5, 1e-3, 0.1, 2, 0.1}, 0.01f);
}

// ---- shapes of states ---------------------------------------------------------------------------
static void states_have_the_dims_of_their_cut(void **state) {
    Made made;
    int64_t shape[] = {256, 32, 8}, own[ATT_RANK_MAX];
    (void)state;
    assert_true(try_make("", "adafactor", &made));
    assert_int_equal(made.optimizer.n_states, 2);
    assert_int_equal(att_optimizer_state(&made.optimizer, 0, 3, shape, own), 1);
    assert_int_equal(own[0], 256);
    assert_int_equal(att_optimizer_state(&made.optimizer, 1, 3, shape, own), 2);
    assert_int_equal(own[0], 32);
    assert_int_equal(own[1], 8);
    assert_int_equal(att_optimizer_state(&made.optimizer, 0, 1, shape, own), 0);
    assert_int_equal(att_optimizer_state(&made.optimizer, 1, 1, shape, own), 1);
    assert_string_equal(att_optimizer_state_name(&made.optimizer, 0), "row");
    assert_string_equal(att_optimizer_state_name(&made.optimizer, 1), "column");
    unmake(&made);
}

// ---- threads ------------------------------------------------------------------------------------
static void run_with_threads(int threads, const AttOptimizer *optimizer, const Shape *shape,
                             Data *data) {
    AttContext *ctx = att_context_new(threads);
    *data = data_new(optimizer, shape);
    for (int step = 1; step <= 2; step++) {
        fill(data->gradient, data->count, 10 + (uint64_t)step);
        AttUpdate update = {(float)step, 0.01f, 1, NULL};
        assert_int_equal(att_optimizer_update(ctx, optimizer, shape->rank, shape->shape,
                                              data->tensor, data->gradient, data->states, &update),
                         ATT_OK);
    }
    att_context_free(ctx);
}

static void bits_are_the_same_for_any_threads(void **state) {
    static const char *const names[] = {"adamw", "adafactor"};
    const Shape large = {2, {301, 211}, 301, 211};
    (void)state;
    for (int n = 0; n < 2; n++) {
        Made made;
        Data one, three;
        assert_true(try_make("", names[n], &made));
        run_with_threads(1, &made.optimizer, &large, &one);
        run_with_threads(3, &made.optimizer, &large, &three);
        assert_memory_equal(one.tensor, three.tensor, (size_t)one.count * sizeof(float));
        for (int k = 0; k < STATES_MAX; k++)
            assert_memory_equal(one.states[k], three.states[k],
                                (size_t)one.state_count[k] * sizeof(float));
        data_free(&one);
        data_free(&three);
        unmake(&made);
    }
}

// ---- others -------------------------------------------------------------------------------------
// Dims of the file mean nothing to an optimizer's, and a local of it no tensor of the file.
static const char own[] =
    "dim i = 3, r = 2, c = r * 2\n"
    "param rate[i] = 1\n"
    "def F(X[i]):\n    return X * rate\n"
    "optimizer kept(W[r, c], dW[r, c], before[r, c], sums[c], limit[] = -2):\n"
    "    sums_1 = sums + sum(W, reduced_dim=r)\n"
    "    return max(W - dW, limit), W, sums_1\n";

// States may be what was there before; what reads the old tensor runs first.
static void own_optimizers_are_updated_in_place(void **state) {
    Made made;
    float tensor[] = {1, 2, 3, 4, 5, 6}, gradient[] = {1, 1, 1, 8, 1, 1}, before[6] = {0};
    float sums[3] = {100, 100, 100}, *states[] = {before, sums};
    int64_t shape[] = {2, 3};
    AttUpdate update = {1, 0.5f, 1, NULL};
    assert_true(try_make(own, "kept", &made));
    assert_int_equal(
        att_optimizer_update(*state, &made.optimizer, 2, shape, tensor, gradient, states, &update),
        ATT_OK);
    assert_memory_equal(tensor, ((float[]){0, 1, 2, -2, 4, 5}), sizeof tensor);
    assert_memory_equal(before, ((float[]){1, 2, 3, 4, 5, 6}), sizeof before);
    assert_memory_equal(sums, ((float[]){105, 107, 109}), sizeof sums);
    unmake(&made);
    assert_true(try_make(own, "adamw", &made));
    unmake(&made);
}

// One update of a 5 x 7 tensor of 0, 1, 2, .. 34 with a gradient of ones; states begin at 0.
enum { ROWS = 5, COLUMNS = 7, ELEMENTS = ROWS * COLUMNS };
typedef struct {
    float tensor[ELEMENTS], states[STATES_MAX][ELEMENTS];
} Updated;

static Updated update_once(AttContext *ctx, const char *text) {
    Made made;
    Updated out = {0};
    float gradient[ELEMENTS], *states[] = {out.states[0], out.states[1]};
    int64_t shape[] = {ROWS, COLUMNS};
    AttUpdate update = {1, 0.5f, 1, NULL};
    for (int i = 0; i < ELEMENTS; i++) {
        out.tensor[i] = (float)i;
        gradient[i] = 1;
    }
    if (!try_make(text, "own", &made))
        diags_print(made.session->diags, stderr, DIAGS_TEXT, false);
    assert_non_null(made.loaded);
    assert_int_equal(
        att_optimizer_update(ctx, &made.optimizer, 2, shape, out.tensor, gradient, states, &update),
        ATT_OK);
    unmake(&made);
    return out;
}

// Sums over rows, products of matrices.
static void kernels_of_every_kind_are_in_place(void **state) {
    Updated out = update_once(*state, "optimizer own(W[r, c], dW[r, c]):\n"
                                      "    return W - mean(W, reduced_dim=c) * dW\n");
    for (int i = 0; i < ELEMENTS; i++)
        assert_true(fabsf(out.tensor[i] - (float)(i % COLUMNS) + 3) < 1e-4f);
    out = update_once(*state, "optimizer own(W[r, c], dW[r, c], m[r, c], learning_rate[]):\n"
                              "    m_1 = m + dW\n"
                              "    A = einsum(m_1[r, c], m_1[r', c] -> [r, r'])\n"
                              "    U = einsum(A[r, r'], m_1[r', c] -> [r, c])\n"
                              "    return W - learning_rate * U, m_1\n");
    for (int i = 0; i < ELEMENTS; i++)
        assert_true(out.tensor[i] == (float)i - 0.5f * ROWS * COLUMNS && out.states[0][i] == 1);
}

static void refuse(const char *text, const char *message) {
    Made made;
    char *told = NULL;
    size_t length = 0;
    assert_false(try_make(text, "own", &made));
    FILE *stream = open_memstream(&told, &length);
    diags_print(made.session->diags, stream, DIAGS_TEXT, false);
    fclose(stream);
    if (!strstr(told, message))
        fail_msg("'%s' is not in:\n%s", message, told);
    free(told);
    session_free(made.session);
}

static void what_cannot_be_in_place_is_refused(void **state) {
    (void)state;
    // Without the power dW (dW' W) takes less, and reads W before it is written.
    refuse("optimizer own(W[r, c], dW[r, c]):\n"
           "    A = exp(einsum(dW[r, c], dW[r', c] -> [r, r']))\n"
           "    return W - einsum(A[r, r'], W[r', c] -> [r, c])\n",
           "'W' cannot take its new values in place");
    refuse("optimizer own(W[i], dW[i]):\n    return W - shift(W, i, 1) * dW\n",
           "'W' cannot take its new values in place");
    refuse("optimizer own(W[r, c], dW[r, c], m[r, c]):\n"
           "    m_1 = m + dW\n    s = sum(sum(m_1, reduced_dim=c), reduced_dim=r)\n"
           "    return W - s * m, m_1\n",
           "'m' cannot take its new values in place");
    refuse("optimizer own(W[r, c], dW[r, c], m[r, c], v[r, c]):\n"
           "    return v - dW, W, m + 2\n",
           "the old ones are needed after these are there");
    refuse("dim c like r\noptimizer own(W[r, c], dW[r, c]):\n    return W - dW\n",
           "the rows and columns of tensors are not alike, as 'r' and 'c' are");
}

static void squares_are_summed_in_double(void **state) {
    enum { COUNT = 100003 };
    Session *session = session_new();
    Program *program = parse(session, "dim i = 5\ndef sum_of_squares(x[i]):\n    return x\n");
    PipelineOptions options = options_for_host();
    Compilation compiled;
    LoadedProduct *loaded;
    assert_true(pipeline_build_squares(session, program, &options, &compiled));
    assert_true(lower(session, &options, &compiled, &loaded));
    float *x = malloc(COUNT * sizeof *x);
    double have = 0, want = 0;
    fill(x, COUNT, 3);
    x[77] = 1e30f; // whose square is no f32
    for (int i = 0; i < COUNT; i++)
        want += (double)x[i] * x[i];
    assert_int_equal(att_squares(*state, product_module(loaded), COUNT, x, &have), ATT_OK);
    assert_true(fabs(have - want) <= 1e-12 * want);
    assert_int_equal(att_squares(*state, product_module(loaded), 0, x, &have), ATT_OK);
    assert_true(have == 0);
    free(x);
    product_unload(loaded);
    session_free(session);
}

static int make_context(void **state) {
    *state = att_context_new(2);
    return *state ? 0 : -1;
}

static int free_context(void **state) {
    att_context_free(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_is_its_formula),
        cmocka_unit_test(adam_is_its_formula),
        cmocka_unit_test(adamw_is_its_formula),
        cmocka_unit_test(adafactor_is_its_formula),
        cmocka_unit_test(states_have_the_dims_of_their_cut),
        cmocka_unit_test(bits_are_the_same_for_any_threads),
        cmocka_unit_test(own_optimizers_are_updated_in_place),
        cmocka_unit_test(kernels_of_every_kind_are_in_place),
        cmocka_unit_test(what_cannot_be_in_place_is_refused),
        cmocka_unit_test(squares_are_summed_in_double),
    };
    return cmocka_run_group_tests(tests, make_context, free_context);
}
