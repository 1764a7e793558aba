/* gpt.c - a character GPT: learns from the Queries of Newton's Opticks, then writes on.
 *
 *     gpt [text] [steps]
 *
 * Each block is an encoder layer with a causal mask; positions are an embedding of their own.
 */
#include <rushlight.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { CONTEXT = 64, BATCH = 16, FEATURES = 96, HEADS = 4, LAYERS = 3 };

static char letters[256];
static int code[256], count;

/* ---- the model: a module kind with children ---- */

static int gpt_forward(rush_module *m, int n, rush_tensor *const *in, rush_tensor **out)
{
    (void)n;
    rush_tensor *places = rush_arange(rush_size(in[0], 1));
    rush_tensor *x = rush_add(rush_forward(rush_module_child(m, "characters"), in[0]), rush_forward(rush_module_child(m, "positions"), places));
    x = rush_forward(rush_module_child(m, "blocks"), x);
    out[0] = rush_forward(rush_module_child(m, "head"), rush_forward(rush_module_child(m, "norm"), x));
    return out[0] ? 1 : -1;
}

static const rush_module_kind gpt_kind = {.name = "GPT", .forward = gpt_forward};

static rush_module *gpt(void)
{
    rush_module *m = rush_module_new(&gpt_kind), *blocks = rush_nn_sequential_of(0, NULL);
    rush_module_add(m, "characters", rush_nn_embedding(count, FEATURES));
    rush_module_add(m, "positions", rush_nn_embedding(CONTEXT, FEATURES));
    for (int i = 0; i < LAYERS; i++)
        rush_sequential_append(blocks, rush_nn_encoder_layer(FEATURES, HEADS, .feedforward = 4 * FEATURES, .dropout = 0.1, .gelu = true,
                                                             .norm_first = true, .batch_first = true, .causal = true));
    rush_module_add(m, "blocks", blocks);
    rush_module_add(m, "norm", rush_nn_layer_norm(FEATURES));
    rush_module_add(m, "head", rush_nn_linear(FEATURES, count));
    return m;
}

/* ---- text ---- */

/* The file as codes 0..count-1, one for each character that occurs. */
static rush_tensor *read_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return rush_fail(RUSH_IO_ERROR, "can't read '%s'", path), NULL;
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    rush_tensor *text = rush_empty(RUSH_INTS(size), .dtype = rush_v_dtype(RUSH_U8));
    unsigned char *p = text ? rush_data(text) : NULL;
    if (p && fread(p, 1, (size_t)size, f) != (size_t)size) rush_fail(RUSH_IO_ERROR, "can't read '%s'", path);
    fclose(f);
    if (rush_error()) return NULL;
    for (int c = 0; c < 256; c++) code[c] = -1;
    for (long i = 0; i < size; i++) code[p[i]] = 0;
    for (int c = 0; c < 256; c++)
        if (!code[c]) letters[code[c] = count++] = (char)c;
    for (long i = 0; i < size; i++) p[i] = (unsigned char)code[p[i]];
    return rush_to(text, rush_v_dtype(RUSH_I64));
}

static void write_text(rush_module *net, int n)
{
    rush_module_eval(net);
    bool grad = rush_grad_enabled_set(false);
    int64_t window[CONTEXT] = {code['\n'] < 0 ? 0 : code['\n']};
    int known = 1;
    for (int i = 0; i < n && !rush_error(); i++)
        rush_scope() {
            rush_tensor *x = rush_from_data(window, RUSH_I64, 2, (int64_t[]){1, known});
            rush_tensor *last = rush_select(rush_select(rush_forward(net, x), 1, known - 1), 0, 0);
            int64_t next = rush_item_int(rush_multinomial(rush_softmax(rush_div(last, 0.8), 0), 1));
            if (rush_error()) break;
            putchar(letters[next]);
            if (known == CONTEXT) for (int k = 1; k < CONTEXT; k++) window[k - 1] = window[k];
            else known++;
            window[known - 1] = next;
        }
    putchar('\n');
    rush_grad_enabled_set(grad);
    rush_module_train(net, true);
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 1500;
    rush_scope() {
        rush_manual_seed(1);
        rush_tensor *text = read_text(argc > 1 ? argv[1] : "examples/data/opticks.txt");
        if (rush_error()) break;
        int64_t length = rush_size(text, 0);
        rush_module *net = gpt();
        rush_optim *opt = rush_adamw(rush_parameters(net), .lr = 2e-3);
        printf("%lld characters, %d different, %lld weights\n", (long long)length, count, (long long)rush_parameter_count(net));
        rush_tensor *steps_in = rush_arange(CONTEXT + 1);
        clock_t began = clock();
        double average = 0;
        for (int step = 0; step < steps && !rush_error(); step++)
            rush_scope() {
                /* rows of CONTEXT + 1 characters from random places: all but the last go in, all but the first come out */
                rush_tensor *from = rush_randint(length - CONTEXT - 1, RUSH_INTS(BATCH, 1)), *at = rush_add(from, steps_in);
                rush_tensor *rows = rush_reshape(rush_index_select(text, 0, rush_reshape(at, RUSH_INTS(-1))), RUSH_INTS(BATCH, CONTEXT + 1));
                rush_tensor *out = rush_forward(net, rush_narrow(rows, 1, 0, CONTEXT));
                rush_tensor *want = rush_reshape(rush_narrow(rows, 1, 1, CONTEXT), RUSH_INTS(-1));
                rush_tensor *loss = rush_cross_entropy(rush_reshape(out, RUSH_INTS(-1, count)), want);
                rush_optim_lr_set(opt, rush_lr_one_cycle(2e-3, step, steps, 0.1, 10, 100));
                rush_optim_zero_grad(opt);
                rush_backward(loss);
                rush_clip_grad_norm(rush_parameters(net), 1, 2);
                rush_optim_step(opt);
                average = step ? 0.98 * average + 0.02 * rush_item(loss) : rush_item(loss);
                if (isatty(2)) fprintf(stderr, "\rstep %d of %d\x1b[K%s", step + 1, steps, step % 100 == 99 ? "\r" : "");
                if (step % 100 == 99)
                    printf("step %5d  loss %.3f  %.0f s\n", step + 1, average, (double)(clock() - began) / CLOCKS_PER_SEC), fflush(stdout);
            }
        write_text(net, 600);
        rush_module_save(net, "gpt.safetensors");
    }
    if (rush_error()) fprintf(stderr, "%s\n", rush_error());
    return rush_error() ? 1 : 0;
}
