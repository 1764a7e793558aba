/* texts.c - files and texts as tensors: uint8, whose last dimension is their bytes, with zeros behind each up to the longest.
 *
 * Programs may begin with them (rushlight::pictures, rushlight::tokens) and end with them (rushlight::labels).
 */
#include "data/tokenizer.h"
#include "op/op.h"
#include "tensor/backend.h"
#include "tensor/tensor.h"

rush_tensor *rush_texts(size_t n, const char *const *text, const size_t *length)
{
    int64_t size[] = {(int64_t)n, 1}, numel;
    if (rush_failed()) return NULL;
    RUSH_CHECK_NULL(text || !n, RUSH_TYPE_ERROR, "there are no texts (NULL)");
    for (size_t i = 0; i < n; i++) {
        RUSH_CHECK_NULL(text[i] || (length && !length[i]), RUSH_TYPE_ERROR, "text %zu is missing (NULL)", i);
        size[1] = RUSH_MAX(size[1], (int64_t)(length ? length[i] : strlen(text[i])));
    }
    RUSH_CHECK_NULL(!__builtin_mul_overflow(size[0], size[1], &numel), RUSH_VALUE_ERROR, "%zu texts of up to %lld bytes", n, (long long)size[1]);
    rush_tensor *t = rush_tensor_new(RUSH_U8, (rush_device){RUSH_CPU, -1}, 2, size);
    char *to = t ? rush_ptr(t) : NULL;
    for (size_t i = 0; t && i < n; i++, to += size[1]) {
        size_t m = length ? length[i] : strlen(text[i]);
        if (m) memcpy(to, text[i], m);
        memset(to + m, 0, (size_t)size[1] - m);
    }
    return t;
}

/* Of a text that takes all of the last dimension, the bytes before the zeros behind it. */
static size_t length_of(const char *text, int64_t width)
{
    while (width && !text[width - 1]) width--;
    return (size_t)width;
}

const char *rush_text_at(const rush_tensor *t, int64_t i, size_t *length)
{
    if (!rush_tensor_given(t)) return NULL;
    RUSH_CHECK_NULL(t->dtype == RUSH_U8 && t->ndim && rush_on_host(t) == t && rush_is_contiguous(t), RUSH_TYPE_ERROR, "texts are a contiguous tensor of uint8, not %s of shape %s",
                    rush_dtype_name((rush_dtype)t->dtype), rush_shape_of(t));
    int64_t width = t->size[t->ndim - 1], n = width ? t->numel / width : 0;
    RUSH_CHECK_NULL(i >= 0 && i < n, RUSH_INDEX_ERROR, "text %lld of %lld", (long long)i, (long long)n);
    const char *text = (const char *)rush_ptr(t) + i * width;
    if (length) *length = length_of(text, width);
    return text;
}

/* ---- tokens: the tables are tensors, so that the operation keeps nothing ---- */

int rush_tokenizer_tables(const rush_tokenizer *t, rush_tensor **pairs, rush_tensor **bytes)
{
    if (!rush_tokenizer_given(t)) return -1;
    RUSH_CHECK(t->kind == RUSH_BYTE_PAIRS, RUSH_TYPE_ERROR, "only tokenisers of byte pairs have tables");
    RUSH_CHECK(!t->digits && !t->whole_words && !t->composes && t->begin < 0, RUSH_NOT_IMPLEMENTED, "tables hold byte pairs within GPT-2's words only, not those of Llama 3 or Qwen");
    *pairs = rush_from_data(t->pairs.pair, RUSH_I32, 2, (int64_t[]){(int64_t)t->pairs.n, 4});
    *bytes = rush_from_data(t->byte, RUSH_I32, 1, (int64_t[]){256});
    return *pairs && *bytes ? 0 : -1;
}

static int tokens_shape(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *texts = in[0].t, *pairs = in[1].t, *bytes = in[2].t;
    int64_t length = in[3].i;
    RUSH_CHECK(texts->dtype == RUSH_U8 && texts->ndim == 2, RUSH_TYPE_ERROR, "tokens: texts are uint8 (n, bytes), not %s of shape %s", rush_dtype_name((rush_dtype)texts->dtype), rush_shape_of(texts));
    RUSH_CHECK(pairs->dtype == RUSH_I32 && pairs->ndim == 2 && pairs->size[1] == 4 && bytes->dtype == RUSH_I32 && bytes->ndim == 1 && bytes->size[0] == 256, RUSH_TYPE_ERROR,
               "tokens: tables are int32 (n, 4) and int32 (256)");
    RUSH_CHECK(length > 0 && length < 1 << 24, RUSH_VALUE_ERROR, "tokens: a length of %lld", (long long)length);
    return rush_out_t(out, 0, texts, RUSH_I64, 2, (int64_t[]){texts->size[0], length}) ? 0 : -1;
}

static rush_tokenizer *tokenizer_of(const rush_tensor *pairs, const rush_tensor *bytes)
{
    rush_tokenizer *t = pairs && bytes ? rush_tokenizer_begin(RUSH_BYTE_PAIRS, 0) : NULL;
    const rush_pair *pair = t ? rush_ptr(pairs) : NULL;
    if (t) memcpy(t->byte, rush_ptr(bytes), sizeof t->byte);
    for (int64_t i = 0; t && i < pairs->size[0]; i++)
        if (rush_pairs_add(&t->pairs, pair[i])) return rush_tokenizer_free(t), NULL;
    return t;
}

static void tokens_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    const rush_tensor *texts = rush_contiguous_copy(in[0].t);
    rush_tensor *to = out[0].t, *made = rush_is_contiguous(to) ? to : rush_tensor_new(RUSH_I64, (rush_device){RUSH_CPU, -1}, 2, to->size);
    rush_tokenizer *t = texts && made ? tokenizer_of(rush_contiguous_copy(in[1].t), rush_contiguous_copy(in[2].t)) : NULL;
    int32_t *w = t ? rush_malloc(rush_tokenizer_most(t, (size_t)texts->size[1]) * sizeof *w) : NULL;
    int64_t *p = w ? rush_ptr(made) : NULL, length = in[3].i, n = 0;
    for (int64_t i = 0; w && n >= 0 && i < texts->size[0]; i++, p += length) {
        const char *text = (const char *)rush_ptr(texts) + i * texts->size[1];
        n = rush_tokenizer_encode_to(t, text, length_of(text, texts->size[1]), w);
        for (int64_t k = 0; n >= 0 && k < length; k++) p[k] = k < n ? w[k] : in[4].i;
    }
    rush_free(w);
    rush_tokenizer_free(t);
    if (made != to && !rush_failed()) rush_copy_into(to, made);
}

static rush_op op_tokens = {
    .schema = "rushlight::tokens(Tensor texts, Tensor pairs, Tensor bytes, int length, int padding=0) -> Tensor",
    .doc = "The byte pairs of texts (n, bytes), cut or padded to a length, by the tables of a tokeniser of GPT-2's kind.", .shape = tokens_shape, .cpu = tokens_cpu,
    .flags = RUSH_NO_GRAD | RUSH_TAKES_TEXT,
};

/* ---- labels ---- */

static int labels_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *classes = T_(in[0]), *names = T_(in[1]);
    RUSH_CHECK(names && names->dtype == RUSH_U8 && names->ndim == 2, RUSH_TYPE_ERROR, "labels: names are uint8 (classes, bytes), not %s", names ? rush_shape_of(names) : "nothing");
    RUSH_CHECK(classes && rush_dtypes[classes->dtype].category == 1, RUSH_TYPE_ERROR, "labels: classes are integers");
    return rush_result(out, T("embedding", V(names), V(classes)));
}

static rush_op op_labels = {
    .schema = "rushlight::labels(Tensor classes, Tensor names) -> Tensor",
    .doc = "The rows of names (classes, bytes) that the classes are: texts as uint8, zeros behind each.", .run = labels_run, .flags = RUSH_NO_GRAD | RUSH_WHOLE | RUSH_GIVES_TEXT,
};

RUSH_FAMILY(texts, &op_tokens, &op_labels)
