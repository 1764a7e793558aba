/* test_base.c - memory, errors, threads, dtypes, conversions and the generator's saved form. */
#define _GNU_SOURCE
#include "suite/suite.h"
#include "base/base.h"
#include "base/json.h"
#include "base/utf8.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- memory ---- */

static void small_blocks_come_back(void **state)
{
    rush_memory_stats before, after;
    rush_memory_stats_read(&before);
    void *p[3000];
    for (int i = 0; i < 3000; i++) {
        size_t size = (size_t)(i * 7 % 700) + 1;
        p[i] = rush_small_alloc(size);
        if (p[i]) memset(p[i], i, size);
    }
    int right = 0;
    for (int i = 0; i < 3000; i++) {
        size_t size = (size_t)(i * 7 % 700) + 1;
        unsigned char *c = p[i];
        right += c && c[0] == (unsigned char)i && c[size - 1] == (unsigned char)i;
        rush_small_free(c, size);
    }
    assert_int_equal(right, 3000);
    rush_memory_stats_read(&after);
    assert_int_equal(before.small_live, after.small_live);
}

static void blocks_are_aligned_and_large_enough(void **state)
{
    rush_memory_stats before, after;
    rush_memory_stats_read(&before);
    for (size_t size = 0; size < (size_t)64 << 20; size = size * 3 / 2 + 1) {
        size_t got;
        char *p = rush_block_alloc(size, &got);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        assert_true(got >= size && (size < 256 || got <= size + size / 4 + 64));
        if (size) p[0] = p[size - 1] = 1;
        rush_block_free(p, got);
    }
    rush_memory_stats_read(&after);
    assert_int_equal(before.live_bytes, after.live_bytes);
    assert_int_equal(before.live_blocks, after.live_blocks);
    assert_true(after.peak_bytes >= (size_t)16 << 20);
    rush_memory_trim();
    rush_memory_stats_read(&after);
    assert_int_equal(after.cached_bytes, 0);
}

static void cache_is_bounded_and_reused(void **state)
{
    size_t got;
    rush_memory_stats s;
    void *p = rush_block_alloc(1 << 20, &got);
    rush_block_free(p, got);
    void *again = rush_block_alloc(1 << 20, &got);
    bool reused = again == p;
    rush_block_free(again, got);
#if !defined(__SANITIZE_ADDRESS__) /* under which nothing is cached */
    assert_true(reused);
#endif
    (void)reused;
    rush_memory_limit_cache((size_t)2 << 20);
    void *many[8];
    for (int i = 0; i < 8; i++) many[i] = rush_block_alloc(1 << 20, &got);
    for (int i = 0; i < 8; i++) rush_block_free(many[i], got);
    rush_memory_stats_read(&s);
    assert_true(s.cached_bytes <= (size_t)2 << 20);
    rush_memory_limit_cache((size_t)256 << 20);
}

static void larger_blocks_for_threads_that_take_them(void **state)
{
    size_t got, got_again, got_exact;
    if (suite_failing()) return;
    rush_memory_trim();
    void *p = rush_block_alloc((size_t)1 << 20, &got);
    rush_block_free(p, got);
    rush_memory_wide(true);
    void *again = rush_block_alloc((size_t)300 << 10, &got_again);
    rush_memory_wide(false);
    bool reused = again == p && got_again == got;
    rush_block_free(again, got_again);
    rush_block_free(rush_block_alloc((size_t)300 << 10, &got_exact), got_exact);
    assert_true(got_exact < (size_t)400 << 10);
#if !defined(__SANITIZE_ADDRESS__) /* under which nothing is cached */
    assert_true(reused);
#endif
    (void)reused;
}

static void *free_all_of(void *arg)
{
    void **p = arg;
    for (int i = 0; i < 10000; i++) rush_small_free(p[i], 96);
    return NULL;
}

static void other_threads_may_free(void **state)
{
    static void *p[10000];
    rush_memory_stats before, after;
    rush_memory_stats_read(&before);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 10000; i++) p[i] = rush_small_alloc(96);
        pthread_t t;
        pthread_create(&t, NULL, free_all_of, p);
        pthread_join(t, NULL);
    }
    rush_memory_stats_read(&after);
    assert_int_equal(before.small_live, after.small_live);
}

#if !defined(__SANITIZE_ADDRESS__) /* under which threads keep nothing */
enum { CROWD = 64, SET = 200 };
static struct { void *block[SET], *small[SET]; size_t got; sem_t freed; pthread_barrier_t end; } crowd;

static void *free_one_set(void *arg)
{
    for (int i = 0; i < SET; i++) rush_block_free(crowd.block[i], crowd.got), rush_small_free(crowd.small[i], 96);
    sem_post(&crowd.freed);
    pthread_barrier_wait(&crowd.end);
    return NULL;
}

static int by_address(const void *a, const void *b) { return (*(char *const *)a > *(char *const *)b) - (*(char *const *)a < *(char *const *)b); }

static int count_different(void **p, int n)
{
    int different = n > 0;
    qsort(p, (size_t)n, sizeof *p, by_address);
    for (int i = 1; i < n; i++) different += p[i] != p[i - 1];
    return different;
}

/* Each of many threads frees what another one needs again: what they keep of it is bounded for all together. */
static void many_threads_keep_little(void **state)
{
    static void *blocks[CROWD * SET], *smalls[CROWD * SET];
    pthread_t t[CROWD];
    if (suite_failing()) return;
    sem_init(&crowd.freed, 0, 0);
    pthread_barrier_init(&crowd.end, NULL, CROWD + 1);
    for (int k = 0; k < CROWD; k++) {
        for (int i = 0; i < SET; i++) {
            blocks[k * SET + i] = crowd.block[i] = rush_block_alloc(4096, &crowd.got);
            smalls[k * SET + i] = crowd.small[i] = rush_small_alloc(96);
        }
        pthread_create(&t[k], NULL, free_one_set, NULL);
        sem_wait(&crowd.freed);
    }
    pthread_barrier_wait(&crowd.end);
    for (int k = 0; k < CROWD; k++) pthread_join(t[k], NULL);
    pthread_barrier_destroy(&crowd.end);
    assert_in_range(count_different(blocks, CROWD * SET), SET, SET + CROWD * 8);
    assert_in_range(count_different(smalls, CROWD * SET), SET, SET + CROWD * 80);
}
#endif

static void every_kind_of_allocation_can_be_made_to_fail(void **state)
{
    size_t got;
    for (int kind = 0; kind < 4; kind++) {
        rush_memory_fail_at(1, false);
        void *p = kind == 0 ? rush_small_alloc(32) : kind == 1 ? rush_malloc(32) : kind == 2 ? rush_calloc(4, 8)
                                                                 : rush_block_alloc(32, &got);
        assert_null(p);
        assert_int_equal(rush_error_kind_now(), RUSH_MEMORY_ERROR);
        rush_error_clear();
        p = rush_malloc(8); /* only once */
        assert_non_null(p);
        rush_free(p);
        rush_memory_fail_at(0, false);
    }
    rush_memory_fail_at(2, true);
    void *first = rush_malloc(8);
    assert_non_null(first);
    assert_null(rush_malloc(8));
    assert_null(rush_malloc(8));
    rush_memory_fail_at(0, false);
    rush_error_clear();
    rush_free(first);
}

/* ---- errors ---- */

static void first_error_stays(void **state)
{
    assert_null(rush_error());
    assert_int_equal(rush_fail(RUSH_VALUE_ERROR, "size %d", 3), -1);
    rush_fail(RUSH_TYPE_ERROR, "later");
    assert_string_equal(rush_error(), "size 3");
    assert_int_equal(rush_error_kind_now(), RUSH_VALUE_ERROR);
    rush_error_state s = rush_error_take();
    assert_null(rush_error());
    rush_op op = {.base = "cumsum"};
    rush_now.op = &op;
    rush_fail(RUSH_INDEX_ERROR, "dim");
    rush_now.op = NULL;
    assert_string_equal(rush_error(), "cumsum: dim");
    rush_error_restore(s);
    assert_string_equal(rush_error(), "size 3");
    rush_error_clear();
}

/* ---- threads ---- */

static void add_up(void *arg, int64_t begin, int64_t end)
{
    _Atomic int64_t *sum = arg;
    int64_t s = 0;
    for (int64_t i = begin; i < end; i++) s += i;
    atomic_fetch_add(sum, s);
}

static void fail_inside(void *arg, int64_t begin, int64_t end)
{
    if (end == 100) rush_fail(RUSH_VALUE_ERROR, "from a piece");
}

static void loops_cover_everything_once(void **state)
{
    rush_num_threads_set(3);
    for (int64_t n = 0; n < 40; n++) {
        _Atomic int64_t sum = 0;
        rush_parallel_for(n, 4, add_up, &sum);
        assert_int_equal(sum, n * (n - 1) / 2);
    }
    rush_parallel_for(100, 1, fail_inside, NULL);
    assert_string_equal(rush_error(), "from a piece");
    rush_error_clear();
}

static void forked_child_works(void **state)
{
    _Atomic int64_t sum = 0;
    rush_parallel_for(1000, 1, add_up, &sum);
    pid_t child = fork();
    if (!child) {
        alarm(120);
        sum = 0;
        rush_parallel_for(1000, 1, add_up, &sum);
        _exit(sum == 499500 && rush_num_threads() == 1 ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
}

#ifdef _OPENMP
struct seen {
    int64_t begin[3];
    pthread_t by[3];
};

static void note_piece(void *arg, int64_t begin, int64_t end)
{
    struct seen *seen = arg;
    (void)end;
    seen->begin[rush_thread_number()] = begin;
    seen->by[rush_thread_number()] = pthread_self();
}

/* Three programs want the one processor that this one may use: loops run on the caller's thread, in the same pieces. */
static void loops_beside_other_programs(void **state)
{
    cpu_set_t all, one;
    pid_t other[3];
    bool alone = false;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int c = 0; c < CPU_SETSIZE && !CPU_COUNT(&one); c++)
        if (CPU_ISSET(c, &all)) CPU_SET(c, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    for (int i = 0; i < 3; i++)
        if (!(other[i] = fork()))
            for (alarm(60);;) {}
    rush_num_threads_set(3);
    time_t start = time(NULL);
    while (!alone && time(NULL) - start < 50) {
        struct seen seen = {{-1, -1, -1}, {0}};
        rush_parallel_for(30, 1, note_piece, &seen);
        for (int i = 0; i < 3; i++) assert_int_equal(seen.begin[i], 10 * i);
        alone = pthread_equal(seen.by[0], seen.by[1]) && pthread_equal(seen.by[0], seen.by[2]);
    }
    for (int i = 0; i < 3; i++) {
        kill(other[i], SIGKILL);
        waitpid(other[i], NULL, 0);
    }
    sched_setaffinity(0, sizeof all, &all);
    assert_true(alone);
}
#endif

/* ---- dtypes ---- */

static void promotion_is_symmetric(void **state)
{
    for (int a = 0; a < RUSH_DTYPES; a++)
        for (int b = 0; b < RUSH_DTYPES; b++) {
            rush_dtype x = rush_promote(a, b);
            bool failed = rush_error() != NULL;
            rush_error_clear();
            rush_dtype y = rush_promote(b, a);
            assert_int_equal(failed, rush_error() != NULL);
            rush_error_clear();
            if (!failed) assert_int_equal(x, y);
        }
    assert_int_equal(rush_promote(RUSH_U8, RUSH_I8), RUSH_I16);
    assert_int_equal(rush_promote(RUSH_F16, RUSH_BF16), RUSH_F32);
    assert_int_equal(rush_promote(RUSH_BF16, RUSH_C32), RUSH_C64);
    assert_int_equal(rush_promote(RUSH_F64, RUSH_C32), RUSH_C128);
    assert_int_equal(rush_promote(RUSH_I64, RUSH_F16), RUSH_F16);
    assert_int_equal(rush_dtype_from_name("half"), RUSH_F16);
    assert_int_equal(rush_dtype_from_name("float8_e5m2"), RUSH_F8E5M2);
    assert_int_equal(rush_dtype_from_name("nothing"), -1);
}

static void rows_of_dtypes_agree_with_themselves(void **state)
{
    for (int d = 0; d < RUSH_DTYPES; d++) {
        const rush_dtype_info *row = &rush_dtypes[d];
        char code[8];
        snprintf(code, sizeof code, "%c%d", row->category == 0 ? 'b' : row->category == 1 ? row->is_signed ? 'i' : 'u' : row->category == 2 ? 'f' : 'c', row->size);
        if (*row->npy) assert_string_equal(row->npy, code);
        assert_int_equal(*row->npy != 0, row->numpy >= 0 && d < RUSH_QINT8);
        assert_int_equal(*row->buffer != 0, *row->npy != 0);
        assert_int_equal(rush_dtype_from_name(row->name), d);
        for (int k = 0; k < d; k++) {
            assert_string_not_equal(row->word, rush_dtypes[k].word);
            assert_true(!row->onnx || row->onnx != rush_dtypes[k].onnx);
            assert_true(!row->safetensors || !rush_dtypes[k].safetensors || strcmp(row->safetensors, rush_dtypes[k].safetensors));
        }
    }
    assert_string_equal(rush_dtype_word(RUSH_DTYPES), "Undefined");
}

static void half_types_survive_the_way_there_and_back(void **state)
{
    for (unsigned h = 0; h < 65536; h++) {
        float f = rush_f16_to_f32((uint16_t)h);
        if (f == f) assert_int_equal(rush_f32_to_f16(f), h);
        float g = rush_bf16_to_f32((uint16_t)h);
        if (g == g) assert_int_equal(rush_f32_to_bf16(g), h);
    }
    assert_int_equal(rush_f32_to_f16(65519.0f), 0x7bff);
    assert_int_equal(rush_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(rush_f32_to_f16(0x1p-25f), 0);
    assert_int_equal(rush_f32_to_f16(0x1.8p-25f), 1);
}

static void eight_bit_floats_survive(void **state)
{
    for (int d = RUSH_F8E4M3FN; d <= RUSH_F8E8M0FNU; d++)
        for (int c = 0; c < 256; c++) {
            uint8_t in = (uint8_t)c, back;
            float f;
            rush_convert(&f, RUSH_F32, 4, &in, d, 1, 1);
            rush_convert(&back, d, 1, &f, RUSH_F32, 4, 1);
            if (f == f) assert_int_equal(back, in);
        }
    /* from PyTorch: the code of each of these in each type */
    static const float x[] = {2.9f, 465, 500, 1e-3f, 0x1.2p-10f, 61439, 61440, 248, INFINITY, -1e-20f};
    static const uint8_t want[5][10] = {
        {68, 126, 126, 1, 1, 126, 126, 120, 126, 128},
        {66, 95, 96, 20, 20, 123, 124, 92, 124, 128},
        {76, 128, 128, 1, 1, 128, 128, 128, 128, 0},
        {70, 99, 100, 24, 24, 127, 128, 96, 128, 0},
        {128, 136, 136, 117, 117, 143, 143, 135, 255, 60},
    };
    for (int d = 0; d < 5; d++)
        for (int i = 0; i < 10; i++) {
            uint8_t got;
            rush_convert(&got, RUSH_F8E4M3FN + d, 1, &x[i], RUSH_F32, 4, 1);
            assert_int_equal(got, want[d][i]);
        }
}

static void numbers_out_of_range_wrap_as_in_pytorch(void **state)
{
    double x[] = {300.7, -1.5, 3e9, -3e9, 1e19, NAN};
    uint8_t u8[6];
    int32_t i32[6];
    uint32_t u32[6];
    uint64_t u64[6];
    rush_convert(u8, RUSH_U8, 1, x, RUSH_F64, 8, 6);
    rush_convert(i32, RUSH_I32, 4, x, RUSH_F64, 8, 6);
    rush_convert(u32, RUSH_U32, 4, x, RUSH_F64, 8, 6);
    rush_convert(u64, RUSH_U64, 8, x, RUSH_F64, 8, 6);
    assert_int_equal(u8[0], 44);
    assert_int_equal(u8[1], 255);
    assert_int_equal(i32[2], INT32_MIN);
    assert_int_equal(i32[5], INT32_MIN);
    assert_int_equal(u32[2], 3000000000u);
    assert_int_equal(u32[3], 2147483648u);
    assert_true(u64[4] == 10000000000000000000u && u64[5] == 1ull << 63);
    float c[4] = {0, 1, 3, 4};
    int64_t i[2];
    bool b[2];
    rush_convert(i, RUSH_I64, 8, c, RUSH_C64, 8, 2);
    rush_convert(b, RUSH_BOOL, 1, c, RUSH_C64, 8, 2);
    assert_true(i[0] == 0 && i[1] == 3 && b[0] && b[1]);
}

/* ---- random bits ---- */

static void generator_goes_on_from_its_saved_state(void **state)
{
    rush_generator *g = rush_generator_new(5489), *h = rush_generator_new(0);
    if (!g || !h) {
        rush_generator_drop(g);
        rush_generator_drop(h);
        fail();
    }
    assert_int_equal(rush_random32(g), 3499211612u); /* the reference implementation's first word */
    for (int i = 0; i < 1000; i++) rush_random32(g);
    uint8_t bytes[RUSH_GENERATOR_STATE];
    rush_generator_state(g, bytes);
    assert_int_equal(rush_generator_state_set(h, bytes, sizeof bytes), 0);
    for (int i = 0; i < 2000; i++) assert_true(rush_random64(g) == rush_random64(h));
    assert_int_equal(rush_generator_state_set(h, bytes, 17), -1);
    rush_error_clear();
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(rush_generator_state_set(h, bytes, sizeof bytes), -1);
    rush_error_clear();
    rush_generator_drop(g);
    rush_generator_drop(h);
}

/* ---- JSON ---- */

static void json_is_what_the_rfc_says(void **state)
{
    static const char *const fine[] = {"0", " -0 ", "1.5e-3", "-12E+2", "9223372036854775808", "1e999", "null", "true", "[ ]", "{}", "[[],{\"a\":[]}]", "\"\\u00e9\\ud83d\\ude00\\/\\n\"",
                                       "\"\xc3\xa9 \xf0\x9f\x98\x80\"", "\t{\"a\" : 1 ,\"a\":[2, 3]}\r\n"};
    static const char *const wrong[] = {
        "", " ", "01", "-", "+1", ".5", "1.", "1e", "1e+", "0x1", "NaN", "Infinity", "nul", "True", "[1,]", "[,1]", "[1 2]", "[", "]", "{", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "{1:1}",
        "[}", "{]", "1 1", "[1]x", "\"", "\"\\", "\"a\nb\"", "\"\\x41\"", "\"\\u12\"", "\"\\u123g\"", "\"\\u0000\"", "\"\\ud83d\"", "\"\\ud83d\\u0041\"", "\"\\ude00\"", "\"\xff\"",
        "\"\xc0\x80\"", "\"\xe9\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xe0\x80\x80\"", "/* */1", "1 // one", "'a'"};
    for (size_t k = 0; k < RUSH_COUNT(fine); k++) {
        rush_json *x = rush_json_read(fine[k], strlen(fine[k]));
        if (!x) print_message("refused: %s\n", fine[k]);
        assert_non_null(x);
        rush_free(x);
    }
    for (size_t k = 0; k < RUSH_COUNT(wrong); k++) {
        rush_json *x = rush_json_read(wrong[k], strlen(wrong[k]));
        if (x) print_message("accepted: %s\n", wrong[k]);
        assert_null(x);
    }
    assert_null(rush_json_read("1\0", 2));
    assert_null(rush_json_read("\"a\0b\"", 5));
}

static void json_keeps_what_it_was_given(void **state)
{
    static const char text[] = "{\"i\": 9007199254740993, \"f\": -2.5, \"t\": \"\\u00e9\\ud83d\\ude00\\\\ \\\"\", \"l\": [true, null, {\"x\": false}], \"i\": 2, \"big\": 1e3}";
    rush_json *x = rush_json_read(text, sizeof text - 1), *again = rush_json_read(text, sizeof text - 1), *other = rush_json_read("{\"i\": 1}", 7);
    if (!x || !again) {
        rush_free(x);
        rush_free(again);
        fail();
    }
    assert_null(other); /* cut off by one */
    assert_int_equal(x->n, 6);
    assert_true(rush_json_get(x, "i")->i == INT64_C(9007199254740993) && rush_json_get(x, "f")->number == -2.5);
    assert_int_equal(rush_json_get(x, "big")->kind, RUSH_JSON_NUMBER);
    assert_string_equal(rush_json_text_of(x, "t"), "\xc3\xa9\xf0\x9f\x98\x80\\ \"");
    const rush_json *list = rush_json_get(x, "l");
    assert_int_equal(rush_json_count(list), 3);
    assert_true(rush_json_is_true(list->first) && rush_json_is_false(rush_json_get(list->first->next->next, "x")));
    assert_null(rush_json_get(rush_json_get(x, "nothing"), "there"));
    assert_true(rush_json_same(x, again) && !rush_json_same(list, rush_json_get(x, "t")) && !rush_json_same(list->first, list->first->next));
    rush_free(x);
    rush_free(again);

    char deep[4001], *written = NULL;
    for (int n = 1000; n <= 1001; n++) { /* as deep as may be, and one more */
        memset(deep, '[', (size_t)n), memset(deep + n, ']', (size_t)n);
        x = rush_json_read(deep, (size_t)n * 2);
        assert_true((x != NULL) == (n == 1000));
        rush_free(x);
    }
    size_t length;
    FILE *f = open_memstream(&written, &length);
    assert_non_null(f);
    rush_json_write_text(f, "a\"\\\n\x01\xc3\xa9");
    fclose(f);
    x = rush_json_read(written, length);
    free(written);
    assert_non_null(x);
    assert_string_equal(rush_json_text(x), "a\"\\\n\x01\xc3\xa9");
    rush_free(x);
}

static void letters_go_there_and_back(void **state)
{
    static const uint32_t edges[] = {1, 0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x10ffff};
    static const int bytes[] = {1, 1, 2, 2, 3, 3, 3, 3, 4, 4};
    for (size_t k = 0; k < RUSH_COUNT(edges); k++) {
        char to[5] = "";
        assert_int_equal(rush_utf8_put(to, edges[k]), bytes[k]);
        assert_int_equal(rush_utf8_length(to), bytes[k]);
    }
    assert_int_equal(rush_utf8_length(""), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_blocks_come_back),
        cmocka_unit_test(blocks_are_aligned_and_large_enough),
        cmocka_unit_test(cache_is_bounded_and_reused),
        cmocka_unit_test(larger_blocks_for_threads_that_take_them),
        cmocka_unit_test(other_threads_may_free),
#if !defined(__SANITIZE_ADDRESS__)
        cmocka_unit_test(many_threads_keep_little),
#endif
        cmocka_unit_test(every_kind_of_allocation_can_be_made_to_fail),
        cmocka_unit_test(first_error_stays),
        cmocka_unit_test(loops_cover_everything_once),
        cmocka_unit_test(forked_child_works),
#ifdef _OPENMP
        cmocka_unit_test(loops_beside_other_programs),
#endif
        cmocka_unit_test(promotion_is_symmetric),
        cmocka_unit_test(rows_of_dtypes_agree_with_themselves),
        cmocka_unit_test(half_types_survive_the_way_there_and_back),
        cmocka_unit_test(eight_bit_floats_survive),
        cmocka_unit_test(numbers_out_of_range_wrap_as_in_pytorch),
        cmocka_unit_test(generator_goes_on_from_its_saved_state),
        cmocka_unit_test(json_is_what_the_rfc_says),
        cmocka_unit_test(json_keeps_what_it_was_given),
        cmocka_unit_test(letters_go_there_and_back),
    };
    return SUITE(tests);
}
