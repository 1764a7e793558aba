/* images.c - a folder of pictures as a dataset: one folder below it for each class. */
#include "base/buried.h"
#include "data/dataset.h"
#include <dirent.h>
#include <rushlight/media.h>
#include <stdio.h>
#include <strings.h>

typedef struct names {
    char **name;
    int64_t n, room;
} names;

typedef struct images {
    rush_image_options o;
    names classes, files; /* files: whole paths, class by class */
    int32_t *label;
} images;

static char *joined(const char *folder, const char *name)
{
    size_t n = strlen(folder) + strlen(name) + 2;
    char *s = rush_malloc(n);
    if (s) snprintf(s, n, "%s/%s", folder, name);
    return s;
}

static int add_name(names *l, char *takes)
{
    if (takes && l->n == l->room) {
        int64_t room = l->room ? l->room * 2 : 64;
        char **more = rush_realloc(l->name, (size_t)room * sizeof *more);
        if (!more) rush_free(takes), takes = NULL;
        else l->name = more, l->room = room;
    }
    if (!takes) return -1;
    l->name[l->n++] = takes;
    return 0;
}

static void names_end(names *l)
{
    for (int64_t i = 0; i < l->n; i++) rush_free(l->name[i]);
    rush_free(l->name);
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static bool is_picture(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && (!strcasecmp(dot, ".png") || !strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg"));
}

/* The sorted names in a folder: folders, or pictures. */
static int list(const char *folder, bool folders, names *l)
{
    DIR *dir = opendir(folder);
    RUSH_CHECK(dir, RUSH_IO_ERROR, "can't read the folder '%s'", folder);
    int failed = 0;
    for (struct dirent *e; !failed && (e = readdir(dir));) {
        if (e->d_name[0] == '.') continue;
        char *path = joined(folder, e->d_name);
        DIR *inner = path && folders ? opendir(path) : NULL;
        if (!path) failed = -1;
        else if (folders ? inner != NULL : is_picture(e->d_name)) failed = add_name(l, folders ? joined(e->d_name, "") : path);
        if (inner) closedir(inner);
        if (!path || folders || !is_picture(e->d_name)) rush_free(path);
    }
    closedir(dir);
    if (l->n) qsort(l->name, (size_t)l->n, sizeof *l->name, by_name);
    return failed;
}

static int images_read(void *arg, int64_t index, rush_tensor **sample)
{
    images *m = arg;
    rush_tensor *t = rush_picture_load(m->files.name[index], (rush_picture_mode)m->o.mode);
    if (t && m->o.height && (t->size[1] != m->o.height || t->size[2] != m->o.width))
        t = T("vision_resize", V(t), INTS(m->o.height, m->o.width));
    if (t && !m->o.bytes) t = T("mul.Tensor", V(T("_to_dtype", V(t), rush_v_dtype(RUSH_F32))), V(t->dtype == RUSH_U16 ? 1.0 / 65535 : 1.0 / 255));
    sample[0] = t;
    int64_t label = m->label[index];
    sample[1] = t ? rush_from_data(&label, RUSH_I64, 0, NULL) : NULL;
    return sample[1] ? 0 : -1;
}

static void images_end(void *arg)
{
    images *m = arg;
    if (!m) return;
    names_end(&m->classes);
    names_end(&m->files);
    rush_free(m->label);
    rush_free(m);
}

static const rush_dataset_kind images_kind = {"images", images_read, NULL, images_end};

rush_dataset *rush_dataset_images_with(const char *folder, const rush_image_options *o)
{
    if (rush_failed()) return NULL;
    RUSH_CHECK_NULL(folder, RUSH_TYPE_ERROR, "pictures need a folder");
    o = RUSH_OPTIONS(o);
    RUSH_CHECK_NULL((o->height > 0) == (o->width > 0) && o->height >= 0, RUSH_VALUE_ERROR, "pictures are resized to a height and a width, not to %lld x %lld",
                    (long long)o->height, (long long)o->width);
    images *m = rush_calloc(1, sizeof *m);
    if (!m) return NULL;
    m->o = *o;
    if (!m->o.mode) m->o.mode = RUSH_PICTURE_RGB;
    int failed = list(folder, true, &m->classes);
    for (int64_t k = 0; !failed && k < m->classes.n; k++) {
        char *name = m->classes.name[k], *path;
        name[strlen(name) - 1] = 0; /* the slash that was added */
        names found = {0};
        failed = !(path = joined(folder, name)) || list(path, false, &found);
        int32_t *label = failed ? NULL : rush_realloc(m->label, (size_t)(m->files.n + found.n + 1) * sizeof *label);
        if (label) m->label = label;
        else failed = -1;
        for (int64_t i = 0; i < found.n; i++) {
            if (failed) rush_free(found.name[i]);
            else if (!(failed = add_name(&m->files, found.name[i]))) m->label[m->files.n - 1] = (int32_t)k;
        }
        rush_free(found.name);
        rush_free(path);
    }
    if (!failed && !m->files.n) failed = rush_fail(RUSH_VALUE_ERROR, "'%s' has no folders with PNG or JPEG pictures", folder);
    if (failed) return images_end(m), NULL;
    return rush_dataset_new(&images_kind, m, m->files.n, 2);
}

int rush_dataset_classes(const rush_dataset *d)
{
    return rush_lives(d, "a dataset") && d->kind == &images_kind ? (int)((images *)d->arg)->classes.n : 0;
}

const char *rush_dataset_class_name(const rush_dataset *d, int k)
{
    return k >= 0 && k < rush_dataset_classes(d) ? ((images *)d->arg)->classes.name[k] : NULL;
}
