/* ONNX files: results are onnxruntime's, trained weights PyTorch's; what is missing is told all at once, damage is an error. */
#define PROGRAMS "onnx"
#include "suite/programs.h"
#include "io/summary_file.h"

#include <string.h>
#include <unistd.h>

static void results_are_onnxruntimes(void **state)
{
    static const char *const names[] = {"mlp", "cnn_old", "lstm", "lstm_old"};
    for (size_t k = 0; k < RUSH_COUNT(names); ++k) {
        rush_scope() gives_its_results(names[k], ".onnx");
    }
}

static void training_is_pytorchs(void **state)
{
    rush_scope() assert_int_equal(learns_its_weights("mlp", ".onnx"), 4);
    rush_scope() assert_int_equal(learns_its_weights("lstm", ".onnx"), 2); /* of a cell's weights the file has others, with the gates in ONNX's order */
}

/* ---- models made here ---- */

typedef struct model {
    rush_bytes graph;
    int64_t opset;
} model;

static void add_node(model *m, const char *type, const char *in, const char *out, rush_bytes *attribute)
{
    rush_bytes node = {0};
    char text[200], *at = text, *one;
    snprintf(text, sizeof text, "%s", in);
    while ((one = strsep(&at, " "))) rush_pb_text(&node, 1, one);
    snprintf(text, sizeof text, "%s", out);
    for (at = text; (one = strsep(&at, " "));) rush_pb_text(&node, 2, one);
    snprintf(text, sizeof text, "the_%s", out);
    rush_pb_text(&node, 3, text);
    rush_pb_text(&node, 4, type);
    if (attribute) rush_pb_message(&node, 5, attribute);
    rush_pb_message(&m->graph, 1, &node);
}

/* A float32 input or a result with these sizes; -1: one that may vary. */
static void add_value(model *m, int field, const char *name, int ndim, const int64_t *size)
{
    rush_bytes value = {0}, type = {0}, tensor = {0}, shape = {0};
    for (int d = 0; d < ndim; ++d) {
        rush_bytes dim = {0};
        if (size[d] < 0) rush_pb_text(&dim, 2, "any");
        else rush_pb_int(&dim, 1, size[d]);
        rush_pb_message(&shape, 1, &dim);
    }
    rush_pb_int(&tensor, 1, 1);
    rush_pb_message(&tensor, 2, &shape);
    rush_pb_message(&type, 1, &tensor);
    rush_pb_text(&value, 1, name);
    rush_pb_message(&value, 2, &type);
    rush_pb_message(&m->graph, field, &value);
}

static void add_ints(model *m, const char *name, int64_t n, const int64_t *x)
{
    rush_bytes tensor = {0};
    rush_pb_int(&tensor, 1, n);
    rush_pb_int(&tensor, 2, 7);
    rush_pb_text(&tensor, 8, name);
    rush_pb_data(&tensor, 9, x, (size_t)n * 8);
    rush_pb_message(&m->graph, 5, &tensor);
}

static rush_bytes attribute(const char *name, int field, int64_t i, const char *s)
{
    rush_bytes a = {0};
    rush_pb_text(&a, 1, name);
    if (s) rush_pb_text(&a, field, s);
    else rush_pb_int(&a, field, i);
    return a;
}

/* Written, loaded, and the file gone. */
static rush_module *load(model *m)
{
    static char path[64];
    rush_bytes whole = {0}, opset = {0};
    rush_pb_int(&whole, 1, 8);
    rush_pb_message(&whole, 7, &m->graph);
    rush_pb_int(&opset, 2, m->opset ? m->opset : 17);
    rush_pb_message(&whole, 8, &opset);
    snprintf(path, sizeof path, "/tmp/rush_onnx_XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, whole.p, whole.n) == (ssize_t)whole.n);
    close(fd);
    rush_bytes_end(&whole);
    rush_module *net = rush_program_load(path);
    unlink(path);
    return net;
}

static void what_is_missing_is_told_at_once(void **state)
{
    rush_scope() {
        model m = {{0}};
        rush_bytes odd = attribute("oddity", 3, 1, NULL);
        add_value(&m, 11, "x", 1, (int64_t[]){3});
        add_node(&m, "Frobnicate", "x", "y", NULL);
        add_node(&m, "Softmax", "y", "z", &odd);
        add_node(&m, "Relu", "z x", "w", NULL);
        add_value(&m, 12, "w", 1, (int64_t[]){3});
        assert_null(load(&m));
        const char *told = rush_error() ? rush_error() : "";
        assert_non_null(strstr(told, "3 operations that the library does not have"));
        assert_non_null(strstr(told, "Frobnicate, called by the node 'the_y'"));
        assert_non_null(strstr(told, "Softmax with attribute oddity, called by the node 'the_z'"));
        assert_non_null(strstr(told, "Relu with so many inputs, called by the node 'the_w'"));
        rush_error_clear();
    }
}

/* y = f(x, ints) of one node. */
static rush_tensor *computed(const char *type, int64_t opset, rush_tensor *x, int64_t n, const int64_t *ints, rush_bytes *attribute)
{
    model m = {.opset = opset};
    rush_tensor *out[8];
    if (!x) return NULL;
    add_value(&m, 11, "x", x->ndim, x->size);
    if (ints) add_ints(&m, "k", n, ints);
    add_node(&m, type, ints ? "x k" : "x", "y", attribute);
    add_value(&m, 12, "y", 0, NULL);
    rush_module *net = load(&m);
    return net && rush_forward_all(net, 1, &x, out) == 1 ? out[0] : NULL;
}

/* The piece at a position of a sequence; `each`: how many sizes of pieces there are, 0 for one size of all, -1 for none. */
static rush_tensor *piece_of(rush_tensor *x, int64_t each, const int64_t *sizes, int64_t position, rush_bytes *with)
{
    model m = {{0}};
    rush_tensor *out[8];
    add_value(&m, 11, "x", x->ndim, x->size);
    add_ints(&m, "at", 1, &position);
    if (each > 0) add_ints(&m, "k", each, sizes);
    if (!each) {
        rush_bytes tensor = {0};
        rush_pb_int(&tensor, 2, 7);
        rush_pb_text(&tensor, 8, "k");
        rush_pb_data(&tensor, 9, sizes, 8);
        rush_pb_message(&m.graph, 5, &tensor);
    }
    add_node(&m, "SplitToSequence", each < 0 ? "x" : "x k", "pieces", with);
    add_node(&m, "SequenceAt", "pieces at", "y", NULL);
    add_value(&m, 12, "y", 0, NULL);
    rush_module *net = load(&m);
    return net && rush_forward_all(net, 1, &x, out) == 1 ? out[0] : NULL;
}

static void sequences_are_pieces(void **state)
{
    rush_scope() {
        rush_tensor *x = rush_reshape(rush_arange(RUSH_V(30.0)), RUSH_INTS(3, 10));
        assert_non_null(x);
        rush_bytes last = attribute("axis", 3, -1, NULL);
        assert_true(differs(piece_of(x, 3, (int64_t[]){2, 5, 3}, 1, &last), rush_narrow(x, 1, 2, 5)) == 0);
        last = attribute("axis", 3, -1, NULL);
        assert_true(differs(piece_of(x, 0, (int64_t[]){4}, -1, &last), rush_narrow(x, 1, 8, 2)) == 0);
        assert_true(differs(piece_of(x, -1, NULL, 2, NULL), rush_narrow(x, 0, 2, 1)) == 0);
        rush_bytes squeezed = attribute("keepdims", 3, 0, NULL);
        assert_true(differs(piece_of(x, -1, NULL, 0, &squeezed), rush_select(x, 0, 0)) == 0);
        assert_null(piece_of(x, 2, (int64_t[]){1, 2}, 2, NULL));
        assert_non_null(strstr(rush_error(), "position 2 of a sequence of 2 tensors"));
        rush_error_clear();
        model m = {{0}};
        add_value(&m, 11, "x", 1, (int64_t[]){3});
        add_node(&m, "SplitToSequence", "x", "pieces", NULL);
        add_node(&m, "Relu", "pieces", "y", NULL);
        add_value(&m, 12, "y", 1, (int64_t[]){3});
        assert_null(load(&m));
        assert_non_null(strstr(rush_error(), "Relu of a sequence pieces"));
        rush_error_clear();
    }
}

static void sizes_are_tensors(void **state)
{
    rush_scope() {
        rush_tensor *x = rush_reshape(rush_arange(RUSH_V(24.0)), RUSH_INTS(2, 3, 4));
        assert_true(differs(computed("Reshape", 17, x, 2, (int64_t[]){0, -1}, NULL), rush_reshape(x, RUSH_INTS(2, 12))) == 0);
        assert_true(differs(computed("Expand", 17, x, 4, (int64_t[]){2, 1, 1, 4}, NULL), rush_expand(x, RUSH_INTS(2, 2, 3, 4))) == 0);
        assert_true(differs(computed("Unsqueeze", 17, x, 2, (int64_t[]){0, -1}, NULL), rush_reshape(x, RUSH_INTS(1, 2, 3, 4, 1))) == 0);
        assert_true(differs(computed("Tile", 17, x, 3, (int64_t[]){1, 2, 1}, NULL), rush_repeat(x, RUSH_INTS(1, 2, 1))) == 0);
        assert_true(differs(computed("ReduceSum", 17, x, 1, (int64_t[]){-1}, NULL), T("sum.dim_IntList", V(x), INTS(2), V(true))) == 0);
        rush_bytes old = attribute("axes", 8, 1, NULL); /* until 12 an attribute */
        assert_true(differs(computed("ReduceSum", 11, x, 0, NULL, &old), T("sum.dim_IntList", V(x), INTS(1), V(true))) == 0);
        assert_true(differs(computed("Softmax", 11, x, 0, NULL, NULL), rush_reshape(T("softmax.int", V(rush_reshape(x, RUSH_INTS(2, 12))), V(1)), RUSH_INTS(2, 3, 4))) < 1e-7);
        assert_true(differs(computed("Softmax", 13, x, 0, NULL, NULL), T("softmax.int", V(x), V(2))) < 1e-7);
        assert_null(computed("Reshape", 17, x, 2, (int64_t[]){5, -1}, NULL));
        assert_non_null(strstr(rush_error(), "called by the_y"));
        rush_error_clear();
    }
}

static void slices_go_both_ways(void **state)
{
    static const struct { int64_t from, to, step, n, first; } rows[] = {
        {1, 4, 1, 3, 1}, {-3, INT64_MAX, 1, 3, 4}, {0, -1, 2, 3, 0}, {-1, INT64_MIN, -1, 7, 6}, {5, 1, -2, 2, 5}, {100, -100, -3, 3, 6}, {3, 1, 1, 0, 0}};
    for (size_t k = 0; k < RUSH_COUNT(rows); ++k) {
        rush_scope() {
            model m = {{0}};
            rush_tensor *out[8], *x = rush_arange(RUSH_V(7.0));
            add_value(&m, 11, "x", 1, (int64_t[]){-1});
            add_ints(&m, "from", 1, &rows[k].from);
            add_ints(&m, "to", 1, &rows[k].to);
            add_ints(&m, "step", 1, &rows[k].step);
            add_node(&m, "Slice", "x from to  step", "y", NULL); /* no axes */
            add_value(&m, 12, "y", 0, NULL);
            rush_module *net = load(&m);
            assert_int_equal(net ? rush_forward_all(net, 1, &x, out) : -1, 1);
            assert_int_equal(rush_numel(out[0]), rows[k].n);
            if (rows[k].n) assert_true(rush_item(T("select.int", V(out[0]), V(0), V(0))) == (double)rows[k].first);
        }
    }
}

static void damage_is_an_error(void **state)
{
    char whole[16384], path[] = "/tmp/rush_onnx_XXXXXX";
    FILE *f = fopen(file("mlp", ".onnx"), "rb");
    assert_non_null(f);
    size_t n = fread(whole, 1, sizeof whole, f);
    fclose(f);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (size_t at = 0; at < n; at += at < 1500 ? 61 : 397) { /* cut off, then with a byte changed */
        rush_scope() {
            assert_true(!ftruncate(fd, 0) && pwrite(fd, whole, at, 0) == (ssize_t)at);
            rush_program_load(path);
            assert_non_null(rush_error());
            rush_error_clear();
            char was = whole[at];
            whole[at] = (char)(was ^ 0x55);
            assert_true(pwrite(fd, whole, n, 0) == (ssize_t)n);
            whole[at] = was;
            rush_program_load(path);
            rush_error_clear();
        }
    }
    close(fd);
    unlink(path);
}

static void weights_beside_stay_in_the_folder(void **state)
{
    static const char *const names[] = {"../secret", "/etc/passwd", "a/../../b", "..", "missing"};
    static const char *const why[] = {"not in its folder", "not in its folder", "not in its folder", "not in its folder", "can't open"};
    for (size_t k = 0; k < RUSH_COUNT(names); ++k) {
        rush_scope() {
            model m = {{0}};
            rush_bytes tensor = {0}, entry = {0};
            rush_pb_text(&entry, 1, "location");
            rush_pb_text(&entry, 2, names[k]);
            rush_pb_int(&tensor, 1, 4);
            rush_pb_int(&tensor, 2, 1);
            rush_pb_text(&tensor, 8, "w");
            rush_pb_message(&tensor, 13, &entry);
            rush_pb_int(&tensor, 14, 1);
            rush_pb_message(&m.graph, 5, &tensor);
            add_value(&m, 12, "w", 0, NULL);
            assert_null(load(&m));
            assert_non_null(strstr(rush_error(), why[k]));
            rush_error_clear();
        }
    }
}

/* ---- written, and read again ---- */

static rush_module *program(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/programs/%s.pt2", RUSH_TEST_DATA, name);
    return rush_program_load(path);
}

static void what_is_written_is_read(void **state)
{
    static const char *const names[] = {"mlp", "masked", "control", "dynamic"};
    for (size_t k = 0; k < RUSH_COUNT(names); ++k) {
        rush_scope() {
            char path[512], inputs[512];
            rush_tensor *want[8], *got[8];
            snprintf(path, sizeof path, "/tmp/rush_onnx_%d.onnx", (int)getpid());
            snprintf(inputs, sizeof inputs, "%s/programs/%s_in.npz", RUSH_TEST_DATA, names[k]);
            rush_module *net = program(names[k]);
            rush_state in = rush_npz_load(inputs);
            assert_int_equal(net ? rush_program_save_onnx(net, path, .opset = k % 2 ? 20 : 18) : -1, 0);
            rush_module *again = rush_program_load(path);
            unlink(path);
            assert_non_null(again);
            int n = rush_forward_all(net, in.n, in.tensor, want);
            assert_true(n > 0 && rush_forward_all(again, in.n, in.tensor, got) == n);
            for (int i = 0; i < n; ++i) assert_true(differs(got[i], want[i]) < 1e-5);
            rush_state a = rush_module_state(net), b = rush_module_state(again);
            for (int i = 0; i < a.n; ++i) assert_true(differs(rush_state_find(b, a.name[i]), a.tensor[i]) == 0); /* under the same names */
        }
    }
}

static void what_cannot_be_written_is_told(void **state)
{
    rush_scope() {
        rush_module *net = program("cnn"); /* captured as it trains */
        assert_non_null(net);
        assert_int_equal(rush_program_save_onnx(net, "/nowhere/net.onnx", .opset = 0), -1);
        assert_non_null(strstr(rush_error(), "cannot be written as ONNX (operator set 18):\n  batch_norm"));
        rush_error_clear();
        assert_int_equal(rush_program_save_onnx(net, "/nowhere/net.onnx", .opset = 7), -1);
        assert_non_null(strstr(rush_error(), "18 to 23"));
        rush_error_clear();
        assert_int_equal(rush_program_save_onnx(program("mlp"), "/nowhere/net.onnx", .opset = 0), -1);
        rush_error_clear();
        assert_int_equal(rush_program_save_onnx(rush_nn_relu(), "/nowhere/net.onnx", .opset = 0), -1);
        rush_error_clear();
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_onnxruntimes), cmocka_unit_test(training_is_pytorchs), cmocka_unit_test(what_is_missing_is_told_at_once), cmocka_unit_test(sizes_are_tensors),
        cmocka_unit_test(sequences_are_pieces), cmocka_unit_test(slices_go_both_ways), cmocka_unit_test(damage_is_an_error), cmocka_unit_test(weights_beside_stay_in_the_folder),
        cmocka_unit_test(what_is_written_is_read), cmocka_unit_test(what_cannot_be_written_is_told),
    };
    return SUITE(tests);
}
