/* Language models: products with blocks beside plain sums, logits beside the same model made of operations, tokens and greedy texts beside llama.cpp's. */
#include "suite/suite.h"
#include "io/file.h"
#include "lm/lm.h"
#include "nn/module.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

static char path[64], small_path[64];

static uint32_t drawn = 1;
static uint32_t draw(void) { return drawn = drawn * 1664525 + 1013904223, drawn >> 8; }

/* Bytes at random, but halves and floats where a block's scales are: of 0.5 to 1. */
static uint8_t *random_blocks(const rush_block_type *t, int64_t n)
{
    static const struct { const char *name; int at[2]; } halves[] = {{"Q4_0", {0, 0}}, {"Q4_1", {0, 2}}, {"Q5_0", {0, 0}}, {"Q5_1", {0, 2}}, {"Q8_0", {0, 0}}, {"Q2_K", {80, 82}},
                                                                     {"Q3_K", {108, 108}}, {"Q4_K", {0, 2}}, {"Q5_K", {0, 2}}, {"Q6_K", {208, 208}}, {"Q8_K", {2, 2}}};
    uint8_t *p = rush_scope_alloc((size_t)(n / t->elements * t->bytes));
    assert_non_null(p);
    for (int64_t i = 0; i < n / t->elements * t->bytes; i++) p[i] = (uint8_t)draw();
    for (int64_t b = 0; b < n / t->elements; b++)
        for (size_t i = 0; i < RUSH_COUNT(halves); i++)
            for (int k = 0; k < 2 && !strcmp(halves[i].name, t->name); k++) {
                uint16_t h = t->number == RUSH_BLOCK_Q8_K ? (uint16_t)(0x3f00 | (draw() & 0x7f)) : rush_f32_to_f16(0.5f + (float)(draw() % 512) / 1024);
                memcpy(p + b * t->bytes + halves[i].at[k], &h, 2);
            }
    return p;
}

static void check_product(const rush_block_type *t, int64_t m, int64_t n, int64_t k)
{
    float *a = rush_scope_alloc((size_t)(m * k) * 4), *w = rush_scope_alloc((size_t)(n * k) * 4), *c = rush_scope_alloc((size_t)(m * n) * 4);
    void *room = rush_scope_alloc(rush_rounded_bytes(m, k));
    assert_true(a && w && c && room);
    uint8_t *blocks = random_blocks(t, n * k);
    for (int64_t i = 0; i < m * k; i++) a[i] = (float)(draw() % 2001) / 1000 - 1;
    rush_rounded r = rush_rounded_at(room, m, k);
    rush_k_blocks->round(a, m, &r);
    rush_k_blocks->to_float(t, blocks, w, n * k);
    for (int64_t i = 0; i < m * k; i++) assert_true(fabsf(a[i] - r.scale[i / 32] * r.q[i]) <= r.scale[i / 32] * 0.501f);
    assert_int_equal(rush_k_blocks->products(&(rush_block_product){t, m, n, &r, blocks, c}, 1), 0);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0, all = 0;
            for (int64_t p = 0; p < k; p++) {
                double x = (double)r.scale[(i * k + p) / 32] * r.q[i * k + p] * w[j * k + p];
                sum += x, all += fabs(x);
            }
            if (fabs(sum - c[i * n + j]) > 2e-5 * all) fail_msg("%s %lldx%lldx%lld at %lld, %lld: %g, not %g", t->name, (long long)m, (long long)n, (long long)k, (long long)i, (long long)j, (double)c[i * n + j], sum);
        }
}

static void products_of_every_block(void **state)
{
    for (int number = 0; number < 64; number++) {
        const rush_block_type *t = rush_block_type_of(number);
        if (!t) continue;
        rush_scope() check_product(t, 1, 19, t->elements == 32 ? 96 : 256);
        rush_scope() check_product(t, 3, 5, 512);
        rush_scope() check_product(t, 4, 16, t->elements);
        if (suite_failing()) continue;
        rush_scope() check_product(t, 21, 35, 768);
    }
}

static void products_of_the_same_rows(void **state)
{
    enum { K = 256, MOST = 9, N = 3000 }; /* several pieces a thread */
    const rush_block_type *t[] = {rush_block_type_of(RUSH_BLOCK_Q4_K), rush_block_type_of(RUSH_BLOCK_Q6_K), rush_block_type_of(RUSH_BLOCK_Q5_K)};
    const int64_t n[] = {N, 5, 129};
    float a[MOST * K], alone[3][MOST * N], together[3][MOST * N];
    int threads = rush_num_threads();
    for (int i = 0; i < MOST * K; i++) a[i] = (float)(draw() % 2001) / 1000 - 1;
    for (int64_t m = 1; m <= MOST; m += 8)
        rush_scope() {
            void *room = rush_scope_alloc(rush_rounded_bytes(m, K));
            assert_non_null(room);
            rush_rounded r = rush_rounded_at(room, m, K);
            rush_k_blocks->round(a, m, &r);
            rush_block_product p[3];
            rush_num_threads_set(1);
            for (int i = 0; i < 3; i++) {
                p[i] = (rush_block_product){t[i], m, n[i], &r, random_blocks(t[i], n[i] * K), alone[i]};
                assert_int_equal(rush_k_blocks->products(&p[i], 1), 0);
                p[i].c = together[i];
            }
            rush_num_threads_set(3);
            assert_int_equal(rush_k_blocks->products(p, 3), 0);
            for (int i = 0; i < 3; i++) assert_memory_equal(alone[i], together[i], (size_t)(m * n[i]) * sizeof(float));
        }
    rush_num_threads_set(threads);
}

/* What a proposal that was checked among others says is what it says alone. */
static void a_row_among_few_is_the_row_alone(void **state)
{
    enum { K = 512, N = 37, M = RUSH_LM_AHEAD + 1 };
    float a[M * K], together[M * N], alone[N];
    for (int i = 0; i < M * K; i++) a[i] = (float)(draw() % 2001) / 1000 - 1;
    for (int number = 0; number < 64; number++) {
        const rush_block_type *t = rush_block_type_of(number);
        if (t) rush_scope() {
            void *room = rush_scope_alloc(rush_rounded_bytes(M, K));
            assert_non_null(room);
            uint8_t *blocks = random_blocks(t, N * K);
            rush_rounded r = rush_rounded_at(room, M, K);
            rush_k_blocks->round(a, M, &r);
            assert_int_equal(rush_k_blocks->products(&(rush_block_product){t, M, N, &r, blocks, together}, 1), 0);
            for (int i = 0; i < M; i++) {
                rush_rounded one = rush_rounded_at(room, 1, K);
                rush_k_blocks->round(a + i * K, 1, &one);
                assert_int_equal(rush_k_blocks->products(&(rush_block_product){t, 1, N, &one, blocks, alone}, 1), 0);
                if (memcmp(alone, together + i * N, sizeof alone)) fail_msg("%s: row %d of %d is another one alone", t->name, i, M);
            }
        }
    }
}

static void a_large_file_is_held_in_memory(void **state)
{
    enum { SIZE = 35 << 20 };
    static char bytes[SIZE];
    char name[] = "/tmp/rushlight_held_XXXXXX";
    int f = mkstemp(name);
    for (int i = 0; i < SIZE; i++) bytes[i] = (char)(i * 2654435761u >> 24);
    bool written = pwrite(f, bytes, SIZE, 0) == SIZE, same[2], held[2];
    for (int small = 0; small < 2; small++) {
        size_t size = small ? 5000 : SIZE;
        written &= !ftruncate(f, (off_t)size);
        rush_mapping *m = rush_map_held(name);
        same[small] = m && m->size == size && !memcmp(m->data, bytes, size);
        held[small] = m && m->held >= size;
        rush_unmap(m);
    }
    close(f), unlink(name);
    assert_true(written && same[0] && same[1]);
    assert_true((held[0] || rush_granted_memory() < 2 * SIZE) && !held[1]);
    assert_true(rush_granted_memory() > 0 || access("/proc/meminfo", R_OK));
}

static void products_of_numbers(void **state)
{
    enum { M = 6, N = 7, K = 45 };
    float a[M * K], w[N * K], c[M * N];
    uint16_t h[N * K];
    for (int i = 0; i < M * K; i++) a[i] = (float)(draw() % 64) - 32;
    for (int i = 0; i < N * K; i++) w[i] = (float)(draw() % 64) - 32; /* of which halves keep all */
    for (int d = 0; d < 3; d++) {
        rush_dtype dtype = (rush_dtype[]){RUSH_F32, RUSH_F16, RUSH_BF16}[d];
        for (int i = 0; i < N * K; i++) h[i] = dtype == RUSH_F16 ? rush_f32_to_f16(w[i]) : rush_f32_to_bf16(w[i]);
        rush_k_decoder->dense(dtype, a, d ? (void *)h : w, c, M, N, K);
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                float sum = 0;
                for (int p = 0; p < K; p++) sum += a[i * K + p] * w[j * K + p];
                assert_true(c[i * N + j] == sum);
            }
    }
}

/* ---- a model made here ---- */

enum { WIDTH = 64, HEADS = 4, KV = 2, HEAD = 16, FEED = 96, LAYERS = 2, WORDS = 40 };

static rush_content *texts(int n, const char *const *s)
{
    rush_content *list = rush_content_list();
    for (int i = 0; i < n; i++) rush_content_append(list, rush_content_text(s[i]));
    return list;
}

static rush_content *about(const char *kind)
{
    static const char *const tokens[] = {"<unk>", "<s>", "</s>", "\xe2\x96\x81", "a", "b", "ab", "\xe2\x96\x81" "a", "\xe2\x96\x81" "ab", "<0x41>", "<0xC3>", "<0xA9>"};
    const struct { const char *key; int64_t n; } sizes[] = {{"block_count", LAYERS}, {"embedding_length", WIDTH}, {"feed_forward_length", FEED}, {"attention.head_count", HEADS},
                                                            {"attention.head_count_kv", strcmp(kind, "gpt2") ? KV : HEADS}, {"context_length", 128}};
    float scores[] = {0, 0, 0, -5, -5, -5, -2, -1, -3, 0, 0, 0};
    int32_t types[] = {2, 3, 3, 1, 1, 1, 1, 1, 1, 6, 6, 6};
    int64_t n = RUSH_COUNT(tokens);
    rush_content *d = rush_content_dict();
    rush_content_set(d, "general.architecture", rush_content_text(kind));
    for (size_t i = 0; i < RUSH_COUNT(sizes); i++) {
        char key[64];
        snprintf(key, sizeof key, "%s.%s", kind, sizes[i].key);
        rush_content_set(d, key, rush_content_int(sizes[i].n));
    }
    rush_content_set(d, "tokenizer.ggml.model", rush_content_text("llama"));
    rush_content_set(d, "tokenizer.ggml.tokens", texts((int)n, tokens));
    rush_content_set(d, "tokenizer.ggml.scores", rush_content_tensor(rush_from_data(scores, RUSH_F32, 1, &n)));
    rush_content_set(d, "tokenizer.ggml.token_type", rush_content_tensor(rush_from_data(types, RUSH_I32, 1, &n)));
    return d;
}

typedef struct made {
    rush_state s;
    const char *types[64], *names[64];
    rush_tensor *tensors[64];
    char room[64][64]; /* of names */
} made;

static void put(made *m, const char *name, int layer, int64_t rows, int64_t columns, const char *type)
{
    char *full = m->room[m->s.n];
    snprintf(full, sizeof *m->room, layer < 0 ? "%s" : "blk.%2$d.%1$s", name, layer);
    rush_tensor *t = T("randn", INTS(rows, columns));
    t = rows == 1 ? T("add.Scalar", V(T("mul.Scalar", V(T("view", V(t), INTS(-1))), V(0.1))), V(strstr(name, "bias") ? 0.0 : 1.0))
                  : T("mul.Scalar", V(t), V(1.5 / sqrt((double)columns)));
    m->s.name[m->s.n] = full;
    m->types[m->s.n] = rows == 1 ? "F32" : type;
    m->s.tensor[m->s.n++] = t;
}

/* What has a bias, too, in GPT-2's models. */
static void put_both(made *m, const char *name, int layer, int64_t n, int64_t k, const char *type)
{
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    put(m, full, layer, k ? n : 1, k ? k : n, type);
    snprintf(full, sizeof full, "%s.bias", name);
    put(m, full, layer, 1, n, type);
}

static void put_learned(made *m, const char *type)
{
    put(m, "position_embd.weight", -1, 128, WIDTH, type);
    put_both(m, "output_norm", -1, WIDTH, 0, type);
    for (int i = 0; i < LAYERS; i++) {
        put_both(m, "attn_norm", i, WIDTH, 0, type);
        put_both(m, "attn_qkv", i, 3 * WIDTH, WIDTH, type);
        put_both(m, "attn_output", i, WIDTH, WIDTH, type);
        put_both(m, "ffn_norm", i, WIDTH, 0, type);
        put_both(m, "ffn_up", i, FEED, WIDTH, type);
        put_both(m, "ffn_down", i, WIDTH, FEED, type);
    }
}

static void put_llama(made *m, const char *kind, const char *type)
{
    put(m, "output_norm.weight", -1, 1, WIDTH, type);
    for (int i = 0; i < LAYERS; i++) {
        put(m, "attn_norm.weight", i, 1, WIDTH, type);
        put(m, "attn_q.weight", i, HEADS * HEAD, WIDTH, type);
        put(m, "attn_k.weight", i, KV * HEAD, WIDTH, type);
        put(m, "attn_v.weight", i, KV * HEAD, WIDTH, type);
        put(m, "attn_output.weight", i, WIDTH, HEADS * HEAD, type);
        put(m, "ffn_norm.weight", i, 1, WIDTH, type);
        put(m, "ffn_gate.weight", i, FEED, WIDTH, type);
        put(m, "ffn_up.weight", i, FEED, WIDTH, type);
        put(m, "ffn_down.weight", i, WIDTH, FEED, type);
        if (!strcmp(kind, "qwen2")) {
            put(m, "attn_q.bias", i, 1, HEADS * HEAD, type);
            put(m, "attn_k.bias", i, 1, KV * HEAD, type);
            put(m, "attn_v.bias", i, 1, KV * HEAD, type);
        }
        if (!strcmp(kind, "qwen3")) put(m, "attn_q_norm.weight", i, 1, HEAD, type), put(m, "attn_k_norm.weight", i, 1, HEAD, type);
    }
}

static void write_model_to(const char *to, uint64_t seed, const char *kind, const char *type)
{
    made m = {0};
    m.s.name = m.names, m.s.tensor = m.tensors;
    rush_manual_seed(seed);
    put(&m, "token_embd.weight", -1, WORDS, WIDTH, type);
    if (!strcmp(kind, "gpt2")) put_learned(&m, type);
    else put_llama(&m, kind, type);
    assert_int_equal(rush_gguf_save(to, m.s, about(kind), m.types), 0);
}

static void write_model(const char *kind, const char *type) { write_model_to(path, 5, kind, type); }

/* ---- the same of operations ---- */

static rush_tensor *weight(rush_state s, const char *name, int layer)
{
    char full[64];
    snprintf(full, sizeof full, layer < 0 ? "%s" : "blk.%2$d.%1$s", name, layer);
    for (int i = 0; i < s.n; i++)
        if (!strcmp(s.name[i], full)) return T("to.dtype", V(s.tensor[i]), rush_v_dtype(RUSH_F32));
    return NULL;
}

static rush_tensor *normed(rush_tensor *x, rush_tensor *w)
{
    rush_tensor *square = T("mean.dim", V(T("mul.Tensor", V(x), V(x))), INTS(-1), V(true));
    return T("mul.Tensor", V(T("mul.Tensor", V(x), V(T("rsqrt", V(T("add.Scalar", V(square), V(1e-5))))))), V(w));
}

/* (n, heads * HEAD) to (heads, n, HEAD), each pair turned */
static rush_tensor *turned(rush_tensor *x, int heads, bool halves, rush_tensor *norm)
{
    if (!x) fail_msg("%s", rush_error());
    int64_t n = x->size[0];
    x = T("view", V(x), INTS(n, heads, HEAD));
    if (norm) x = normed(x, norm);
    rush_tensor *pairs = halves ? T("transpose.int", V(T("reshape", V(x), INTS(n, heads, 2, HEAD / 2))), V(-1), V(-2)) : T("reshape", V(x), INTS(n, heads, HEAD / 2, 2));
    rush_tensor *a = T("select.int", V(pairs), V(-1), V(0)), *b = T("select.int", V(pairs), V(-1), V(1));
    rush_tensor *f = T("exp", V(T("mul.Scalar", V(T("arange", V(HEAD / 2.0))), V(-2 * log(10000) / HEAD))));
    rush_tensor *angle = T("unsqueeze", V(T("outer", V(T("arange", V((double)n))), V(f))), V(1)), *c = T("cos", V(angle)), *s = T("sin", V(angle));
    rush_tensor *both[] = {T("sub.Tensor", V(T("mul.Tensor", V(a), V(c))), V(T("mul.Tensor", V(b), V(s)))), T("add.Tensor", V(T("mul.Tensor", V(a), V(s))), V(T("mul.Tensor", V(b), V(c))))};
    rush_tensor *y = T("stack", rush_v_tensors(both, 2), V(halves ? 2 : 3));
    return T("transpose.int", V(T("reshape", V(y), INTS(n, heads, HEAD))), V(0), V(1));
}

static rush_tensor *linear(rush_tensor *x, rush_state s, const char *name, const char *bias, int i)
{
    rush_tensor *b = bias ? weight(s, bias, i) : NULL;
    return T("linear", V(x), V(weight(s, name, i)), b ? V(b) : RUSH_NONE);
}

static rush_tensor *layer_normed(rush_tensor *x, rush_state s, const char *name, int i)
{
    char full[2][64];
    snprintf(full[0], sizeof *full, "%s.weight", name);
    snprintf(full[1], sizeof *full, "%s.bias", name);
    return T("layer_norm", V(x), INTS(WIDTH), V(weight(s, full[0], i)), V(weight(s, full[1], i)), V(1e-5));
}

static rush_tensor *learned_logits_of(rush_state s, int n, const int32_t *tokens)
{
    int64_t size = n;
    rush_tensor *x = T("embedding", V(weight(s, "token_embd.weight", -1)), V(rush_from_data(tokens, RUSH_I32, 1, &size)));
    x = T("add.Tensor", V(x), V(T("narrow", V(weight(s, "position_embd.weight", -1)), V(0), V(0), V(n))));
    for (int i = 0; i < LAYERS; i++) {
        rush_tensor *all = linear(layer_normed(x, s, "attn_norm", i), s, "attn_qkv.weight", "attn_qkv.bias", i);
        rush_tensor *heads = T("transpose.int", V(T("view", V(all), INTS(n, 3 * HEADS, HEAD))), V(0), V(1)), *part[3];
        for (int k = 0; k < 3; k++) part[k] = T("narrow", V(heads), V(0), V(k * HEADS), V(HEADS));
        rush_tensor *a = T("scaled_dot_product_attention", V(part[0]), V(part[1]), V(part[2]), RUSH_NONE, V(0.0), V(true));
        a = T("reshape", V(T("transpose.int", V(a), V(0), V(1))), INTS(n, WIDTH));
        x = T("add.Tensor", V(x), V(linear(a, s, "attn_output.weight", "attn_output.bias", i)));
        rush_tensor *y = T("gelu", V(linear(layer_normed(x, s, "ffn_norm", i), s, "ffn_up.weight", "ffn_up.bias", i)), V("tanh"));
        x = T("add.Tensor", V(x), V(linear(y, s, "ffn_down.weight", "ffn_down.bias", i)));
    }
    x = layer_normed(T("narrow", V(x), V(0), V(n - 1), V(1)), s, "output_norm", -1);
    return T("linear", V(x), V(weight(s, "token_embd.weight", -1)));
}

static rush_tensor *logits_of(rush_state s, int n, const int32_t *tokens, bool halves)
{
    int64_t size = n;
    rush_tensor *x = T("embedding", V(weight(s, "token_embd.weight", -1)), V(rush_from_data(tokens, RUSH_I32, 1, &size)));
    for (int i = 0; i < LAYERS; i++) {
        rush_tensor *y = normed(x, weight(s, "attn_norm.weight", i));
        rush_tensor *q = turned(linear(y, s, "attn_q.weight", "attn_q.bias", i), HEADS, halves, weight(s, "attn_q_norm.weight", i));
        rush_tensor *k = turned(linear(y, s, "attn_k.weight", "attn_k.bias", i), KV, halves, weight(s, "attn_k_norm.weight", i));
        rush_tensor *v = T("transpose.int", V(T("view", V(linear(y, s, "attn_v.weight", "attn_v.bias", i)), INTS(n, KV, HEAD))), V(0), V(1));
        k = T("repeat_interleave.self_int", V(k), V(HEADS / KV), V(0));
        v = T("repeat_interleave.self_int", V(v), V(HEADS / KV), V(0));
        rush_tensor *a = T("scaled_dot_product_attention", V(q), V(k), V(v), RUSH_NONE, V(0.0), V(true));
        a = T("reshape", V(T("transpose.int", V(a), V(0), V(1))), INTS(n, HEADS * HEAD));
        x = T("add.Tensor", V(x), V(linear(a, s, "attn_output.weight", NULL, i)));
        y = normed(x, weight(s, "ffn_norm.weight", i));
        y = T("mul.Tensor", V(T("silu", V(linear(y, s, "ffn_gate.weight", NULL, i)))), V(linear(y, s, "ffn_up.weight", NULL, i)));
        x = T("add.Tensor", V(x), V(linear(y, s, "ffn_down.weight", NULL, i)));
    }
    x = normed(T("narrow", V(x), V(0), V(n - 1), V(1)), weight(s, "output_norm.weight", -1));
    return T("linear", V(x), V(weight(s, "token_embd.weight", -1)));
}

/* Root of the mean square of a - b, beside that of b. */
static double apart(const float *a, const float *b, int n)
{
    double d = 0, all = 0;
    for (int i = 0; i < n; i++) d += pow((double)a[i] - b[i], 2), all += pow(b[i], 2);
    return sqrt(d / all);
}

static void logits_are_those_of_operations(void **state)
{
    static const struct { const char *kind, *type; double most; } cases[] = {{"llama", "F32", 4e-3}, {"qwen2", "F16", 4e-3}, {"qwen3", "BF16", 4e-3}, {"llama", "Q8_0", 0.1}, {"qwen2", "Q4_0", 0.1},
                                                                              {"gpt2", "F32", 4e-3}, {"gpt2", "Q8_0", 0.1}};
    int32_t tokens[70];
    drawn = 1; /* the same tokens each time that an allocation fails */
    for (int i = 0; i < 70; i++) tokens[i] = (int32_t)(draw() % WORDS);
    for (size_t c = 0; c < RUSH_COUNT(cases); c += suite_failing() ? 3 : 1)
        rush_scope() {
            write_model(cases[c].kind, cases[c].type);
            rush_lm *lm = rush_lm_load(path, 0);
            assert_non_null(lm);
            assert_int_equal(rush_lm_vocabulary(lm), WORDS);
            assert_int_equal(rush_lm_context(lm), 128);
            rush_state s = rush_gguf_load(path);
            assert_true(s.n > 0);
            rush_tensor *want = strcmp(cases[c].kind, "gpt2") ? logits_of(s, 70, tokens, strcmp(cases[c].kind, "llama")) : learned_logits_of(s, 70, tokens);
            assert_non_null(want);
            float whole[WORDS];
            const float *got = rush_lm_feed(lm, tokens, 70);
            assert_non_null(got);
            memcpy(whole, got, sizeof whole);
            double off = apart(whole, rush_ptr(want), WORDS);
            if (off > cases[c].most || !(off >= 0)) fail_msg("%s of %s: %g apart", cases[c].kind, cases[c].type, off);
            assert_int_equal(rush_lm_rewind(lm, 3), 0);
            for (int i = 3; i < 60; i++) assert_non_null(rush_lm_feed(lm, tokens + i, 1));
            assert_non_null(got = rush_lm_feed(lm, tokens + 60, 10)); /* the cache holds what it held at once */
            assert_int_equal(rush_lm_position(lm), 70);
            assert_true(apart(got, whole, WORDS) < cases[c].most);
            rush_lm *small = rush_lm_load_with(path, &(rush_lm_options){.cache = "int8"});
            assert_non_null(small);
            for (int i = 0; i < 60; i += 20) assert_non_null(rush_lm_feed(small, tokens + i, 20));
            assert_non_null(got = rush_lm_feed(small, tokens + 60, 10));
            off = apart(got, rush_ptr(want), WORDS);
            if (off > cases[c].most + 0.03 || off == apart(whole, rush_ptr(want), WORDS)) fail_msg("%s of %s: %g apart with a cache of int8", cases[c].kind, cases[c].type, off);
        }
}

/* ---- what a small model proposes ---- */

enum { TEXT = 9, MADE = 90 };

static int made_now(void) { return suite_failing() ? 8 : MADE; }

static void say_alone(rush_lm *lm, const int32_t *text, int32_t *to, const rush_lm_sampling *s)
{
    assert_int_equal(rush_lm_rewind(lm, 0), 0);
    const float *logits = rush_lm_feed(lm, text, TEXT);
    for (int i = 0; i < made_now(); logits = rush_lm_feed(lm, &to[i++], 1)) assert_true((to[i] = rush_lm_draw(lm, logits, s)) >= 0);
}

/* How many steps it took. */
static int say_together(rush_lm *lm, rush_lm *draft, const int32_t *text, int32_t *to, const rush_lm_sampling *s)
{
    int n = 1, steps = 0, all = made_now();
    assert_int_equal(rush_lm_rewind(lm, 0), 0);
    const float *logits = rush_lm_feed(lm, text, TEXT);
    assert_non_null(logits);
    to[0] = rush_lm_draw(lm, logits, s);
    for (; n < all; steps++) {
        int32_t next[RUSH_LM_AHEAD + 1];
        int64_t more = rush_lm_speculate(lm, draft, to[n - 1], (size_t)(all - n), next, s);
        if (more < 1 || more > all - n || more > RUSH_LM_AHEAD + 1) fail_msg("%lld tokens: %s", (long long)more, rush_error());
        memcpy(to + n, next, (size_t)more * sizeof *to);
        n += (int)more;
        assert_int_equal(rush_lm_position(lm), TEXT + n - 1);
    }
    return steps;
}

static void a_draft_changes_no_text(void **state)
{
    static const struct { const char *kind, *type, *of_draft; } cases[] = {{"llama", "F32", "F16"}, {"qwen2", "BF16", "Q4_0"}, {"qwen3", "Q8_0", "Q4_0"}, {"gpt2", "Q5_0", "Q5_1"}, {"llama", "Q4_1", "Q8_0"}};
    static const rush_lm_sampling ways[] = {{0}, {.repetition = 1.3, .presence = 0.5, .frequency = 0.2, .counted = TEXT}};
    int32_t text[TEXT], alone[MADE], together[MADE];
    for (int i = 0; i < TEXT; i++) text[i] = (int32_t)(draw() % WORDS);
    for (size_t c = 0; c < RUSH_COUNT(cases); c += suite_failing() ? 5 : 1)
        rush_scope() {
            write_model(cases[c].kind, cases[c].type);
            write_model_to(small_path, 5, cases[c].kind, cases[c].of_draft); /* says nearly the same */
            rush_lm *lm = rush_lm_load(path, 0), *near = rush_lm_load(small_path, 0), *same = rush_lm_load(path, 0), *brief = rush_lm_load(small_path, 64);
            assert_true(lm && near && same && brief);
            write_model_to(small_path, 6, cases[c].kind, cases[c].of_draft);
            rush_lm *other = rush_lm_load(small_path, 0);
            assert_non_null(other);
            for (size_t w = suite_failing() ? 1 : 0; w < RUSH_COUNT(ways); w++) {
                rush_lm *drafts[] = {same, near, other, brief, NULL};
                say_alone(lm, text, alone, &ways[w]);
                for (size_t d = suite_failing() ? 2 : 0; d < RUSH_COUNT(drafts); d++) {
                    int steps = say_together(lm, drafts[d], text, together, &ways[w]);
                    assert_memory_equal(alone, together, (size_t)made_now() * sizeof *alone);
                    if (d == 0) assert_int_equal(steps, (MADE - 1 + RUSH_LM_AHEAD) / (RUSH_LM_AHEAD + 1)); /* all that it proposes is taken */
                    if (d == 4) assert_int_equal(steps, made_now() - 1);
                }
            }
        }
}

/* How often each token follows, beside its probability: with a draft that thinks otherwise, drawn from what the model alone draws from. */
static void a_draft_changes_no_chances(void **state)
{
    enum { TIMES = 4000 };
    static const rush_lm_sampling ways[] = {{.temperature = 0.7}, {.temperature = 1.5, .top_k = 6}, {.temperature = 1, .top_p = 0.8, .repetition = 1.2}};
    int32_t text[TEXT], next[RUSH_LM_AHEAD + 1];
    for (int i = 0; i < TEXT; i++) text[i] = (int32_t)(draw() % WORDS);
    rush_scope() {
        write_model("llama", "Q8_0");
        write_model_to(small_path, 6, "llama", "Q4_0");
        rush_lm *lm = rush_lm_load(path, 0), *draft = rush_lm_load(small_path, 0);
        assert_true(lm && draft);
        for (size_t w = 0; w < RUSH_COUNT(ways); w += suite_failing() ? 3 : 1)
            rush_scope() {
                rush_lm_rewind(lm, 0);
                const float *logits = rush_lm_feed(lm, text, TEXT);
                assert_non_null(logits);
                const rush_tensor *p = rush_lm_chances(lm, logits, WORDS, &ways[w]);
                assert_non_null(p);
                int count[WORDS] = {0}, all_at_once = 0;
                for (int i = 0; i < (suite_failing() ? 4 : TIMES); i++) {
                    rush_lm_rewind(lm, TEXT - 1);
                    int64_t n = rush_lm_speculate(lm, draft, text[TEXT - 1], 3, next, &ways[w]);
                    if (n < 1) fail_msg("%s", rush_error());
                    count[next[0]]++, all_at_once += n == 3;
                }
                for (int i = 0; i < WORDS && !suite_failing(); i++) {
                    double q = ((const float *)rush_ptr(p))[i], off = fabs(count[i] - TIMES * q);
                    if (off > 4.5 * sqrt(TIMES * q * (1 - q)) + 1e-3) fail_msg("way %d: token %d came %d times, not %g", (int)w, i, count[i], TIMES * q);
                }
                if (!suite_failing()) assert_true(all_at_once > 0 && all_at_once < TIMES);
            }
    }
}

static void wrong_drafts_are_errors(void **state)
{
    int32_t next[RUSH_LM_AHEAD + 1];
    rush_scope() {
        write_model("llama", "F32");
        rush_lm *lm = rush_lm_load(path, 64), *draft = rush_lm_load(path, 64), *other = rush_lm_load(RUSH_TEST_DATA "/gguf/gpt2.gguf", 0);
        assert_true(lm && draft && other);
        const struct { rush_lm *lm, *draft; int32_t token; size_t most; int32_t *to; const char *why; } wrong[] = {
            {lm, other, 1, 3, next, "other tokens"}, {lm, lm, 1, 3, next, "its own draft"}, {lm, draft, 1, 0, next, "one token at least"}, {lm, draft, 1, 1, NULL, "one token at least"},
            {lm, draft, WORDS, 3, next, "vocabulary"}, {lm, draft, -1, 3, next, "vocabulary"}, {NULL, draft, 1, 3, next, "language model"}};
        for (size_t i = 0; i < RUSH_COUNT(wrong); i++) {
            assert_int_equal(rush_lm_speculate(wrong[i].lm, wrong[i].draft, wrong[i].token, wrong[i].most, wrong[i].to, NULL), -1);
            if (!strstr(rush_error(), wrong[i].why)) fail_msg("%s", rush_error());
            rush_error_clear();
            assert_int_equal(rush_lm_position(lm), 0);
        }
        int32_t token = 1;
        for (int64_t n; rush_lm_position(lm) < 64; token = next[n - 1]) assert_true((n = rush_lm_speculate(lm, draft, token, 5, next, NULL)) > 0);
        assert_int_equal(rush_lm_speculate(lm, draft, token, 5, next, NULL), -1);
        assert_non_null(strstr(rush_error(), "full"));
        rush_error_clear();
    }
}

/* ---- tokens ---- */

static void check_tokens(const rush_lm *lm, const char *text, int n, const int32_t *want)
{
    size_t count = 0;
    const int32_t *got = rush_lm_encode(lm, text, strlen(text), &count);
    assert_non_null(got);
    assert_int_equal(count, n);
    assert_memory_equal(got, want, (size_t)n * 4);
}
#define TOKENS(lm, text, ...) check_tokens(lm, text, (int)RUSH_COUNT(((int32_t[]){__VA_ARGS__})), (int32_t[]){__VA_ARGS__})

static void sentence_pieces(void **state)
{
    rush_scope() {
        write_model("llama", "F16");
        rush_lm *lm = rush_lm_load(path, 64);
        assert_non_null(lm);
        TOKENS(lm, "ab", 1, 8);
        TOKENS(lm, "a ab b", 1, 7, 8, 3, 5);
        TOKENS(lm, "aab", 1, 7, 6);
        TOKENS(lm, "A\xc3\xa9z", 1, 3, 9, 10, 11, 0);
        TOKENS(lm, "a</s>a", 1, 7, 2, 7);
        TOKENS(lm, "", 1);
        size_t n;
        assert_string_equal(rush_lm_piece(lm, 8, &n), " ab");
        assert_int_equal(n, 3);
        assert_string_equal(rush_lm_piece(lm, 9, NULL), "A");
        assert_string_equal(rush_lm_piece(lm, 1, NULL), "");
        assert_string_equal(rush_lm_piece(lm, 1000, NULL), "");
    }
}

/* What llama.cpp made of texts is in the files' metadata: its tokens, and the likeliest ones after them. */
static void as_llama_cpp_does(void **state)
{
    static const char *const names[] = {"pieces.gguf", "llama3.gguf", "qwen2.gguf", "gpt2.gguf", "learned.gguf"};
    for (size_t f = 0; f < RUSH_COUNT(names); f++)
        rush_scope() {
            char file[256], key[64];
            snprintf(file, sizeof file, RUSH_TEST_DATA "/gguf/%s", names[f]);
            rush_lm *lm = rush_lm_load(file, 0);
            const rush_content *meta = rush_gguf_metadata(file), *text;
            assert_non_null(lm);
            assert_non_null(meta);
            int texts_seen = 0, steps = 0, compared = 0;
            for (;; texts_seen++) {
                snprintf(key, sizeof key, "golden.%d.text", texts_seen);
                if (!(text = rush_content_get(meta, key))) break;
                snprintf(key, sizeof key, "golden.%d.tokens", texts_seen);
                const rush_tensor *want = rush_content_get(meta, key)->t;
                check_tokens(lm, text->s, (int)want->numel, rush_ptr(want));
                snprintf(key, sizeof key, "golden.%d.greedy", texts_seen);
                const rush_tensor *after = rush_content_get(meta, key)->t;
                snprintf(key, sizeof key, "golden.%d.lead", texts_seen);
                const rush_tensor *lead = rush_content_get(meta, key)->t;
                assert_int_equal(rush_lm_rewind(lm, 0), 0);
                const float *logits = rush_lm_feed(lm, rush_ptr(want), (size_t)want->numel);
                for (int64_t i = 0; i < after->numel; i++, steps++) { /* activations are rounded: what leads by less than that may change places */
                    assert_non_null(logits);
                    int32_t token = ((const int32_t *)rush_ptr(after))[i];
                    if (((const float *)rush_ptr(lead))[i] > 0.25f) assert_int_equal(rush_lm_draw(lm, logits, NULL), token), compared++;
                    logits = rush_lm_feed(lm, &token, 1);
                }
            }
            assert_true(texts_seen == 3 && steps == 72 && compared > 30);
        }
}

static void tokens_are_drawn_as_multinomial_does(void **state)
{
    rush_scope() {
        write_model("llama", "F32");
        rush_lm *lm = rush_lm_load(path, 64);
        assert_non_null(lm);
        const float *logits = rush_lm_feed(lm, (int32_t[]){1, 7, 5}, 3);
        assert_non_null(logits);
        int64_t n = WORDS;
        rush_tensor *x = rush_from_data(logits, RUSH_F32, 1, &n), *p = T("softmax.int", V(T("div.Scalar", V(x), V(0.7))), V(-1));
        int32_t best = rush_lm_draw(lm, logits, NULL);
        float top[WORDS];
        memcpy(top, logits, sizeof top);
        int better = 0;
        bool several = false;
        for (int seed = 0; seed < (suite_failing() ? 2 : 50); seed++) {
            rush_manual_seed((uint64_t)seed);
            const rush_tensor *want = T("multinomial", V(p), V(1));
            assert_non_null(want);
            rush_manual_seed((uint64_t)seed);
            assert_int_equal(rush_lm_draw(lm, logits, &(rush_lm_sampling){.temperature = 0.7}), *(const int64_t *)rush_ptr(want));
            int32_t few = rush_lm_draw(lm, logits, &(rush_lm_sampling){.temperature = 5, .top_k = 3});
            assert_in_range(few, 0, WORDS - 1);
            better = 0;
            for (int i = 0; i < WORDS; i++) better += top[i] > top[few];
            assert_true(better < 3);
            several = several || few != best;
            assert_int_equal(rush_lm_draw(lm, logits, &(rush_lm_sampling){.temperature = 5, .top_k = 1}), best);
            assert_int_equal(rush_lm_draw(lm, logits, &(rush_lm_sampling){.temperature = 5, .top_p = 1e-6}), best);
        }
        assert_true(several || suite_failing());
        assert_int_equal(rush_lm_draw(lm, logits, &(rush_lm_sampling){.temperature = -1}), -1);
        rush_error_clear();
    }
}

static void penalties_and_biases_change_what_is_drawn(void **state)
{
    rush_scope() {
        write_model("llama", "F32");
        rush_lm *lm = rush_lm_load(path, 64);
        const float *logits = lm ? rush_lm_feed(lm, (int32_t[]){7, 1, 7, 5, 7}, 5) : NULL;
        assert_non_null(logits);
        rush_lm_chance found[4];
        int32_t best = rush_lm_draw(lm, logits, NULL);
        assert_int_equal(rush_lm_likeliest(lm, logits, 7, 3, found), 0);
        double sum = 0;
        for (int i = 0; i < WORDS; i++) sum += exp(logits[i]);
        assert_int_equal(found[1].token, best);
        for (int k = 0; k < 4; k++) assert_true(fabs(found[k].log - (logits[found[k].token] - log(sum))) < 1e-4);
        assert_true(found[0].token == 7 && found[1].log >= found[2].log && found[2].log >= found[3].log);
        float above = logits[best] - logits[7]; /* 7 was fed three times: just enough, and not enough */
        if (best != 7) {
            rush_lm_sampling most = {.frequency = -(above + 0.01) / 3}, less = {.frequency = -(above - 0.01) / 3}, once = {.presence = -(above + 0.01)}, none = once;
            none.counted = 5;
            assert_true(rush_lm_draw(lm, logits, &less) != 7 && rush_lm_draw(lm, logits, &none) == best);
            if (best != 1 && best != 5 && logits[7] >= logits[1] && logits[7] >= logits[5]) assert_true(rush_lm_draw(lm, logits, &most) == 7 && rush_lm_draw(lm, logits, &once) == 7);
        }
        const rush_lm_bias bias[] = {{3, 1e6f}, {best, -5}}, wrong = {WORDS, 1};
        assert_int_equal(rush_lm_draw(lm, logits, &(rush_lm_sampling){.bias = bias, .nbias = 2}), 3);
        assert_int_equal(rush_lm_draw(lm, logits, &(rush_lm_sampling){.bias = &wrong, .nbias = 1}), -1);
        rush_error_clear();
        assert_int_equal(rush_lm_draw(lm, logits, &(rush_lm_sampling){.frequency = NAN}), -1);
        rush_error_clear();
        assert_int_equal(rush_lm_likeliest(lm, logits, WORDS, 0, found), -1);
        rush_error_clear();
        assert_int_equal(rush_lm_resume(lm, (int32_t[]){7, 1, 2}, 3), 2);
        assert_int_equal(rush_lm_position(lm), 2);
        assert_int_equal(rush_lm_resume(lm, (int32_t[]){7, 1}, 2), 1); /* the last one is to be fed */
        assert_null(rush_lm_chat(lm, 1, &(rush_lm_message){"user", "a"}, NULL));
        rush_error_clear();
    }
}

static void scores_are_those_of_what_it_says(void **state)
{
    enum { N = 70 };
    rush_scope() {
        write_model("llama", "F32");
        rush_lm *lm = rush_lm_load(path, 0);
        assert_non_null(lm);
        int32_t tokens[N];
        float scores[N], again[N];
        drawn = 9;
        for (int i = 0; i < N; i++) tokens[i] = (int32_t)(draw() % WORDS);
        assert_int_equal(rush_lm_score(lm, tokens, N, scores), 0);
        assert_int_equal(rush_lm_position(lm), N);
        assert_true(scores[0] == 0);
        assert_int_equal(rush_lm_rewind(lm, 0), 0);
        for (int i = 0; i + 1 < N; i++) {
            const float *logits = rush_lm_feed(lm, &tokens[i], 1);
            assert_non_null(logits);
            double sum = 0;
            for (int k = 0; k < WORDS; k++) sum += exp(logits[k]);
            assert_true(fabs(logits[tokens[i + 1]] - log(sum) - scores[i + 1]) < 1e-4);
        }
        assert_int_equal(rush_lm_rewind(lm, 40), 0);
        assert_int_equal(rush_lm_score(lm, tokens + 40, N - 40, again), 0); /* after what it was fed before */
        for (int i = 1; i < N - 40; i++) assert_true(fabsf(again[i] - scores[40 + i]) < 1e-4f);
        assert_int_equal(rush_lm_score(lm, tokens, 100, again), -1);
        rush_error_clear();
        assert_int_equal(rush_lm_score(lm, tokens, 1, NULL), -1);
        rush_error_clear();
        assert_int_equal(rush_lm_position(lm), N);
    }
}

/* ---- what is wrong with a model ---- */

static void a_model_ends_with_its_scope(void **state)
{
    rush_lm *lm = NULL;
    rush_scope() {
        write_model("llama", "F16");
        lm = rush_lm_load(path, 64);
        assert_non_null(lm);
    }
    assert_null(rush_lm_feed(lm, (int32_t[]){1}, 1));
    assert_non_null(strstr(rush_error(), "a language model"));
    rush_error_clear();
    assert_int_equal(rush_lm_draw(lm, (float[]){0}, NULL), -1);
    assert_non_null(rush_error());
    rush_error_clear();
}

static void wrong_models_are_errors(void **state)
{
    rush_scope() {
        write_model("llama", "F32");
        rush_state s = rush_gguf_load(path);
        assert_true(s.n > 0);
        for (int i = 0; i < s.n; i += suite_failing() ? 7 : 1)
            rush_scope() { /* one missing, one of another size */
                rush_tensor *kept = s.tensor[i], *all[64];
                const char *names[64];
                int n = 0;
                for (int k = 0; k < s.n; k++)
                    if (k != i) all[n] = s.tensor[k], names[n++] = s.name[k];
                assert_int_equal(rush_gguf_save(path, (rush_state){n, names, all}, about("llama"), NULL), 0);
                assert_null(rush_lm_load(path, 0));
                assert_non_null(rush_error());
                rush_error_clear();
                s.tensor[i] = T("narrow", V(kept), V(0), V(0), V(i ? kept->size[0] - 1 : 3));
                assert_int_equal(rush_gguf_save(path, s, about("llama"), NULL), 0);
                s.tensor[i] = kept;
                assert_null(rush_lm_load(path, 0));
                assert_non_null(rush_error());
                rush_error_clear();
            }
        static const struct { const char *key; int64_t n; } sizes[] = {{"llama.block_count", 0}, {"llama.block_count", 3}, {"llama.embedding_length", -64}, {"llama.attention.head_count", 3},
                                                                       {"llama.attention.head_count", 1 << 20}, {"llama.rope.dimension_count", 15}, {"llama.expert_count", 8},
                                                                       {"tokenizer.ggml.tokens", 1}, {"tokenizer.ggml.scores", 1}, {"general.architecture", 1}, {"tokenizer.ggml.model", 0}};
        for (size_t i = 0; i < RUSH_COUNT(sizes); i++)
            rush_scope() {
                rush_content *d = about("llama");
                rush_content_set(d, sizes[i].key, rush_content_int(sizes[i].n));
                assert_int_equal(rush_gguf_save(path, s, d, NULL), 0);
                if (rush_lm_load(path, 0)) fail_msg("%s = %lld is taken", sizes[i].key, (long long)sizes[i].n);
                assert_non_null(rush_error());
                rush_error_clear();
            }
        assert_int_equal(rush_gguf_save(path, s, about("llama"), NULL), 0);
        rush_lm *lm = rush_lm_load(path, 64);
        assert_non_null(lm);
        int32_t many[65] = {0};
        assert_null(rush_lm_feed(lm, many, 65));
        rush_error_clear();
        assert_null(rush_lm_feed(lm, (int32_t[]){WORDS}, 1));
        rush_error_clear();
        assert_null(rush_lm_feed(lm, many, 0));
        rush_error_clear();
        assert_int_equal(rush_lm_rewind(lm, 1), -1);
        rush_error_clear();
        assert_null(rush_lm_feed(NULL, many, 1));
        rush_error_clear();
        assert_null(rush_lm_load_with(path, &(rush_lm_options){.cache = "int4"}));
        assert_non_null(strstr(rush_error(), "int8"));
        rush_error_clear();
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_every_block), cmocka_unit_test(products_of_the_same_rows), cmocka_unit_test(a_row_among_few_is_the_row_alone), cmocka_unit_test(products_of_numbers), cmocka_unit_test(a_large_file_is_held_in_memory), cmocka_unit_test(logits_are_those_of_operations), cmocka_unit_test(sentence_pieces),
        cmocka_unit_test(as_llama_cpp_does), cmocka_unit_test(tokens_are_drawn_as_multinomial_does), cmocka_unit_test(penalties_and_biases_change_what_is_drawn),
        cmocka_unit_test(scores_are_those_of_what_it_says), cmocka_unit_test(a_model_ends_with_its_scope),
        cmocka_unit_test(wrong_models_are_errors), cmocka_unit_test(a_draft_changes_no_text), cmocka_unit_test(a_draft_changes_no_chances), cmocka_unit_test(wrong_drafts_are_errors)};
    snprintf(path, sizeof path, "/tmp/rushlight-lm-%d.gguf", (int)getpid());
    snprintf(small_path, sizeof small_path, "/tmp/rushlight-lm-%d-small.gguf", (int)getpid());
    int failed = SUITE(tests);
    unlink(path);
    unlink(small_path);
    return failed;
}
