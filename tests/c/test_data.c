/* test_data.c - loaders, folders of pictures, sound, tokenisers, event files. */
#include "suite/suite.h"
#include <rushlight.h>

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEST(name) static void name(void **state)

static char folder[64];

/* What the library does not park goes when the test ends, however it ends. */
static void give_up_dataset(void *d) { rush_dataset_drop(d); }
static void give_up_loader(void *l) { rush_loader_free(l); }
static void give_up_tokenizer(void *t) { rush_tokenizer_free(t); }
static void give_up_summary(void *s) { rush_summary_close(s); }
static rush_dataset *dataset(rush_dataset *d) { return suite_after(give_up_dataset, d), d; }
static rush_loader *loader(rush_loader *l) { return suite_after(give_up_loader, l), l; }
static rush_tokenizer *tokenizer(rush_tokenizer *t) { return suite_after(give_up_tokenizer, t), t; }
static rush_summary *summary(rush_summary *s) { return suite_after(give_up_summary, s), s; }

static int close_summary(rush_summary *s)
{
    suite_forget(s);
    return rush_summary_close(s);
}

static void no_error(void)
{
    if (rush_error()) print_message("%s\n", rush_error());
    assert_null(rush_error());
}

static const char *place(const char *name)
{
    static char path[4][256];
    static int k;
    k = (k + 1) % 4;
    snprintf(path[k], sizeof path[k], "%s/%s", folder, name);
    return path[k];
}

static bool same(rush_tensor *a, rush_tensor *b)
{
    no_error();
    if (!a || !b || rush_ndim(a) != rush_ndim(b) || rush_numel(a) != rush_numel(b)) return false;
    for (int d = 0; d < rush_ndim(a); d++)
        if (rush_size(a, d) != rush_size(b, d)) return false;
    return rush_item(rush_all(rush_eq(a, b)));
}

/* ---- loaders ---- */

/* The samples that a loader over 0..n-1 gives in an epoch. */
static int64_t epoch(rush_loader *l, int64_t *got)
{
    int64_t n = 0;
    int more = 1;
    for (rush_tensor *batch[2]; (more = rush_loader_next(l, batch)) > 0;)
        rush_scope() {
            const int64_t *x = rush_data(batch[0]);
            for (int64_t i = 0; i < rush_size(batch[0], 0); i++) got[n++] = x[i];
        }
    no_error();
    assert_int_equal(more, 0);
    return n;
}

TEST(loader_keeps_pytorchs_order)
{
    /* DataLoader(range(10), 4, shuffle=True) after torch.manual_seed(0) in PyTorch 2.13, two epochs */
    static const int64_t wanted[2][10] = {{6, 7, 1, 4, 2, 0, 9, 8, 3, 5}, {2, 4, 7, 0, 8, 9, 5, 3, 6, 1}};
    rush_dataset *d = dataset(rush_dataset_tensors(1, (rush_tensor *[]){rush_arange(10)}));
    for (int threads = 0; threads <= 3; threads++) {
        rush_loader *l = loader(rush_loader_new(d, .batch = 4, .shuffle = true, .threads = threads));
        rush_manual_seed(0);
        assert_int_equal(rush_loader_batches(l), 3);
        for (int e = 0; e < 2; e++) {
            int64_t got[10];
            assert_int_equal(epoch(l, got), 10);
            assert_memory_equal(got, wanted[e], sizeof got);
        }
    }
}

TEST(loader_shares_and_drops)
{
    rush_dataset *d = dataset(rush_dataset_tensors(1, (rush_tensor *[]){rush_arange(10)}));
    int64_t got[10];
    rush_loader *l = loader(rush_loader_new(d, .batch = 2, .shares = 3, .share = 1));
    assert_int_equal(epoch(l, got), 4);
    assert_memory_equal(got, ((int64_t[]){1, 4, 7, 0}), 32);
    l = loader(rush_loader_new(d, .batch = 4, .drop_last = true, .threads = 2));
    assert_int_equal(epoch(l, got), 8);
}

static int odd_one(void *arg, int64_t index, rush_tensor **sample)
{
    if (index == 7) return rush_fail(RUSH_VALUE_ERROR, "seven is bad");
    sample[0] = rush_from_data(&index, RUSH_I64, 0, NULL);
    return sample[0] ? 0 : -1;
}

TEST(loader_names_the_sample_that_failed)
{
    static const rush_dataset_kind kind = {.name = "odd", .read = odd_one};
    rush_dataset *d = dataset(rush_dataset_new(&kind, NULL, 20, 1));
    for (int threads = 0; threads <= 2; threads++) {
        rush_loader *l = loader(rush_loader_new(d, .batch = 3, .threads = threads));
        rush_tensor *batch[1];
        assert_int_equal(rush_loader_next(l, batch), 1);
        assert_int_equal(rush_loader_next(l, batch), 1);
        assert_int_equal(rush_loader_next(l, batch), -1);
        assert_non_null(strstr(rush_error(), "batch 2, sample 7"));
        assert_non_null(strstr(rush_error(), "seven is bad"));
        rush_error_clear();
    }
}

static int first_only(void *arg, int64_t index, rush_tensor **sample) { return (sample[0] = rush_zeros(RUSH_INTS(1))) ? 0 : -1; }
static int taken_away(void *arg, int columns, rush_tensor **batch) { return batch[0] = NULL, 0; }

TEST(loader_gives_all_columns_or_an_error)
{
    static const rush_dataset_kind kind = {.name = "first only", .read = first_only};
    rush_tensor *x[2] = {rush_zeros(RUSH_INTS(1)), rush_zeros(RUSH_INTS(1))};
    for (int columns = 1; columns <= 2; columns++) {
        rush_dataset *d = dataset(rush_dataset_new(&kind, NULL, INT64_MAX, columns));
        rush_loader *l = loader(rush_loader_new(d, .batch = 3, .transform = columns == 1 ? taken_away : NULL));
        assert_int_equal(rush_loader_batches(l), INT64_MAX / 3 + 1);
        assert_int_equal(rush_loader_next(l, x), -1);
        assert_non_null(strstr(rush_error(), columns == 1 ? "no tensor for column 0" : "no tensor for column 1"));
        rush_error_clear();
        assert_int_equal(rush_dataset_read(d, 0, x), columns == 1 ? 0 : -1);
        rush_error_clear();
    }
}

static int doubled(void *arg, int columns, rush_tensor **batch)
{
    batch[0] = rush_mul(batch[0], 2);
    ++*(atomic_int *)arg;
    return batch[0] ? 0 : -1;
}

TEST(loader_of_npy_files)
{
    static atomic_int calls; /* the loader may still add to it when the test has ended */
    calls = 0;
    rush_tensor *x = rush_reshape(rush_arange(12), RUSH_INTS(6, 2)), *y = rush_arange(6);
    assert_int_equal(rush_npy_save(place("x.npy"), x) | rush_npy_save(place("y.npy"), y), 0);
    rush_dataset *d = dataset(rush_dataset_npy(2, (const char *[]){place("x.npy"), place("y.npy")}));
    no_error();
    assert_int_equal(rush_dataset_size(d), 6);
    rush_loader *l = loader(rush_loader_new(d, .batch = 6, .threads = 1, .transform = doubled, .transform_arg = &calls));
    rush_tensor *batch[2];
    assert_int_equal(rush_loader_next(l, batch), 1);
    assert_true(same(batch[0], rush_mul(x, 2)));
    assert_true(same(batch[1], y));
    assert_int_equal(calls, 1);
    assert_null(rush_dataset_npy(1, (const char *[]){place("none.npy")}));
    assert_non_null(strstr(rush_error(), "none.npy"));
}

TEST(loader_of_pictures)
{
    mkdir(place("pictures"), 0777);
    for (int k = 0; k < 4; k++) {
        char name[64];
        snprintf(name, sizeof name, "pictures/%s", k % 2 ? "dogs" : "cats");
        mkdir(place(name), 0777);
        snprintf(name, sizeof name, "pictures/%s/%d.%s", k % 2 ? "dogs" : "cats", k, k < 2 ? "png" : "jpg");
        rush_tensor *t = rush_full(RUSH_INTS(3, 8, 10), k * 40, .dtype = rush_v_dtype(RUSH_U8));
        assert_int_equal(rush_picture_save(place(name), t), 0);
    }
    rush_dataset *d = dataset(rush_dataset_images(place("pictures"), .height = 6, .width = 6, .bytes = true));
    no_error();
    assert_int_equal(rush_dataset_size(d), 4);
    assert_int_equal(rush_dataset_classes(d), 2);
    assert_string_equal(rush_dataset_class_name(d, 1), "dogs");
    rush_loader *l = loader(rush_loader_new(d, .batch = 4, .threads = 2));
    rush_tensor *batch[2];
    assert_int_equal(rush_loader_next(l, batch), 1);
    assert_int_equal(rush_size(batch[0], 2), 6);
    assert_true(same(batch[1], rush_from_data((int64_t[]){0, 0, 1, 1}, RUSH_I64, 1, (int64_t[]){4})));
    const uint8_t *p = rush_data(batch[0]);
    static const int wanted[4] = {0, 80, 40, 120};
    for (int k = 0; k < 4; k++) assert_in_range(p[k * 108], wanted[k] ? wanted[k] - 2 : 0, wanted[k] + 2);
}

/* ---- pictures, sound ---- */

TEST(pictures_come_back)
{
    rush_tensor *t = rush_to(rush_mul(rush_rand(RUSH_INTS(3, 9, 7)), 255), rush_v_dtype(RUSH_U8)), *bytes = rush_png_encode(t, 6);
    no_error();
    assert_true(same(rush_picture_decode(rush_data(bytes), (size_t)rush_numel(bytes), RUSH_PICTURE_UNCHANGED), t));
    rush_tensor *gray = rush_picture_decode(rush_data(bytes), (size_t)rush_numel(bytes), RUSH_PICTURE_GRAY_ALPHA);
    assert_int_equal(rush_size(gray, 0), 2);
    rush_tensor *jpeg = rush_jpeg_encode(t, 90);
    assert_int_equal(rush_size(rush_picture_decode(rush_data(jpeg), (size_t)rush_numel(jpeg), RUSH_PICTURE_RGB), 0), 3);
    /* every truncation is an error, none a crash */
    for (rush_tensor **b = (rush_tensor *[]){bytes, jpeg, NULL}; *b; b++)
        for (int64_t n = 0; n < rush_numel(*b) - 12; n += suite_failing() ? 101 : 3) {
            assert_null(rush_picture_decode(rush_data(*b), (size_t)n, RUSH_PICTURE_RGB));
            assert_non_null(rush_error());
            rush_error_clear();
        }
}

/* Every byte of a file changed in turn: another picture, other sound or an error, never a crash. */
TEST(changed_bytes_are_survived)
{
    rush_tensor *t = rush_to(rush_mul(rush_rand(RUSH_INTS(3, 9, 7)), 255), rush_v_dtype(RUSH_U8)), *sound = rush_rand(RUSH_INTS(1, 200));
    rush_tensor *files[] = {rush_png_encode(t, 6), rush_jpeg_encode(t, 90), rush_sound_encode(sound, 8000, "wav"), rush_sound_encode(sound, 8000, "flac")};
    for (int k = 0; k < 4; k++) {
        if (rush_error_kind_now() == RUSH_NOT_IMPLEMENTED) skip(); /* a build without one of the libraries */
        uint8_t *p = rush_data(files[k]);
        size_t n = (size_t)rush_numel(files[k]);
        for (size_t i = 0; i < n; i += suite_failing() ? 41 : 1)
            for (int change = 0; change < 3; change++)
                rush_scope() {
                    uint8_t was = p[i];
                    int rate;
                    p[i] ^= ((uint8_t[]){0x01, 0x80, 0xff})[change];
                    rush_tensor *got = k < 2 ? rush_picture_decode(p, n, RUSH_PICTURE_RGB) : rush_sound_decode(p, n, &rate);
                    assert_true(got || rush_error());
                    rush_error_clear();
                    p[i] = was;
                }
    }
}

TEST(sound_comes_back)
{
    rush_tensor *t = rush_mul(rush_sin(rush_reshape(rush_div(rush_arange(2000), 20), RUSH_INTS(2, 1000))), 0.5);
    for (const char **format = (const char *[]){"wav", "flac", NULL}; *format; format++) {
        rush_tensor *bytes = rush_sound_encode(t, 8000, *format);
        if (rush_error_kind_now() == RUSH_NOT_IMPLEMENTED) skip(); /* a build without libsndfile */
        int rate = 0;
        rush_tensor *back = rush_sound_decode(rush_data(bytes), (size_t)rush_numel(bytes), &rate);
        no_error();
        assert_int_equal(rate, 8000);
        assert_int_equal(rush_size(back, 1), 1000);
        assert_true(rush_item(rush_amax(rush_abs(rush_sub(back, t)))) < 1e-5);
        for (int64_t n = 0; n < rush_numel(bytes); n += 97) { /* what is cut short is shorter, or an error */
            back = rush_sound_decode(rush_data(bytes), (size_t)n, &rate);
            assert_true(back ? rush_size(back, 1) <= 1000 : rush_error() != NULL);
            rush_error_clear();
        }
    }
}

/* ---- text ---- */

static void check_round_trip(rush_tokenizer *t, const char *text, int64_t tokens)
{
    char buf[256];
    rush_tensor *w = rush_tokenizer_encode(t, text, strlen(text));
    no_error();
    assert_int_equal(rush_numel(w), tokens);
    assert_int_equal(rush_tokenizer_decode(t, w, buf, sizeof buf), (int64_t)strlen(text));
    assert_string_equal(buf, text);
}

TEST(characters)
{
    const char *text = "na\xc3\xafve \xe2\x82\xac";
    rush_tokenizer *t = tokenizer(rush_tokenizer_characters(text, strlen(text)));
    assert_int_equal(rush_tokenizer_size(t), 7);
    check_round_trip(t, text, 7);
    assert_null(rush_tokenizer_encode(t, "x", 1));
    assert_non_null(strstr(rush_error(), "U+0078"));
}

TEST(byte_pairs)
{
    const char *text = "low low low low low lower lower newest newest newest newest newest newest widest widest widest";
    rush_tokenizer *t = tokenizer(rush_tokenizer_learn(text, strlen(text), 270));
    no_error();
    check_round_trip(t, " newest", 1);
    check_round_trip(t, "\xff odd  bytes\n", 12);
    assert_int_equal(rush_tokenizer_decode(t, rush_from_ints(RUSH_INTS('a', 'b')), NULL, 9), 2);
    assert_int_equal(rush_tokenizer_decode(t, rush_from_floats(RUSH_FLOATS('a')), NULL, 0), -1);
    rush_error_clear();
    assert_int_equal(rush_tokenizer_save(t, place("merges.txt")), 0);
    rush_tokenizer *again = tokenizer(rush_tokenizer_load(place("merges.txt"), NULL));
    no_error();
    assert_int_equal(rush_tokenizer_size(again), rush_tokenizer_size(t));
    check_round_trip(again, " newest", 1);
}

static void write_text(const char *name, const char *text)
{
    FILE *f = fopen(place(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
}

/* vocab.json numbers the bytes downwards and names one token that nothing becomes; a merge may begin with '#'. */
TEST(files_of_gpt2)
{
    char vocabulary[8192];
    int at = 1;
    strcpy(vocabulary, "{");
    for (int i = 0, hidden = 0; i < 256; i++) {
        bool shown = (i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174;
        at += sprintf(vocabulary + at, "\"\\u%04x\": %d, ", shown ? i : 256 + hidden, 255 - i);
        hidden += !shown;
    }
    strcpy(vocabulary + at, "\"##\": 300, \"##a\": 256, \"\\u0120##\": 257, \"\\u00c3\\u00a9\": 258, \"<|end|>\": 259}");
    write_text("vocab.json", vocabulary);
    char path[512];
    snprintf(path, sizeof path, "%s", place("vocab.json"));
    write_text("merges.txt", "#version: 0.2\n# #\n## a\n\xc4\xa0 ##\n\xc3\x83 \xc2\xa9\n");
    rush_tokenizer *t = tokenizer(rush_tokenizer_load(place("merges.txt"), path));
    no_error();
    assert_int_equal(rush_tokenizer_size(t), 301);
    static const int64_t wanted[] = {300, 255 - 'a', 257, 255 - '<', 258, 255 - 0xe2, 255 - 0x80, 255 - 0x94}; /* letters and signs are words of their own */
    rush_tensor *got = rush_tokenizer_encode(t, "##a ##<\xc3\xa9\xe2\x80\x94", 12);
    no_error();
    assert_int_equal(rush_numel(got), sizeof wanted / sizeof *wanted);
    assert_memory_equal(rush_data(got), wanted, sizeof wanted);
    char buf[16];
    assert_int_equal(rush_tokenizer_decode(t, rush_from_data((int64_t[]){259, 299}, RUSH_I64, 1, (int64_t[]){2}), buf, sizeof buf), 7);
    assert_string_equal(buf, "<|end|>");
    for (int wrong = 0; wrong < 3; wrong++) {
        write_text("merges.txt", (const char *[]){"a b\n", "a\n", "# #\n\xe4\xbd\xa0 a\n"}[wrong]);
        assert_null(rush_tokenizer_load(place("merges.txt"), path));
        assert_non_null(strstr(rush_error(), wrong == 2 ? "line 2" : "line 1"));
        rush_error_clear();
    }
}

/* ---- event files ---- */

TEST(event_file_has_the_bytes_of_the_format)
{
    /* one event: wall 1.5, step 7, tag loss, value 0.25 */
    static const uint8_t wanted[] = {0x09, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0x10, 7, 0x2a, 13, 10, 11, 10, 4, 'l', 'o', 's', 's', 0x15, 0, 0, 0x80, 0x3e};
    rush_summary *s = summary(rush_summary_open(place("events"), NULL));
    no_error();
    char path[512];
    snprintf(path, sizeof path, "%s", rush_summary_path(s));
    rush_summary_time(s, 1.5);
    assert_int_equal(rush_summary_scalar(s, "loss", 0.25, 7), 0);
    assert_int_equal(close_summary(s), 0);
    FILE *f = fopen(path, "rb");
    uint8_t got[512];
    size_t n = fread(got, 1, sizeof got, f);
    fclose(f);
    assert_true(n > sizeof wanted + 16);
    const uint8_t *record = got + n - sizeof wanted - 16;
    assert_memory_equal(record, ((uint8_t[]){sizeof wanted, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x9b, 0xd8, 0x2d}), 12);
    assert_memory_equal(record + 12, wanted, sizeof wanted);
    assert_memory_equal(record + 12 + sizeof wanted, ((uint8_t[]){0xc9, 0xd0, 0x7b, 0x8d}), 4);
}

TEST(summary_takes_everything)
{
    rush_summary *s = summary(rush_summary_open(place("events"), ".more"));
    rush_tensor *x = rush_rand(RUSH_INTS(4, 3, 6, 5)), *y = rush_from_data((float[]){0, 1, 1}, RUSH_F32, 1, (int64_t[]){3});
    rush_module *net = rush_nn_sequential(rush_nn_linear(5, 4), rush_nn_relu(), rush_nn_linear(4, 2));
    rush_tensor *out = rush_sum(rush_forward(net, x));
    assert_int_equal(rush_summary_histogram(s, "h", x, 1), 0);
    assert_int_equal(rush_summary_image(s, "grid", x, 1), 0);
    assert_int_equal(rush_summary_text(s, "t", "*so*", 1), 0);
    assert_int_equal(rush_summary_tensor(s, "x", x, 1), 0);
    assert_int_equal(rush_summary_audio(s, "a", y, 8000, 1), 0);
    assert_int_equal(rush_summary_pr_curve(s, "pr", y, y, NULL, 0, 1), 0);
    assert_int_equal(rush_summary_module(s, net), 0);
    assert_int_equal(rush_summary_graph(s, out), 0);
    assert_int_equal(rush_summary_embedding(s, "e", rush_reshape(x, RUSH_INTS(4, -1)), (const char *[]){"a", "b", "c", "d"}, x, 0), 0);
    assert_int_equal(rush_summary_hparams(s, 2, (rush_hparam[]){{"lr", .number = 0.1}, {"how", .text = "adam"}}, 1, (rush_hparam[]){{"acc", .number = 1}}, 0), 0);
    char dot[4096];
    assert_true(rush_graph_dot(out, dot, sizeof dot) > 0);
    assert_non_null(strstr(dot, "ReluBackward0"));
    assert_int_equal(rush_graph_dot(out, NULL, 9), strlen(dot));
    assert_int_equal(rush_summary_scalar(s, "\xff", 1, 1), -1); /* TensorBoard could not read the file */
    rush_error_clear();
    assert_int_equal(rush_summary_histogram(s, "none", rush_zeros(RUSH_INTS(0)), 1), -1);
    rush_error_clear();
    assert_int_equal(close_summary(s), 0);
    no_error();
    assert_null(rush_summary_open("/dev/null/runs", NULL));
}

/* ---- operations on pictures and sound: numbers of torchvision and torchaudio ---- */

TEST(vision_and_sound_operations)
{
    rush_tensor *x = rush_reshape(rush_div(rush_arange(48), 47.0), RUSH_INTS(3, 4, 4));
    assert_int_equal(rush_size(rush_vision_resize(x, RUSH_INTS(2, 3)), 2), 3);
    assert_true(same(rush_vision_crop(x, 1, 1, 2, 2), rush_narrow(rush_narrow(x, 1, 1, 2), 2, 1, 2)));
    assert_int_equal(rush_size(rush_vision_crop(x, -1, 2, 9, 5), 1), 9);
    assert_true(fabs(rush_item(rush_mean(rush_vision_adjust_hue(x, 0.5))) - rush_item(rush_mean(x))) < 0.2);
    assert_int_equal(rush_size(rush_vision_rgb_to_grayscale(x), 0), 1);
    assert_int_equal(rush_size(rush_audio_mfcc(rush_sin(rush_arange(4000)), .sample_rate = 16000, .n_mels = 40, .n_mfcc = 13), 0), 13);
    no_error();
}

int main(int argc, char **argv)
{
    const char *temporary = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.30s/rushlight-data-XXXXXX", temporary ? temporary : P_tmpdir);
    if (!mkdtemp(folder)) return 1;
    const struct CMUnitTest tests[] = {
#define UNIT(f) cmocka_unit_test(f)
        UNIT(loader_keeps_pytorchs_order), UNIT(loader_shares_and_drops), UNIT(loader_names_the_sample_that_failed), UNIT(loader_gives_all_columns_or_an_error),
        UNIT(loader_of_npy_files), UNIT(loader_of_pictures), UNIT(pictures_come_back), UNIT(changed_bytes_are_survived), UNIT(sound_comes_back),
        UNIT(characters), UNIT(byte_pairs), UNIT(files_of_gpt2), UNIT(event_file_has_the_bytes_of_the_format), UNIT(summary_takes_everything),
        UNIT(vision_and_sound_operations),
    };
    int failed = SUITE(tests);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) || failed;
}
