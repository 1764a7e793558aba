/* Tokenisers of tokenizer.json: tokens of texts beside those of Hugging Face's package, which the files of tests/data/tokenizers hold; and files that are wrong. */
#include "suite/suite.h"
#include "base/json.h"
#include "data/tokenizer.h"

#include <stdio.h>
#include <unistd.h>

static char path[64];

static void give_up(void *t) { rush_tokenizer_free(t); }
static void give_up_json(void *json) { rush_free(json); }

static char *bytes_of(const char *name, size_t *n)
{
    char file[256];
    snprintf(file, sizeof file, RUSH_TEST_DATA "/tokenizers/%s.json", name);
    FILE *f = fopen(file, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    char *bytes = suite_alloc(*n + 1);
    assert_int_equal(fread(bytes, 1, *n, f), *n);
    bytes[*n] = 0;
    fclose(f);
    return bytes;
}

static rush_tokenizer *loaded(const char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
    return rush_tokenizer_load(path, NULL);
}

static void texts_are_cut_as_by_hugging_face(void **state)
{
    static const char *const names[] = {"gpt2", "llama3", "qwen2", "llama2", "first", "always"};
    for (size_t i = 0; i < RUSH_COUNT(names); i++) {
        size_t size;
        const char *bytes = bytes_of(names[i], &size);
        rush_json *json = rush_json_read(bytes, size);
        assert_non_null(json);
        suite_after(give_up_json, json);
        rush_tokenizer *t = loaded(bytes, size);
        if (!t) fail_msg("%s", rush_error());
        suite_after(give_up, t);
        int texts = 0;
        rush_json_each(pair, rush_json_get(json, "golden")) {
            const char *text = pair->first->text;
            rush_scope() {
                const rush_tensor *got = rush_tokenizer_encode(t, text, strlen(text));
                assert_non_null(got);
                const int64_t *token = rush_ptr(got);
                int64_t k = 0, count = (int64_t)rush_json_count(pair->first->next);
                rush_json_each(x, pair->first->next)
                    if (k >= got->numel || token[k++] != x->i) fail_msg("%s: '%s': token %lld is not %lld", names[i], text, (long long)k, (long long)x->i);
                assert_int_equal(got->numel, count);
                char back[4096];
                if (i == 0 && !strchr(text, '<')) {
                    assert_int_equal(rush_tokenizer_decode(t, got, back, sizeof back), strlen(text));
                    assert_string_equal(back, text);
                }
            }
            if (suite_failing() && texts > 3) break;
            texts++;
        }
        assert_true(texts > (suite_failing() ? 3 : 60));
    }
}

/* A file in which a text stands for another, once. */
static char *changed(const char *name, const char *from, const char *to, size_t *n)
{
    char *bytes = bytes_of(name, n), *at = strstr(bytes, from);
    if (!at) fail_msg("%s has no %s", name, from);
    char *made = suite_alloc(*n + strlen(to) + 1);
    size_t before = (size_t)(at - bytes);
    memcpy(made, bytes, before);
    strcpy(made + before, to);
    strcat(made, at + strlen(from));
    *n += strlen(to) - strlen(from);
    return made;
}

static void wrong_files_are_errors(void **state)
{
    static const struct { const char *name, *from, *to, *says; } cases[] = {
        {"gpt2", "{", "{{", "no JSON"}, {"gpt2", "\"model\"", "\"modal\"", "byte pairs"}, {"gpt2", "\"merges\":[", "\"merges\":[\"zzz zz\",", "merge 0"},
        {"gpt2", "\"merges\":[", "\"merges\":[7,", "merge 0"}, {"gpt2", "\"merges\":[", "\"merges\":[[\"a\"],", "merge 0"}, {"gpt2", "\"vocab\":{", "\"vocab\":{\"zz\":-1,", "'zz' has no number"},
        {"gpt2", "\"vocab\":{", "\"vocab\":{\"zz\":16777216,", "'zz' has no number"}, {"gpt2", "\"vocab\":{", "\"vocab\":{\"zz\":16777215,", "numbers up to"}, {"gpt2", "\"add_prefix_space\":false", "\"add_prefix_space\":true", "adds a blank"},
        {"gpt2", "\"normalizer\":null", "\"normalizer\":{\"type\":\"Lowercase\"}", "Lowercase"}, {"gpt2", "\"lstrip\":false", "\"lstrip\":true", "lstrip"},
        {"gpt2", "\"content\":\"<s>\"", "\"content\":7", "without a text"}, {"gpt2", "\"id\":400", "\"id\":\"a\"", "no number"}, {"llama3", "{1,3}", "{1,2}", "pattern"},
        {"llama3", "Isolated", "Removed", "pattern"}, {"llama3", "\"ids\":[", "\"ids\":[70000,", "does not have"}, {"llama3", "TemplateProcessing", "BertProcessing", "BertProcessing"},
        {"gpt2", "\"continuing_subword_prefix\":null", "\"continuing_subword_prefix\":\"##\"", "continuing_subword_prefix"}, {"first", "Metaspace", "Whitespace", "Whitespace"},
        {"first", "\"split\":false", "\"split\":true", "Metaspace"}, {"llama2", "\"ignore_merges\":false", "\"ignore_merges\":true", "ignore_merges"}};
    for (size_t i = 0; i < RUSH_COUNT(cases); i++) {
        size_t n;
        char *bytes = changed(cases[i].name, cases[i].from, cases[i].to, &n);
        rush_tokenizer *t = loaded(bytes, n);
        if (t) {
            suite_after(give_up, t);
            fail_msg("%s with %s is taken", cases[i].name, cases[i].to);
        }
        assert_non_null(rush_error());
        if (!suite_failing() && !strstr(rush_error(), cases[i].says)) fail_msg("%s: %s", cases[i].to, rush_error());
        rush_error_clear();
    }
}

static void an_empty_file_has_bytes_only(void **state)
{
    rush_tokenizer *t = loaded("", 0);
    assert_non_null(t);
    suite_after(give_up, t);
    assert_int_equal(rush_tokenizer_size(t), 256);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts_are_cut_as_by_hugging_face), cmocka_unit_test(wrong_files_are_errors), cmocka_unit_test(an_empty_file_has_bytes_only)};
    snprintf(path, sizeof path, "/tmp/rushlight-tokenizer-%d.json", (int)getpid());
    int failed = SUITE(tests);
    unlink(path);
    return failed;
}
