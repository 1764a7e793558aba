/* dataset.c - numbered samples: of tensors in memory, of npy files, or whatever a program defines. */
#include "data/dataset.h"
#include "base/buried.h"
#include <rushlight/io.h>

static bool given(const rush_dataset *d) { return rush_lives(d, "a dataset"); }

rush_dataset *rush_dataset_new(const rush_dataset_kind *kind, void *arg, int64_t size, int columns)
{
    RUSH_CHECK_NULL(kind && (kind->read || kind->read_batch), RUSH_TYPE_ERROR, "a dataset needs a kind that reads");
    if (!rush_failed() && (columns < 1 || columns > RUSH_MAXCOLUMNS || size < 0))
        rush_fail(RUSH_VALUE_ERROR, "a dataset of %lld samples of %d tensors (1 to %d are possible)", (long long)size, columns, RUSH_MAXCOLUMNS);
    rush_dataset *d = rush_failed() ? NULL : rush_calloc(1, sizeof *d);
    if (!d) {
        if (kind->end) kind->end(arg);
        return NULL;
    }
    atomic_init(&d->refs, 1);
    d->kind = kind;
    d->arg = arg;
    d->size = size;
    d->columns = columns;
    return d;
}

rush_dataset *rush_dataset_keep(rush_dataset *d)
{
    if (!d || !given(d)) return NULL;
    atomic_fetch_add(&d->refs, 1);
    return d;
}

void rush_dataset_drop(rush_dataset *d)
{
    if (!d || !given(d) || atomic_fetch_sub(&d->refs, 1) != 1) return;
    if (d->kind->end) d->kind->end(d->arg);
    rush_bury_handle(d, sizeof *d);
}

int64_t rush_dataset_size(const rush_dataset *d) { return given(d) ? d->size : 0; }
int rush_dataset_columns(const rush_dataset *d) { return given(d) ? d->columns : 0; }

int rush_dataset_filled(const rush_dataset *d, rush_tensor *const *t)
{
    for (int c = 0; c < d->columns; c++) RUSH_CHECK(t[c], RUSH_VALUE_ERROR, "the dataset gave no tensor for column %d, and no reason", c);
    return rush_failed() ? -1 : 0;
}

static int read_one(rush_dataset *d, int64_t index, rush_tensor **sample)
{
    for (int c = 0; c < d->columns; c++) sample[c] = NULL;
    return d->kind->read(d->arg, index, sample) || rush_dataset_filled(d, sample) ? -1 : 0;
}

int rush_dataset_read(rush_dataset *d, int64_t index, rush_tensor **sample)
{
    if (rush_failed()) return -1;
    if (!given(d)) return -1;
    RUSH_CHECK(sample && d->kind->read, RUSH_TYPE_ERROR, "reading a sample needs a dataset that has single ones, and room for it");
    if (index < 0) index += d->size;
    RUSH_CHECK(index >= 0 && index < d->size, RUSH_INDEX_ERROR, "sample %lld of a dataset of %lld", (long long)index, (long long)d->size);
    return read_one(d, index, sample);
}

int rush_dataset_batch(rush_dataset *d, int64_t n, const int64_t *index, rush_tensor **batch, int64_t *at)
{
    *at = n ? index[0] : -1;
    if (d->kind->read_batch) return d->kind->read_batch(d->arg, n, index, batch);
    rush_tensor **cell = rush_malloc((size_t)(n * d->columns) * sizeof *cell), *sample[RUSH_MAXCOLUMNS];
    int failed = cell ? 0 : -1;
    for (int64_t i = 0; !failed && i < n; i++) {
        *at = index[i];
        failed = read_one(d, index[i], sample);
        for (int c = 0; !failed && c < d->columns; c++) cell[c * n + i] = sample[c];
    }
    for (int c = 0; !failed && c < d->columns; c++)
        if (!(batch[c] = T("stack", rush_v_tensors(cell + c * n, (size_t)n), V(0)))) failed = -1;
    rush_free(cell);
    return failed;
}

/* ---- tensors ---- */

typedef struct columns {
    int n;
    rush_tensor *t[RUSH_MAXCOLUMNS]; /* kept */
} columns;

static int tensors_read(void *arg, int64_t index, rush_tensor **sample)
{
    columns *c = arg;
    for (int i = 0; i < c->n; i++)
        if (!(sample[i] = T("select.int", V(c->t[i]), V(0), V(index)))) return -1;
    return 0;
}

static int tensors_read_batch(void *arg, int64_t n, const int64_t *index, rush_tensor **batch)
{
    columns *c = arg;
    rush_tensor *at = rush_from_data(index, RUSH_I64, 1, &n);
    for (int i = 0; i < c->n; i++)
        if (!at || !(batch[i] = T("index_select", V(c->t[i]), V(0), V(at)))) return -1;
    return 0;
}

static void tensors_end(void *arg)
{
    columns *c = arg;
    for (int i = 0; c && i < c->n; i++) rush_drop(c->t[i]);
    rush_free(c);
}

static const rush_dataset_kind tensors_kind = {"tensors", tensors_read, tensors_read_batch, tensors_end};

rush_dataset *rush_dataset_tensors(int n, rush_tensor *const *t)
{
    if (rush_failed()) return NULL;
    RUSH_CHECK_NULL(n >= 1 && n <= RUSH_MAXCOLUMNS, RUSH_VALUE_ERROR, "a dataset of %d tensors (1 to %d are possible)", n, RUSH_MAXCOLUMNS);
    RUSH_CHECK_NULL(t, RUSH_TYPE_ERROR, "a dataset of no tensors (NULL)");
    for (int i = 0; i < n; i++) {
        if (!rush_tensor_given(t[i])) return NULL;
        RUSH_CHECK_NULL(t[i]->ndim >= 1, RUSH_VALUE_ERROR, "tensor %d of a dataset has no first dimension", i);
        RUSH_CHECK_NULL(t[i]->size[0] == t[0]->size[0], RUSH_VALUE_ERROR, "tensor %d of a dataset has %lld samples, the first one %lld", i,
                        (long long)t[i]->size[0], (long long)t[0]->size[0]);
    }
    columns *c = rush_calloc(1, sizeof *c);
    if (!c) return NULL;
    c->n = n;
    for (int i = 0; i < n; i++) c->t[i] = rush_keep(t[i]);
    return rush_dataset_new(&tensors_kind, c, t[0]->size[0], n);
}

rush_dataset *rush_dataset_npy(int n, const char *const *paths)
{
    if (rush_failed()) return NULL;
    RUSH_CHECK_NULL(n >= 1 && n <= RUSH_MAXCOLUMNS, RUSH_VALUE_ERROR, "a dataset of %d files (1 to %d are possible)", n, RUSH_MAXCOLUMNS);
    RUSH_CHECK_NULL(paths, RUSH_TYPE_ERROR, "a dataset of no files (NULL)");
    rush_tensor *t[RUSH_MAXCOLUMNS];
    size_t mark = rush_scope_open();
    int k = 0;
    while (k < n && (t[k] = rush_npy_load(paths[k]))) k++;
    rush_dataset *d = k == n ? rush_dataset_tensors(n, t) : NULL;
    rush_scope_close(mark);
    return d;
}
