/* Programs that PyTorch exported: results and trained weights are PyTorch's; what does not fit, and damage, is an error. */
#define PROGRAMS "programs"
#include "suite/programs.h"
#include "graph/graph.h"
#include <math.h>
#include <rushlight/data.h>
#include <rushlight/media.h>

#include <string.h>
#include <unistd.h>

static const char *const names[] = {"mlp", "cnn", "masked", "control", "dynamic"};

static void results_are_pytorchs(void **state)
{
    for (size_t k = 0; k < sizeof names / sizeof *names; ++k) {
        rush_scope() gives_its_results(names[k], ".pt2");
    }
}

static void training_is_pytorchs(void **state)
{
    for (size_t k = 0; k < sizeof names / sizeof *names; ++k) {
        rush_scope() {
            int n = rush_npz_load(file(names[k], "_state.npz")).n;
            assert_int_equal(learns_its_weights(names[k], ".pt2"), n);
        }
    }
}

static void sizes_may_vary_as_captured(void **state)
{
    rush_scope() {
        rush_tensor *out[8];
        rush_module *net = rush_program_load(file("dynamic", ".pt2"));
        for (int64_t t = 2; t < 6; ++t) {
            rush_tensor *x = rush_ones(RUSH_INTS(7 - t, t, 12));
            assert_int_equal(rush_forward_all(net, 1, &x, out), 2);
            assert_int_equal(rush_size(out[0], 1), t);
            assert_true(rush_item(out[1]) == (double)((7 - t) * t * 12) * (double)(t * (t - 1) / 2)); /* x.sum() times the pairs that are masked */
        }
    }
}

static void refused(rush_module *net, rush_tensor *x, const char *why)
{
    rush_tensor *out[8];
    assert_int_equal(rush_forward_all(net, 1, &x, out), -1);
    if (!strstr(rush_error(), why)) print_error("%s, where '%s' is expected\n", rush_error(), why);
    assert_non_null(strstr(rush_error(), why));
    rush_error_clear();
}

static void what_does_not_fit_is_an_error(void **state)
{
    rush_scope() {
        rush_tensor *out[8], *two[2];
        rush_module *net = rush_program_load(file("mlp", ".pt2"));
        assert_non_null(net);
        two[0] = two[1] = rush_ones(RUSH_INTS(3, 8));
        refused(net, rush_ones(RUSH_INTS(3, 9)), "float32 of shape [s");
        refused(net, rush_ones(RUSH_INTS(3)), "of shape [3]");
        refused(net, T("to.dtype", V(two[0]), rush_v_dtype(RUSH_F64)), "float64");
        refused(net, rush_ones(RUSH_INTS(65, 8)), "from 2 to 64");
        refused(net, NULL, "missing");
        assert_int_equal(rush_forward_all(net, 2, two, out), -1);
        assert_non_null(strstr(rush_error(), "takes 1 tensor"));
        rush_error_clear();
        assert_int_equal(rush_program_run(net, 1, two, 0, NULL), -1);
        rush_error_clear();
        assert_int_equal(rush_program_inputs(rush_nn_relu()), -1);
        rush_error_clear();
        assert_null(rush_program_load(file("none", ".pt2")));
        rush_error_clear();
        assert_null(rush_program_load(file("mlp", "_in.npz")));
        assert_non_null(strstr(rush_error(), "models/NAME.json"));
        rush_error_clear();
    }
}

static void the_graph_reads_like_code(void **state)
{
    rush_scope() {
        const char *text = rush_program_text(rush_program_load(file("mlp", ".pt2")));
        assert_non_null(text);
        assert_non_null(strstr(text, "relu: float32[s"));
        assert_non_null(strstr(text, " = aten.relu.default(linear)\n"));
        text = rush_program_text(rush_program_load(file("control", ".pt2")));
        assert_non_null(text && strstr(text, "  then\n") ? strstr(text, "  else\n") : NULL);
    }
}

static double arithmetic(const char *name, rush_value a, rush_value b)
{
    rush_value in[2] = {a, b}, out = RUSH_NONE;
    rush_graph_arithmetic run = rush_graph_arithmetic_of(name);
    if (!run || run(2, in, &out)) return -999;
    return rush_to_double(out);
}

static void sizes_are_pythons_numbers(void **state)
{
    rush_value three = rush_v_int(-3), two = rush_v_int(2), none = rush_v_int(0), most = rush_v_int(INT64_MAX);
    assert_true(arithmetic("_operator.floordiv", three, two) == -2 && arithmetic("_operator.mod", three, two) == 1);
    assert_true(arithmetic("_operator.truediv", three, two) == -1.5 && arithmetic("_operator.pow", three, two) == 9);
    assert_true(arithmetic("_operator.lt", three, two) == 1 && arithmetic("torch.sym_max", three, two) == 2);
    assert_true(arithmetic("math.trunc", rush_v_float(-1.5), none) == -1 && arithmetic("math.floor", rush_v_float(-1.5), none) == -2);
    static const char *const overflow[] = {"_operator.add", "_operator.mul", "_operator.lshift"};
    for (int i = 0; i < 3; ++i) {
        assert_true(arithmetic(overflow[i], most, i == 2 ? rush_v_int(60) : most) == -999);
        rush_error_clear();
    }
    static const char *const divide[] = {"_operator.floordiv", "_operator.mod", "_operator.truediv"};
    for (int i = 0; i < 3; ++i) {
        assert_true(arithmetic(divide[i], two, none) == -999);
        rush_error_clear();
    }
    assert_null(rush_graph_arithmetic_of("os.system"));
}

static void free_graph(void *g) { rush_graph_free(g); }

/* A graph of one node y = f(x): right, with y used before it is made, with x made twice. */
static rush_graph *small(int how)
{
    rush_graph *g = rush_graph_new(NULL);
    if (!g) return NULL;
    suite_after(free_graph, g);
    g->value = rush_graph_alloc(g, 2 * sizeof *g->value);
    g->node = rush_graph_alloc(g, sizeof *g->node);
    g->in = rush_graph_alloc(g, sizeof *g->in);
    if (!g->value || !g->node || !g->in) return NULL;
    g->node->in = rush_graph_alloc(g, sizeof *g->node->in);
    g->node->out = rush_graph_alloc(g, sizeof *g->node->out);
    if (!g->node->in || !g->node->out) return NULL;
    g->nvalues = 2, g->nnodes = 1, g->nin = 1;
    g->value[0].name = "x", g->value[1].name = "y";
    g->node->nin = g->node->nout = 1;
    *g->node->in = (rush_operand){.kind = RUSH_OPERAND_VALUE, .value = how == 1};
    *g->node->out = how != 2;
    return g;
}

static void graphs_are_checked(void **state)
{
    static const char *const wrong[] = {NULL, "'y' before it is made", "'x' twice"};
    for (int how = 0; how < 3; ++how) {
        rush_graph *g = small(how);
        assert_non_null(g);
        assert_int_equal(rush_graph_finish(g), how ? -1 : 0);
        assert_true(!how || strstr(rush_error(), wrong[how]));
        rush_error_clear();
    }
}

/* ---- passes, on graphs as text ---- */

static void count_in(const char *text, const char *what, int want)
{
    int n = 0;
    for (const char *at = text; text && (at = strstr(at, what)); ++at) ++n;
    if (n != want) print_error("%d times '%s' in\n%s\n", n, what, text ? text : "(null)");
    assert_int_equal(n, want);
}

static void a_frozen_program_has_fewer_nodes(void **state)
{
    rush_scope() {
        rush_module *net = rush_program_load(file("folded", ".pt2"));
        rush_state in = rush_npz_load(file("folded", "_in.npz")), want = rush_npz_load(file("folded", "_out.npz"));
        rush_grad_enabled_set(false);
        for (int frozen = 0; frozen < 2; ++frozen) {
            rush_tensor *out[8];
            if (frozen) assert_int_equal(rush_program_freeze(net), 0);
            int n = rush_forward_all(net, in.n, in.tensor, out);
            assert_int_equal(n, want.n);
            for (int i = 0; i < n; ++i) assert_true(differs(out[i], want.tensor[i]) < 1e-5);
            const char *text = rush_program_text(net);
            count_in(text, "aten.sin.default", 1);       /* of the two that are one, one is left */
            count_in(text, "aten.cos.default", 0);       /* nobody asks for it */
            count_in(text, "aten.batch_norm.default", !frozen);
            count_in(text, "aten.exp.default", !frozen); /* of a parameter */
            count_in(text, "aten.conv2d.default", 1);
        }
        rush_grad_enabled_set(true);
    }
}

/* Pictures are brought to lie with their channels last once, and back before what might notice; results lie as they did. */
static void pictures_between_convolutions_have_their_channels_last(void **state)
{
    rush_scope() {
        rush_module *plain = rush_program_load(file("pictures", ".pt2")), *frozen = rush_program_load(file("pictures", ".pt2"));
        rush_state in = rush_npz_load(file("pictures", "_in.npz")), want = rush_npz_load(file("pictures", "_out.npz"));
        rush_tensor *as_captured[8], *got[8];
        rush_grad_enabled_set(false);
        rush_module_eval(plain), rush_module_eval(frozen);
        assert_int_equal(rush_program_freeze(frozen), 0);
        for (int k = 0; k < 2; ++k) { /* at first weights are packed, then they are kept */
            assert_int_equal(rush_forward_all(plain, in.n, in.tensor, as_captured), want.n);
            assert_int_equal(rush_forward_all(frozen, in.n, in.tensor, got), want.n);
            for (int i = 0; i < want.n; ++i) {
                assert_true(differs(got[i], want.tensor[i]) < 1e-5);
                for (int d = 0; d < rush_ndim(got[i]); ++d) assert_int_equal(rush_strides(got[i])[d], rush_strides(as_captured[i])[d]);
            }
        }
        count_in(rush_program_text(plain), "aten.contiguous.default", 0);
        count_in(rush_program_text(frozen), "channels_last: float32", 1); /* the input; what convolutions give is last already */
        count_in(rush_program_text(frozen), "plain: float32", 4);         /* for view, few channels, permute and as a result, which share one, and another result */
        rush_grad_enabled_set(true);
    }
}

/* Values are given up for results where that is not seen: inputs, parameters and results that are read again stay. */
static void runs_do_not_touch_what_is_given(void **state)
{
    rush_scope() {
        rush_tensor *out[8], *again[8];
        rush_module *net = rush_program_load(file("folded", ".pt2"));
        rush_state in = rush_npz_load(file("folded", "_in.npz"));
        assert_true(net && in.n > 0);
        rush_tensor *before = T("clone", V(in.tensor[0]));
        rush_grad_enabled_set(false);
        int n = rush_forward_all(net, in.n, in.tensor, out), m = rush_forward_all(net, in.n, in.tensor, again);
        rush_grad_enabled_set(true);
        assert_true(n > 0 && n == m && differs(before, in.tensor[0]) == 0);
        for (int i = 0; i < n; ++i) assert_true(differs(out[i], again[i]) == 0);
    }
}

/* Loops of torch.while_loop, scan and map, and dropout_, whose first argument has another name than that of dropout: results,
 * and gradients that arrive at the parameters inside. */
static void loops_run_and_have_gradients(void **state)
{
    static const char *const loops[] = {"while", "scan", "map", "dropout"};
    for (size_t k = 0; k < sizeof loops / sizeof *loops; ++k) {
        rush_scope() {
            rush_tensor *out[8];
            rush_module *net = rush_program_load(file(loops[k], ".pt2"));
            rush_state in = rush_npz_load(file(loops[k], "_in.npz")), want = rush_npz_load(file(loops[k], "_out.npz"));
            int n = net ? rush_forward_all(net, in.n, in.tensor, out) : -1;
            assert_true(n > 0 && n == want.n);
            for (int i = 0; i < n; ++i) assert_true(differs(out[i], want.tensor[i]) < 1e-5);
            rush_backward(rush_sum(out[n - 1]));
            rush_tensors all = rush_parameters(net);
            assert_int_equal((int)all.n, 2);
            for (size_t i = 0; i < all.n; ++i) assert_non_null(rush_grad(all.data[i]));
        }
    }
}

/* The same digits through the program and through its archive, which takes files and tells names. */
static void archives_begin_with_files_and_end_with_labels(void **state)
{
    char labels[] = "/tmp/rushlight_labels_XXXXXX", path[64];
    FILE *f = fdopen(mkstemp(labels), "w");
    assert_non_null(f);
    for (int k = 0; k < 10; ++k) fprintf(f, "digit %d\n", k);
    fclose(f);
    snprintf(path, sizeof path, "%s.pt2", labels);
    rush_scope() {
        const rush_archive_options options = {.picture = true, .gray = true, .softmax = true, .top = 3, .labels = labels};
        rush_program_value v;
        rush_module *plain = rush_program_load(file("cnn", ".pt2"));
        assert_int_equal(plain ? rush_program_input_at(plain, 0, &v) : -1, 0);
        rush_tensor *dots = rush_to(rush_mul(rush_rand(RUSH_INTS(1, v.size[2], v.size[3])), 255), rush_v_dtype(RUSH_U8)), *png = rush_png_encode(dots, 6), *in[2], *out[8];
        assert_non_null(png);
        assert_int_equal(rush_program_archive_with(file("cnn", ".pt2"), path, &options), 0);
        rush_module *net = rush_program_load(path);
        assert_non_null(net);
        rush_module_eval(plain), rush_module_eval(net);
        const char *bytes[] = {rush_data(png), rush_data(png)};
        in[0] = rush_texts(2, bytes, (size_t[]){(size_t)rush_numel(png), (size_t)rush_numel(png)});
        in[1] = rush_div(rush_to(rush_unsqueeze(dots, 0), rush_v_dtype(RUSH_F32)), 255);
        assert_true(rush_program_input_at(net, 0, &v) == 0 && v.text && v.ndim == 2 && v.dtype == RUSH_U8);
        assert_true(rush_program_result_at(net, 2, &v) == 0 && v.text && !strcmp(v.name, "labels"));
        assert_int_equal(rush_program_run(net, 1, in, 8, out), 3);
        size_t n = 0;
        char want[16];
        rush_tensor *classes = rush_forward(plain, in[1]);
        snprintf(want, sizeof want, "digit %d", (int)rush_item(rush_argmax(classes, .dim = RUSH_V(1))));
        const char *told = rush_text_at(out[2], 3, &n); /* the first of the second row */
        assert_true(told && n == strlen(want) && !memcmp(told, want, n));
        assert_true(fabs(rush_item(rush_max(rush_softmax(classes, 1))) - rush_item(rush_max(out[0]))) < 1e-5);
        assert_int_equal(rush_program_freeze(net), 0);
        assert_int_equal(rush_program_run(net, 1, in, 8, out), 3);
        assert_null(rush_text_at(out[2], 6, NULL));
        rush_error_clear();
        assert_int_equal(rush_program_archive(file("cnn", ".pt2"), path, .top = 11), -1); /* the one that is there stays */
        rush_error_clear();
        assert_non_null(rush_program_load(path));
    }
    unlink(labels), unlink(path);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_pytorchs), cmocka_unit_test(training_is_pytorchs), cmocka_unit_test(sizes_may_vary_as_captured),
        cmocka_unit_test(what_does_not_fit_is_an_error), cmocka_unit_test(the_graph_reads_like_code), cmocka_unit_test(sizes_are_pythons_numbers),
        cmocka_unit_test(graphs_are_checked), cmocka_unit_test(loops_run_and_have_gradients), cmocka_unit_test(a_frozen_program_has_fewer_nodes),
        cmocka_unit_test(pictures_between_convolutions_have_their_channels_last), cmocka_unit_test(runs_do_not_touch_what_is_given),
        cmocka_unit_test(archives_begin_with_files_and_end_with_labels),
    };
    return SUITE(tests);
}
