/* npz.c - several arrays in one file: a zip of npy files, stored or deflated. */
#include "nn/module.h"
#include "io/npy.h"
#include "io/zip.h"

int rush_npz_save(const char *path, rush_state s)
{
    if (!rush_state_given(s)) return -1;
    RUSH_CHECK(path, RUSH_TYPE_ERROR, "a path is missing (NULL)");
    if (rush_failed()) return -1;
    RUSH_CHECK(s.n >= 0, RUSH_VALUE_ERROR, "there is no state to write to '%s'", path);
    rush_writing w;
    rush_zip_writer z;
    size_t mark = rush_scope_open();
    if (rush_write_begin(&w, path)) return -1;
    rush_zip_begin(&z, rush_zip_to_file, &w);
    int failed = 0;
    for (int i = 0; i < s.n && !failed; i++) {
        const rush_tensor *t = rush_as_in_files(s.tensor[i]);
        char head[4096], *name = rush_scope_alloc(strlen(s.name[i]) + 5);
        int n = t && name ? rush_npy_write_head(head, t) : -1;
        if (n < 0) {
            failed = -1;
            break;
        }
        sprintf(name, "%s.npy", s.name[i]);
        failed = rush_zip_add_headed(&z, name, head, (size_t)n, t->numel ? rush_ptr(t) : "", (uint64_t)t->numel * rush_dtypes[t->dtype].size);
    }
    failed = rush_zip_end(&z, !failed) || failed;
    failed = rush_write_end(&w, !failed) || failed;
    rush_scope_close(mark);
    return failed ? -1 : 0;
}

/* The array of an entry: its elements stay where they were read to. */
static rush_tensor *read_array(const rush_zip *z, const rush_zip_entry *e)
{
    rush_storage *s = e->size ? rush_zip_read_storage(z, e) : NULL;
    rush_tensor *t = NULL;
    rush_npy h;
    if (s && !rush_npy_read_head(&h, s->data, s->nbytes, e->name)) {
        size_t item = rush_dtypes[h.dtype].size, bytes = (size_t)h.numel * item;
        char *at = (char *)s->data + h.at;
        if (h.at % item) {
            memmove(s->data, at, bytes);
            at = s->data;
        }
        if (h.swap) rush_swap_bytes(at, h.dtype, (size_t)h.numel);
        if (h.dtype == RUSH_BOOL) rush_clean_bools(at, (size_t)h.numel);
        if (!h.fortran) rush_strides_for(RUSH_CONTIGUOUS, h.ndim, h.size, h.stride);
        t = rush_tensor_over(s, h.dtype, h.ndim, h.size, h.stride, (at - (char *)s->data) / (int64_t)item);
    } else if (!rush_failed()) {
        rush_fail(RUSH_VALUE_ERROR, "'%s' of '%s' is empty", e->name, z->name);
    }
    rush_storage_drop(s);
    return t;
}

rush_state rush_npz_load(const char *path)
{
    if (!(path)) return rush_fail(RUSH_TYPE_ERROR, "a path is missing (NULL)"), (rush_state){-1, NULL, NULL};
    rush_state s = {.n = -1};
    rush_source source;
    if (rush_failed() || rush_source_open(&source, path)) return s;
    rush_zip *z = rush_zip_open(source);
    if (!z) return s;
    s.name = rush_scope_alloc(sizeof *s.name * RUSH_MAX(z->n, 1u));
    s.tensor = rush_scope_alloc(sizeof *s.tensor * RUSH_MAX(z->n, 1u));
    int n = 0;
    for (uint32_t i = 0; s.name && s.tensor && i < z->n; i++) {
        const char *from = z->entry[i].name;
        size_t length = strlen(from);
        if (length < 4 || strcmp(from + length - 4, ".npy")) { /* something else; or a damaged name, which is another at its place */
            if (rush_zip_offset(z, z->entry + i) < 0) break;
            continue;
        }
        char *name = rush_scope_alloc(length + 1);
        if (!name || !(s.tensor[n] = read_array(z, z->entry + i))) break;
        memcpy(name, from, length - 4);
        name[length - 4] = 0;
        s.name[n++] = name;
    }
    rush_zip_close(z);
    s.n = rush_failed() ? -1 : n;
    return s;
}
