/* archive_write.c - writes a program with what archive.c reads: its own file, a declaration, and the files that this names. */
#include "base/json.h"
#include "graph/program.h"
#include "io/zip.h"
#include "script/script.h"
#include "base/text.h"
#include <rushlight/program.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define DECLARATION "rushlight.json"

typedef struct extra {
    const char *name, *path; /* in the archive; NULL: it is not there */
} extra;
enum { LABELS, MERGES, VOCABULARY, EXTRAS };

/* ---- the declaration ---- */

static void put_floats(FILE *f, const char *name, rush_floats list)
{
    if (list.n) fprintf(f, ", \"%s\": [", name);
    for (size_t i = 0; i < list.n; ++i) rush_fprintf(f, i ? ", %.17g" : "%.17g", list.data[i]);
    if (list.n) fprintf(f, "]");
}

static void declare(FILE *f, const rush_archive_options *o)
{
    const char *between = "";
    fprintf(f, "{");
    if (o->picture) {
        fprintf(f, "\"picture\": {\"gray\": %s", o->gray ? "true" : "false");
        if (o->height || o->width) fprintf(f, ", \"size\": [%lld, %lld]", (long long)o->height, (long long)o->width);
        if (o->resize) fprintf(f, ", \"resize\": %lld", (long long)o->resize);
        put_floats(f, "mean", o->mean);
        put_floats(f, "std", o->std);
        fprintf(f, "}");
        between = ", ";
    }
    if (o->merges) {
        fprintf(f, "%s\"text\": {\"merges\": \"merges.txt\", \"padding\": %lld%s", between, (long long)o->padding, o->vocabulary ? ", \"vocabulary\": \"vocab.json\"" : "");
        if (o->length) fprintf(f, ", \"length\": %lld", (long long)o->length);
        fprintf(f, "}");
        between = ", ";
    }
    if (o->softmax) fprintf(f, "%s\"softmax\": true", between), between = ", ";
    if (o->top) fprintf(f, "%s\"top\": %lld", between, (long long)o->top), between = ", ";
    if (o->labels) fprintf(f, "%s\"labels\": \"labels.txt\"", between);
    fprintf(f, "}\n");
}

/* ---- the file ---- */

static int add(rush_zip_writer *z, const char *root, const char *name, const void *p, size_t n)
{
    char full[512];
    RUSH_CHECK((size_t)snprintf(full, sizeof full, "%s/%s", root, name) < sizeof full, RUSH_VALUE_ERROR, "the name '%.100s' is too long", name);
    return rush_zip_add(z, full, p, n);
}

static int add_file(rush_zip_writer *z, const char *root, const char *name, const char *path)
{
    rush_mapping *m = rush_map(path);
    int failed = m ? add(z, root, name, m->size ? m->data : "", m->size) : -1;
    rush_unmap(m);
    return failed;
}

/* All entries but those that are written anew. */
static int copy_entries(rush_zip_writer *z, const rush_zip *from, const extra *extras)
{
    for (uint32_t i = 0; i < from->n; ++i) {
        const rush_zip_entry *e = &from->entry[i];
        const char *name = strrchr(e->name, '/');
        bool again = strstr(e->name, "/extra/") && !strcmp(name, "/" DECLARATION);
        for (int k = 0; k < EXTRAS; ++k) again |= strstr(e->name, "/extra/") && !strcmp(name + 1, extras[k].name);
        if (again) continue;
        char *p = rush_zip_read_all(from, e);
        int failed = p ? rush_zip_add(z, e->name, p, e->size) : -1;
        rush_free(p);
        if (failed) return failed;
    }
    return 0;
}

static int write_all(rush_zip_writer *z, const char *model, const extra *extras, const char *text, size_t n)
{
    rush_source s;
    char head[2] = "";
    if (rush_source_open(&s, model)) return -1;
    int failed = s.size < 2 ? rush_fail(RUSH_VALUE_ERROR, "'%s' is no program", model) : rush_source_read(&s, 0, head, 2);
    bool zipped = head[0] == 'P' && head[1] == 'K';
    rush_zip *from = !failed && zipped ? rush_zip_open(s) : (rush_source_close(&s), NULL);
    if (failed || (zipped && !from)) return -1;
    const char *root = from && *from->root ? from->root : "archive";
    failed = zipped ? copy_entries(z, from, extras) : add_file(z, root, "model.onnx", model);
    if (!failed) failed = add(z, root, "extra/" DECLARATION, text, n);
    for (int k = 0; k < EXTRAS && !failed; ++k) {
        char name[64];
        snprintf(name, sizeof name, "extra/%s", extras[k].name);
        if (extras[k].path) failed = add_file(z, root, name, extras[k].path);
    }
    if (from) rush_zip_close(from);
    return failed;
}

/* Can what was written be read? An error names the file that it is to become. */
static int check_draft(const char *draft, const char *path)
{
    if (!draft) return -1;
    bool well = false;
    rush_scope() well = rush_program_load(draft) != NULL;
    const char *said = well ? NULL : rush_error(), *at = said ? strstr(said, draft) : NULL;
    if (!at) return well ? 0 : -1;
    rush_error_state e = rush_error_take();
    rush_fail((rush_error_kind)e.kind, "%.*s%s%s", (int)(at - said), said, path, at + strlen(draft));
    free(e.message);
    return -1;
}

static int write_archive(const char *model, const char *path, const rush_archive_options *o)
{
    const extra extras[EXTRAS] = {{"labels.txt", o->labels}, {"merges.txt", o->merges}, {"vocab.json", o->vocabulary}};
    rush_writing w;
    rush_zip_writer z;
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (f) declare(f, o);
    if (!f || fclose(f)) return free(text), rush_fail(RUSH_MEMORY_ERROR, "out of memory");
    int failed = rush_write_begin(&w, path);
    if (!failed) {
        rush_zip_begin(&z, rush_zip_to_file, &w);
        failed = write_all(&z, model, extras, text, n);
        failed = rush_zip_end(&z, !failed) || failed;
        failed = failed || check_draft(rush_write_draft(&w), path); /* what cannot be read takes nobody's place */
        failed = rush_write_end(&w, !failed) || failed;
    }
    free(text);
    return failed ? -1 : 0;
}

/* What would be left out in silence, or makes no sense; the rest is found when the draft is read. */
static int check_options(const rush_archive_options *o)
{
    bool pictures = o->gray || o->height || o->width || o->resize || o->mean.n || o->std.n, texts = o->vocabulary || o->length || o->padding;
    RUSH_CHECK(o->picture || !pictures, RUSH_VALUE_ERROR, "a size, gray, a mean or a deviation is of pictures: say that the input is some (picture)");
    RUSH_CHECK(o->merges || !texts, RUSH_VALUE_ERROR, "a vocabulary, a length or padding is of texts: say by which merges they become tokens (text)");
    RUSH_CHECK(!o->labels || o->top, RUSH_VALUE_ERROR, "labels are of the likeliest classes: say of how many (top)");
    for (size_t i = 0; i < o->std.n; ++i) RUSH_CHECK(o->std.data[i] != 0, RUSH_VALUE_ERROR, "a deviation of 0 cannot be divided by");
    return 0;
}

int rush_program_archive_with(const char *model, const char *path, const rush_archive_options *options)
{
    const rush_archive_options *o = RUSH_OPTIONS(options);
    if (rush_failed()) return -1;
    RUSH_CHECK(model && path, RUSH_TYPE_ERROR, "a path is missing (NULL)");
    RUSH_CHECK(!rush_script_is_archive(model), RUSH_NOT_IMPLEMENTED, "'%s' is a program of TorchScript: an archive holds one of torch.export or ONNX", model);
    if (check_options(o)) return -1;
    struct stat old;
    RUSH_CHECK(stat(path, &old) || S_ISREG(old.st_mode), RUSH_IO_ERROR, "can't write '%s': it is no regular file", path);
    return write_archive(model, path, o);
}
