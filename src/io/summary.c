/* summary.c - the values of a summary: numbers, histograms, pictures, sound, text, curves, hyperparameters, points. */
#include "io/file.h"
#include "io/picture.h"
#include "io/summary_file.h"
#include "base/text.h"
#include "base/utf8.h"

#include <math.h>

enum { F_SCALAR = 2, F_IMAGE = 4, F_HISTOGRAM = 5, F_AUDIO = 6, F_TENSOR = 8 }; /* of Summary.Value */

static const rush_tensor *as_doubles(const rush_tensor *t)
{
    if (!rush_tensor_given(t)) return NULL;
    RUSH_CHECK_NULL(!rush_dtype_is_complex((rush_dtype)t->dtype), RUSH_TYPE_ERROR, "complex numbers can't be shown: give their abs()");
    return rush_cast_copy(t, RUSH_F64);
}

int rush_summary_scalar(rush_summary *s, const char *tag, double value, int64_t step)
{
    if (rush_failed()) return -1;
    if (!rush_summary_given(s)) return -1;
    RUSH_CHECK(tag && rush_utf8_is(tag), RUSH_TYPE_ERROR, "a scalar needs a summary, a tag of UTF-8 and what it shows");
    rush_bytes v = {0};
    rush_pb_text(&v, 1, tag);
    rush_pb_float(&v, F_SCALAR, (float)value);
    int failed = v.lost ? -1 : rush_summary_value(s, v.p, v.n, step, 0);
    rush_bytes_end(&v);
    return failed;
}

/* ---- histogram: edges 1.1 times apart on both sides of 0, as TensorFlow has them ---- */

#define EDGES 774
static double edges[2 * EDGES + 1];
static int nedges;

__attribute__((constructor)) static void fill_edges(void)
{
    double up[EDGES];
    int n = 0;
    for (double e = 1e-12; e < 1e20 && n < EDGES; e *= 1.1) up[n++] = e;
    for (int i = n - 1; i >= 0; i--) edges[nedges++] = -up[i];
    edges[nedges++] = 0;
    for (int i = 0; i < n; i++) edges[nedges++] = up[i];
}

/* The bucket [edge k, edge k + 1) of x, the last one closed; -1 beyond all. */
static int bucket(double x)
{
    if (!(x >= edges[0] && x <= edges[nedges - 1])) return -1;
    int low = 0, high = nedges - 1;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (edges[middle] <= x) low = middle;
        else high = middle;
    }
    return low;
}

int rush_summary_histogram(rush_summary *s, const char *tag, const rush_tensor *given, int64_t step)
{
    if (rush_failed()) return -1;
    if (!rush_summary_given(s)) return -1;
    RUSH_CHECK(tag && rush_utf8_is(tag) && rush_tensor_given(given), RUSH_TYPE_ERROR, "a histogram needs a summary, a tag of UTF-8 and what it shows");
    int failed = -1;
    size_t mark = rush_scope_open();
    const rush_tensor *t = as_doubles(given);
    if (t && !t->numel) rush_fail(RUSH_VALUE_ERROR, "The input has no element.");
    if (t && t->numel) {
        double count[2 * EDGES] = {0};
        const double *x = rush_ptr(t);
        double low = x[0], high = x[0], sum = 0, squares = 0;
        for (int64_t i = 0; i < t->numel; i++) {
            int k = bucket(x[i]);
            if (k >= 0) count[k]++;
            low = fmin(low, x[i]);
            high = fmax(high, x[i]);
            sum += x[i];
            squares += x[i] * x[i];
        }
        int begin = 0, end = nedges - 1;
        while (begin < end && !count[begin]) begin++;
        while (end > begin && !count[end - 1]) end--;
        if (begin < end && begin) begin--; /* an empty bucket on the left shows where the first one begins */
        if (begin == end) begin = 0, end = 1;
        rush_bytes h = {0};
        rush_pb_double(&h, 1, low);
        rush_pb_double(&h, 2, high);
        rush_pb_double(&h, 3, (double)t->numel);
        rush_pb_double(&h, 4, sum);
        rush_pb_double(&h, 5, squares);
        rush_pb_data(&h, 6, edges + begin + 1, (size_t)(end - begin) * sizeof *edges);
        rush_pb_data(&h, 7, count + begin, (size_t)(end - begin) * sizeof *count);
        failed = rush_summary_field(s, tag, F_HISTOGRAM, &h, NULL, NULL, 0, 0, step);
    }
    rush_scope_close(mark);
    return failed;
}

/* ---- pictures, sound, text, tensors ---- */

int rush_summary_image(rush_summary *s, const char *tag, const rush_tensor *given, int64_t step)
{
    if (rush_failed()) return -1;
    if (!rush_summary_given(s)) return -1;
    RUSH_CHECK(tag && rush_utf8_is(tag) && rush_tensor_given(given), RUSH_TYPE_ERROR, "a image needs a summary, a tag of UTF-8 and what it shows");
    int failed = -1;
    size_t mark = rush_scope_open();
    rush_tensor *t = (rush_tensor *)given;
    if (t && t->ndim == 4) t = rush_picture_grid(t, 8, 0);
    rush_tensor *file = t ? rush_png_encode(t, 6) : NULL;
    if (file) {
        rush_bytes m = {0};
        rush_pb_int(&m, 1, t->size[t->ndim - 2]);
        rush_pb_int(&m, 2, t->size[t->ndim - 1]);
        rush_pb_int(&m, 3, t->ndim == 3 ? t->size[0] : 1);
        rush_pb_data(&m, 4, rush_ptr(file), (size_t)file->numel);
        failed = rush_summary_field(s, tag, F_IMAGE, &m, NULL, NULL, 0, 0, step);
    }
    rush_scope_close(mark);
    return failed;
}

/* A WAV file of 16-bit samples: 44 bytes of header, then they. So sound needs no library here. */
static void add_wav(rush_bytes *b, const double *x, int64_t n, int rate)
{
    uint32_t bytes = (uint32_t)n * 2, all = bytes + 36, hz = (uint32_t)rate, per_second = hz * 2, sixteen = 16;
    uint16_t one = 1, block = 2, bits = 16;
    rush_bytes_add(b, "RIFF", 4);
    rush_bytes_add(b, &all, 4);
    rush_bytes_add(b, "WAVEfmt ", 8);
    rush_bytes_add(b, &sixteen, 4);
    rush_bytes_add(b, &one, 2);
    rush_bytes_add(b, &one, 2);
    rush_bytes_add(b, &hz, 4);
    rush_bytes_add(b, &per_second, 4);
    rush_bytes_add(b, &block, 2);
    rush_bytes_add(b, &bits, 2);
    rush_bytes_add(b, "data", 4);
    rush_bytes_add(b, &bytes, 4);
    for (int64_t i = 0; i < n; i++) {
        int16_t v = (int16_t)(fmin(fmax(x[i], -1), 1) * 32767);
        rush_bytes_add(b, &v, 2);
    }
}

int rush_summary_audio(rush_summary *s, const char *tag, const rush_tensor *given, int rate, int64_t step)
{
    if (rush_failed()) return -1;
    if (!rush_summary_given(s)) return -1;
    RUSH_CHECK(tag && rush_utf8_is(tag) && rush_tensor_given(given), RUSH_TYPE_ERROR, "a audio needs a summary, a tag of UTF-8 and what it shows");
    int failed = -1;
    size_t mark = rush_scope_open();
    const rush_tensor *t = as_doubles(given);
    if (t && (t->numel > (1 << 30) || rate <= 0)) t = (rush_fail(RUSH_VALUE_ERROR, "sound of %lld samples at %d Hz", (long long)t->numel, rate), NULL);
    if (t) {
        rush_bytes m = {0}, wav = {0};
        add_wav(&wav, rush_ptr(t), t->numel, rate);
        rush_pb_float(&m, 1, (float)rate);
        rush_pb_int(&m, 2, 1);
        rush_pb_int(&m, 3, t->numel);
        rush_pb_message(&m, 4, &wav);
        rush_pb_text(&m, 5, "audio/wav");
        failed = rush_summary_field(s, tag, F_AUDIO, &m, NULL, NULL, 0, 0, step);
    }
    rush_scope_close(mark);
    return failed;
}

/* A TensorProto's dtype and shape. */
static void add_tensor_head(rush_bytes *m, int kind, int ndim, const int64_t *size)
{
    rush_bytes shape = {0};
    rush_pb_int(m, 1, kind);
    for (int d = 0; d < ndim; d++) {
        rush_bytes dim = {0};
        rush_pb_int(&dim, 1, size[d]);
        rush_pb_message(&shape, 2, &dim);
    }
    rush_pb_message(m, 2, &shape);
}

static void add_floats(rush_bytes *m, const float *x, int ndim, const int64_t *size)
{
    int64_t n = rush_numel_of(ndim, size);
    add_tensor_head(m, 1, ndim, size);
    rush_pb_data(m, 4, x, (size_t)n * sizeof *x);
}

int rush_summary_text(rush_summary *s, const char *tag, const char *markdown, int64_t step)
{
    if (rush_failed()) return -1;
    if (!rush_summary_given(s)) return -1;
    RUSH_CHECK(tag && rush_utf8_is(tag) && markdown, RUSH_TYPE_ERROR, "a text needs a summary, a tag of UTF-8 and what it shows");
    size_t n = strlen(tag) + 16;
    char *name = rush_malloc(n);
    if (!name) return -1;
    snprintf(name, n, "%s/text_summary", tag);
    rush_bytes m = {0};
    add_tensor_head(&m, 7, 1, (int64_t[]){1});
    rush_pb_text(&m, 8, markdown);
    int failed = rush_summary_field(s, name, F_TENSOR, &m, "text", "\x08\0", 2, 0, step);
    rush_free(name);
    return failed;
}

int rush_summary_tensor(rush_summary *s, const char *tag, const rush_tensor *given, int64_t step)
{
    if (rush_failed()) return -1;
    if (!rush_summary_given(s)) return -1;
    RUSH_CHECK(tag && rush_utf8_is(tag) && rush_tensor_given(given), RUSH_TYPE_ERROR, "a tensor is shown in a summary and by a tag");
    static const struct { rush_dtype dtype; int kind; } kinds[] = {{RUSH_F32, 1}, {RUSH_F64, 2}, {RUSH_I32, 3}, {RUSH_I64, 9}};
    int failed = -1;
    size_t mark = rush_scope_open();
    for (size_t k = 0; failed && !rush_failed() && k <= RUSH_COUNT(kinds); k++) {
        bool last = k == RUSH_COUNT(kinds); /* other types become float32 */
        if (!last && kinds[k].dtype != given->dtype) continue;
        const rush_tensor *t = rush_cast_copy(given, last ? RUSH_F32 : (rush_dtype)given->dtype);
        rush_bytes m = {0};
        if (!t) break;
        add_tensor_head(&m, last ? 1 : kinds[k].kind, t->ndim, t->size);
        rush_pb_data(&m, 4, rush_ptr(t), (size_t)t->numel * rush_dtypes[t->dtype].size);
        failed = rush_summary_field(s, tag, F_TENSOR, &m, "tensor", NULL, 0, 0, step);
    }
    rush_scope_close(mark);
    return failed;
}

/* ---- precision and recall ---- */

int rush_summary_pr_curve(rush_summary *s, const char *tag, const rush_tensor *labels, const rush_tensor *predictions, const rush_tensor *weights,
                          int thresholds, int64_t step)
{
    enum { MOST = 127 };
    if (rush_failed()) return -1;
    if (!rush_summary_given(s)) return -1;
    RUSH_CHECK(tag && rush_utf8_is(tag) && rush_tensor_given(labels) && rush_tensor_given(predictions) && (!weights || rush_tensor_given(weights)), RUSH_TYPE_ERROR, "a pr_curve needs a summary, a tag of UTF-8 and what it shows");
    int n = thresholds <= 0 || thresholds > MOST ? MOST : thresholds, failed = -1;
    size_t mark = rush_scope_open();
    const rush_tensor *y = as_doubles(labels), *p = y ? as_doubles(predictions) : NULL, *w = p && weights ? as_doubles(weights) : NULL;
    if (p && (y->numel != p->numel || (w && w->numel != p->numel)))
        p = (rush_fail(RUSH_VALUE_ERROR, "a curve of %lld labels and %lld predictions", (long long)y->numel, (long long)p->numel), NULL);
    if (p && !rush_failed()) {
        double tp[MOST] = {0}, fp[MOST] = {0};
        float rows[6 * MOST];
        const double *label = rush_ptr(y), *guess = rush_ptr(p), *weight = w ? rush_ptr(w) : NULL;
        for (int64_t i = 0; i < p->numel; i++) {
            int k = (int)floor(fmin(fmax(guess[i], 0), 1) * (n - 1));
            double share = weight ? weight[i] : 1;
            tp[k] += label[i] * share;
            fp[k] += (1 - label[i]) * share;
        }
        for (int k = n - 2; k >= 0; k--) tp[k] += tp[k + 1], fp[k] += fp[k + 1];
        for (int k = 0; k < n; k++) {
            double row[6] = {tp[k], fp[k], fp[0] - fp[k], tp[0] - tp[k], tp[k] / fmax(1e-7, tp[k] + fp[k]), tp[k] / fmax(1e-7, tp[0])};
            for (int r = 0; r < 6; r++) rows[r * n + k] = (float)row[r];
        }
        rush_bytes m = {0}, about = {0};
        add_floats(&m, rows, 2, (int64_t[]){6, n});
        rush_pb_int(&about, 1, 0);
        rush_pb_int(&about, 2, n);
        failed = rush_summary_field(s, tag, F_TENSOR, &m, "pr_curves", (char *)about.p, about.n, 0, step);
        rush_bytes_end(&about);
    }
    rush_scope_close(mark);
    return failed;
}

/* ---- hyperparameters ---- */

static void add_hparam(rush_bytes *b, int field, const rush_hparam *h) /* a google.protobuf.Value */
{
    rush_bytes v = {0};
    if (h->text) rush_pb_text(&v, 3, h->text);
    else if (h->is_bool) rush_pb_int(&v, 4, h->number != 0);
    else rush_pb_double(&v, 2, h->number);
    rush_pb_message(b, field, &v);
}

static int add_session(rush_summary *s, const char *tag, int field, rush_bytes *inner)
{
    rush_bytes m = {0}, about = {0};
    add_floats(&m, NULL, 1, (int64_t[]){0});
    rush_pb_int(&about, 1, 0);
    rush_pb_message(&about, field, inner);
    int failed = rush_summary_field(s, tag, F_TENSOR, &m, "hparams", (char *)about.p, about.n, 0, 0);
    rush_bytes_end(&about);
    return failed;
}

int rush_summary_hparams(rush_summary *s, int n, const rush_hparam *h, int n_metrics, const rush_hparam *metrics, int64_t step)
{
    if (rush_failed()) return -1;
    if (!rush_summary_given(s)) return -1;
    RUSH_CHECK(n >= 0 && n_metrics >= 0 && (h || !n) && (metrics || !n_metrics), RUSH_TYPE_ERROR, "hyperparameters need a summary and lists");
    for (int i = 0; i < n; i++) RUSH_CHECK(h[i].name, RUSH_TYPE_ERROR, "hyperparameter %d has no name", i);
    for (int i = 0; i < n_metrics; i++) RUSH_CHECK(metrics[i].name, RUSH_TYPE_ERROR, "metric %d has no name", i);
    rush_bytes experiment = {0}, start = {0}, end = {0};
    for (int i = 0; i < n; i++) {
        rush_bytes info = {0}, entry = {0};
        rush_pb_text(&info, 1, h[i].name);
        rush_pb_int(&info, 4, h[i].text ? 1 : h[i].is_bool ? 2 : 3);
        rush_pb_message(&experiment, 4, &info);
        rush_pb_text(&entry, 1, h[i].name);
        add_hparam(&entry, 2, &h[i]);
        rush_pb_message(&start, 1, &entry);
    }
    for (int i = 0; i < n_metrics; i++) {
        rush_bytes info = {0}, name = {0};
        rush_pb_text(&name, 2, metrics[i].name);
        rush_pb_message(&info, 1, &name);
        rush_pb_message(&experiment, 5, &info);
    }
    rush_pb_int(&end, 1, 1); /* success */
    int failed = add_session(s, "_hparams_/experiment", 2, &experiment) || add_session(s, "_hparams_/session_start_info", 3, &start) ||
                 add_session(s, "_hparams_/session_end_info", 4, &end);
    rush_bytes_end(&experiment); /* those that were not sent */
    rush_bytes_end(&start);
    rush_bytes_end(&end);
    for (int i = 0; !failed && i < n_metrics; i++) failed = rush_summary_scalar(s, metrics[i].name, metrics[i].number, step);
    return failed ? -1 : 0;
}

/* ---- points for the projector: files of their own beside the events ---- */

static int write_text(const char *folder, const char *name, const rush_bytes *b)
{
    char path[4096];
    rush_writing w;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path) return rush_fail(RUSH_VALUE_ERROR, "the path of '%s' is too long", name);
    if (b->lost || rush_write_begin(&w, path)) return -1;
    int failed = rush_write(&w, b->p, b->n);
    return rush_write_end(&w, !failed) || failed ? -1 : 0;
}

static int write_points(const char *folder, const rush_tensor *points)
{
    const rush_tensor *t = as_doubles(points);
    if (!t) return -1;
    RUSH_CHECK(t->ndim == 2, RUSH_VALUE_ERROR, "points are (n, features), not %s", rush_shape_of(points));
    rush_bytes b = {0};
    const double *x = rush_ptr(t);
    for (int64_t i = 0; i < t->numel; i++) {
        char text[40];
        rush_bytes_add(&b, text, (size_t)rush_snprintf(text, sizeof text, "%.8g%c", x[i], (i + 1) % t->size[1] ? '\t' : '\n'));
    }
    int failed = write_text(folder, "tensors.tsv", &b);
    rush_bytes_end(&b);
    return failed;
}

static int write_labels(const char *folder, const char *const *labels, int64_t n)
{
    rush_bytes b = {0};
    for (int64_t i = 0; i < n; i++) {
        rush_bytes_add(&b, labels[i], strlen(labels[i]));
        rush_bytes_add(&b, "\n", 1);
    }
    int failed = write_text(folder, "metadata.tsv", &b);
    rush_bytes_end(&b);
    return failed;
}

int rush_summary_embedding(rush_summary *s, const char *tag, const rush_tensor *points, const char *const *labels, const rush_tensor *pictures, int64_t step)
{
    if (rush_failed()) return -1;
    if (!rush_summary_given(s)) return -1;
    RUSH_CHECK(rush_tensor_given(points) && tag, RUSH_TYPE_ERROR, "there are no points to show, or there is no summary");
    char inner[512], folder[4096], path[4200], config[2048];
    int64_t n = points->ndim ? points->size[0] : 0;
    RUSH_CHECK(!pictures || (pictures->ndim == 4 && pictures->size[0] == n), RUSH_VALUE_ERROR, "#images should equal with #data points");
    if ((size_t)snprintf(inner, sizeof inner, "%05lld/%s", (long long)step, tag) >= sizeof inner ||
        (size_t)snprintf(folder, sizeof folder, "%s/%s", s->folder, inner) >= sizeof folder) return rush_fail(RUSH_VALUE_ERROR, "the tag '%.40s...' is too long", tag);
    if (rush_make_folders(folder)) return -1;
    int at = snprintf(config, sizeof config, "embeddings {\ntensor_name: \"%s:%05lld\"\n", tag, (long long)step);
    if (labels) at += snprintf(config + at, sizeof config - (size_t)at, "metadata_path: \"%s/metadata.tsv\"\n", inner);
    if (pictures) at += snprintf(config + at, sizeof config - (size_t)at, "sprite {\nimage_path: \"%s/sprite.png\"\nsingle_image_dim: %lld\nsingle_image_dim: %lld\n}\n",
                                 inner, (long long)pictures->size[3], (long long)pictures->size[2]);
    at += snprintf(config + at, sizeof config - (size_t)at, "tensor_path: \"%s/tensors.tsv\"\n}\n", inner);
    int failed = -1;
    rush_scope() {
        failed = write_points(folder, points) || (labels && write_labels(folder, labels, n));
        if (!failed && pictures) {
            snprintf(path, sizeof path, "%s/sprite.png", folder);
            failed = rush_png_save(path, rush_picture_grid((rush_tensor *)pictures, (int)ceil(sqrt((double)n)), 0));
        }
        snprintf(path, sizeof path, "%s/projector_config.pbtxt", s->folder);
        FILE *f = failed ? NULL : fopen(path, "ae");
        if (!failed && (!f || fwrite(config, (size_t)at, 1, f) != 1)) failed = rush_fail(RUSH_IO_ERROR, "can't write '%s'", path);
        if (f && fclose(f) && !failed) failed = rush_fail(RUSH_IO_ERROR, "can't write '%s'", path);
    }
    return failed ? -1 : 0;
}
