/* Archives of torch.jit.save in a C program: results are PyTorch's, they can be trained, and damage is an error. */
#define PROGRAMS "scripts"
#include "suite/programs.h"

#include <string.h>
#include <unistd.h>

static const char *const names[] = {"cnn_traced", "cnn_scripted", "gru_traced", "lstm_scripted", "encoder_traced", "encoder_scripted"};

static void results_are_pytorchs_and_weights_learn(void **state)
{
    for (size_t k = 0; k < sizeof names / sizeof *names; ++k) {
        rush_scope() {
            rush_module *net = rush_program_load(file(names[k], ".pt"));
            const rush_content *io = rush_load(file(names[k], ".io"));
            assert_true(net && io && io->n == 2);
            rush_tensor *x = io->items[0]->items[0]->t, *y = rush_forward(net, x);
            assert_non_null(y);
            assert_true(differs(y, io->items[1]->t) < 1e-5);
            assert_int_equal(rush_program_inputs(net), 1);
            assert_int_equal(rush_program_results(net), 1);
            const char *text = rush_program_text(net);
            assert_true(text && strstr(text, "def forward"));
            rush_optim *opt = rush_sgd(rush_parameters(net), .lr = 0.01);
            rush_tensor *loss = rush_mean(rush_mul(y, y));
            rush_backward(loss);
            rush_optim_step(opt);
            y = rush_forward(net, x);
            assert_true(rush_item(rush_mean(rush_mul(y, y))) < rush_item(loss));
        }
        assert_null(rush_error());
    }
}

static void several_results_come_one_after_the_other(void **state)
{
    rush_scope() {
        rush_tensor *out[32], *x = rush_ones(RUSH_INTS(3, 3));
        rush_module *net = rush_program_load(file("control", ".pt"));
        int n = rush_program_run(net, 1, &x, 32, out);
        assert_true(n > 3);
        assert_int_equal(rush_ndim(out[0]), 3);
        assert_int_equal(rush_program_run(net, 1, &x, 1, out), -1);
        assert_non_null(strstr(rush_error(), "room"));
        rush_error_clear();
    }
}

/* Every attribute of every module is read, set to what it was, and read again; every method is called without arguments. */
static int looked_at(rush_object *o, int depth)
{
    int seen = 0;
    rush_value v, again;
    for (int i = 0; rush_object_attribute_at(o, i); ++i, ++seen) {
        const char *name = rush_object_attribute_at(o, i);
        assert_int_equal(rush_object_get(o, name, &v), 0);
        assert_int_equal(rush_object_set(o, name, v), 0);
        assert_int_equal(rush_object_get(o, name, &again), 0);
        assert_true(v.kind == again.kind && v.n == again.n);
        if (v.kind == RUSH_V_OBJECT && depth < 5) seen += looked_at(v.object, depth + 1);
    }
    for (int i = 0; rush_object_method_at(o, i); ++i, ++seen) {
        if (!rush_object_call(o, rush_object_method_at(o, i), 0, NULL, NULL, &v)) continue;
        assert_non_null(rush_error());
        rush_error_clear();
    }
    return seen;
}

static void attributes_and_methods(void **state)
{
    rush_object *kept = NULL;
    rush_scope() {
        for (size_t k = 0; k < sizeof names / sizeof *names; ++k) assert_true(looked_at(rush_program_object(rush_program_load(file(names[k], ".pt"))), 0) > 4);
        assert_null(rush_error());
        rush_module *net = rush_program_load(file("cnn_scripted", ".pt"));
        rush_object *o = rush_program_object(net);
        const rush_content *io = rush_load(file("cnn_scripted", ".io"));
        assert_true(o && io);
        rush_value v, x = rush_v_tensor(io->items[0]->items[0]->t), two[] = {x, x};
        assert_int_equal(rush_object_call(o, "forward", 1, &x, NULL, &v), 0);
        assert_true(v.kind == RUSH_V_TENSOR && differs(v.t, rush_forward(net, x.t)) == 0);
        assert_int_equal(rush_object_set(o, "training", rush_v_bool(true)), 0);
        assert_true(rush_module_training(net) && strstr(rush_object_type(o), "__torch__"));
        const char *wrong[] = {"nobody"};
        assert_int_equal(rush_object_call(o, "forward", 1, &x, wrong, &v), -1), rush_error_clear();
        assert_int_equal(rush_object_call(o, "forward", 2, two, NULL, &v), -1), rush_error_clear();
        assert_int_equal(rush_object_call(o, "nothing", 0, NULL, NULL, &v), -1), rush_error_clear();
        assert_int_equal(rush_object_get(o, "nothing", &v), -1), rush_error_clear();
        assert_int_equal(rush_object_set(o, "nothing", x), -1), rush_error_clear();
        assert_int_equal(rush_object_set(o, "training", x), -1), rush_error_clear();
        rush_value deep = {.kind = RUSH_V_TUPLE, .n = 1}; /* holds itself */
        deep.values = &deep;
        assert_int_equal(rush_object_call(o, "forward", 1, &deep, NULL, &v), -1), rush_error_clear();
        assert_null(rush_program_object(rush_nn_linear(2, 2))), rush_error_clear();
        kept = rush_object_keep(o);
    }
    rush_scope() { /* the object keeps the program alive */
        rush_value v;
        assert_non_null(kept = rush_object_park(kept));
        assert_int_equal(rush_object_get(kept, "training", &v), 0);
        assert_non_null(rush_object_module(kept));
    }
    assert_null(rush_error());
}

static void files_beside_the_program(void **state)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/rush_script_%d.pt", (int)getpid());
    rush_scope() {
        rush_program_file files[] = {{"labels.txt", "cat\ndog", 7}, {"empty", NULL, 0}}, got;
        rush_module *net = rush_program_load(file("cnn_scripted", ".pt"));
        assert_int_equal(rush_program_save_files(net, path, 2, files), 0);
        assert_int_equal(rush_program_load_file(path, "labels.txt", &got), 0);
        assert_true(got.n == 7 && !memcmp(got.data, "cat\ndog", 7));
        assert_int_equal(rush_program_load_file(path, "nothing", &got), 0);
        assert_true(!got.data && !got.n);
        assert_int_equal(rush_program_load_file("/nonexistent", "labels.txt", &got), -1), rush_error_clear();
        rush_object *again = rush_program_object(rush_program_load(path));
        assert_true(looked_at(again, 0) > 4);
    }
    unlink(path);
    assert_null(rush_error());
}

static void damage_is_an_error(void **state)
{
    char bytes[20000], path[64];
    FILE *f = fopen(file("values", ".pt"), "rb");
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    snprintf(path, sizeof path, "/tmp/rush_script_%d.pt", (int)getpid());
    for (size_t at = 0; at < n; at += 31) {
        bytes[at] ^= 0x55;
        f = fopen(path, "wb");
        fwrite(bytes, 1, n, f);
        fclose(f);
        rush_scope() {
            rush_module *net = rush_program_load(path);
            assert_true(net || rush_error());
            rush_error_clear();
        }
        bytes[at] ^= 0x55;
    }
    unlink(path);
}

/* A program made of text, in another one, saved and loaded; 0, or -1 and an error. */
static int make(const char *path, double *result)
{
    rush_value v, x = rush_v_tensor(rush_ones(RUSH_INTS(2, 2))), three = rush_v_int(3);
    rush_module *part = rush_program_new("Net"), *net = rush_program_new("Net");
    if (!part || !net) return -1;
    if (rush_program_add(part, "weight", NULL, x, RUSH_PROGRAM_PARAMETER) || rush_program_add(part, "k", "int", three, RUSH_PROGRAM_ATTRIBUTE)) return -1;
    if (rush_program_define(part, "\n      def forward(self, x):\n        return x.mm(self.weight) * self.k\n")) return -1;
    rush_object *o = rush_program_object(part);
    if (!o || rush_program_add(net, "part", NULL, rush_v_object(o), RUSH_PROGRAM_ATTRIBUTE) || rush_program_define(net, "def forward(self, x):\n\treturn self.part.forward(x) + 1")) return -1;
    if (rush_program_save(net, path) || !(net = rush_program_load(path)) || !(o = rush_program_object(net)) || rush_object_call(o, "forward", 1, &x, NULL, &v)) return -1;
    *result = rush_item(rush_sum(v.t));
    rush_module *functions = rush_program_compile("def f(x, y: int = 2):\n  return g(x) * y\ndef g(x):\n  return x + 1\n");
    o = functions ? rush_program_object(functions) : NULL;
    if (!o || rush_object_inputs(o, "f") != 2 || rush_object_call(o, "f", 1, &x, NULL, &v)) return -1;
    *result += rush_item(rush_sum(v.t));
    return rush_failed() ? -1 : 0;
}

static void programs_of_text(void **state)
{
    char path[64];
    double result = 0;
    snprintf(path, sizeof path, "/tmp/rush_script_%d.pt", (int)getpid());
    rush_scope() {
        assert_int_equal(make(path, &result), 0);
        assert_true(result == 4 * 7 + 4 * 4);
        rush_module *net = rush_program_new("a.Net"), *other = rush_program_new("Net");
        rush_value v, one = rush_v_int(1), self = rush_v_object(rush_program_object(net));
        assert_null(rush_program_new("1x")), rush_error_clear();
        assert_null(rush_program_compile("def f(x)")), rush_error_clear();
        assert_int_equal(rush_program_add(net, "x", "int", rush_v_float(1), RUSH_PROGRAM_ATTRIBUTE), -1), rush_error_clear();
        assert_int_equal(rush_program_add(net, "x", "int", one, RUSH_PROGRAM_BUFFER), -1), rush_error_clear();
        assert_int_equal(rush_program_add(net, "x", NULL, one, RUSH_PROGRAM_ATTRIBUTE), -1), rush_error_clear();
        assert_int_equal(rush_program_add(net, "x", NULL, self, RUSH_PROGRAM_ATTRIBUTE), -1), rush_error_clear();
        assert_int_equal(rush_program_add(net, "x y", "int", one, RUSH_PROGRAM_ATTRIBUTE), -1), rush_error_clear();
        const char *wrong[] = {"def f(self):\n  return self.x", "def f(self, x):\n  return unknown(x)", "x : int", "def f(self):\nreturn 1", "def f(self)",
                               "  def f(self):\n    return 1\n def g(self):\n  return 2", ")", "\"\"\"", "def f(self):\n  return '"};
        for (size_t k = 0; k < sizeof wrong / sizeof *wrong; ++k) assert_int_equal(rush_program_define(net, wrong[k]), -1), rush_error_clear();
        assert_null(rush_object_method_at(rush_program_object(net), 0));
        assert_null(rush_object_attribute_at(rush_program_object(net), 0));
        assert_int_equal(rush_program_define(net, " # nothing\n"), 0);
        assert_int_equal(rush_program_define(net, "def f(self):\n  return 'a\\'# b', 1 # c"), 0);
        assert_int_equal(rush_program_define(net, "def f(self):\n  return 1"), -1), rush_error_clear();
        assert_int_equal(rush_object_call(rush_program_object(net), "f", 0, NULL, NULL, &v), 0);
        assert_int_equal(rush_program_add(other, "net", NULL, self, RUSH_PROGRAM_ATTRIBUTE), 0);
        assert_int_equal(rush_program_add(net, "other", NULL, rush_v_object(rush_program_object(other)), RUSH_PROGRAM_ATTRIBUTE), -1), rush_error_clear();
        assert_int_equal(rush_program_define(rush_program_load(file("cnn_scripted", ".pt")), "def twice(self, x):\n    return self.forward(x) * 2\n"), 0);
    }
    assert_null(rush_error());
    for (uint64_t n = 1, done = 0; !done && n < 100000; ++n) {
        rush_scope() {
            rush_memory_fail_at(n, false);
            done = !make(path, &result);
            rush_memory_fail_at(0, false);
            assert_true(done || rush_error());
            rush_error_clear();
        }
    }
    unlink(path);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(results_are_pytorchs_and_weights_learn), cmocka_unit_test(several_results_come_one_after_the_other), cmocka_unit_test(attributes_and_methods), cmocka_unit_test(files_beside_the_program), cmocka_unit_test(damage_is_an_error), cmocka_unit_test(programs_of_text)};
    return SUITE(tests);
}
