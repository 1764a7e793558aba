/* content.c - what checkpoints hold besides tensors: numbers, texts, lists and dictionaries, as plain structures.
 *
 * Items are never freed one by one: they go with the scope they were made in. So they may refer to each other in
 * any way, in circles too, as pickles can.
 */
#include "io/content.h"
#include "base/buried.h"
#include "base/utf8.h"
#include "nn/module.h"

#include <stdio.h>

#define DEEPEST 1000
#define LONGEST_NAME 4096

enum { ENDED = 255 }; /* the kind of an item that is no more */

typedef struct parked {
    rush_object_end end;
    rush_content x;
} parked;

static void end(void *object)
{
    parked *p = object;
    p->x.kind = ENDED;
    rush_bury(p, sizeof *p, offsetof(parked, x.n));
}

rush_content *rush_content_new(int kind)
{
    parked *p = rush_malloc(sizeof *p);
    if (!p) return NULL;
    *p = (parked){end, {.kind = (uint8_t)kind}};
    return rush_park_object(p) ? &p->x : NULL;
}

bool rush_content_given(const rush_content *x)
{
    if (RUSH_LIKELY(x && x->kind <= RUSH_CONTENT_NAME)) return true;
    rush_fail(RUSH_TYPE_ERROR, !x ? "a value was expected, but there is none (NULL)" : x->kind == ENDED ? "a value is used after its scope was closed" : "a value of an unknown kind");
    return false;
}

rush_content *rush_content_bytes(int kind, const char *p, size_t n)
{
    rush_content *x = rush_content_new(kind);
    char *copy = x ? rush_scope_alloc(n + 1) : NULL;
    if (!copy) return NULL;
    memcpy(copy, p, n);
    copy[n] = 0;
    x->s = copy;
    x->n = n;
    return x;
}

rush_content *rush_content_none(void) { return rush_content_new(RUSH_CONTENT_NONE); }
rush_content *rush_content_list(void) { return rush_content_new(RUSH_CONTENT_LIST); }
rush_content *rush_content_tuple(void) { return rush_content_new(RUSH_CONTENT_TUPLE); }
rush_content *rush_content_dict(void) { return rush_content_new(RUSH_CONTENT_DICT); }
rush_content *rush_content_object(void)
{
    rush_content *x = rush_content_dict();
    if (x) x->type = "";
    return x;
}

rush_content *rush_content_text(const char *s)
{
    RUSH_CHECK_NULL(s, RUSH_TYPE_ERROR, "a text was expected, but there is none (NULL)");
    RUSH_CHECK_NULL(rush_utf8_is(s), RUSH_VALUE_ERROR, "the text '%.100s' is no UTF-8, as those of files are", s);
    return rush_content_bytes(RUSH_CONTENT_TEXT, s, strlen(s));
}

rush_content *rush_content_bool(bool b)
{
    rush_content *x = rush_content_new(RUSH_CONTENT_BOOL);
    if (x) x->i = b;
    return x;
}

rush_content *rush_content_int(int64_t i)
{
    rush_content *x = rush_content_new(RUSH_CONTENT_INT);
    if (x) x->i = i;
    return x;
}

rush_content *rush_content_float(double f)
{
    rush_content *x = rush_content_new(RUSH_CONTENT_FLOAT);
    if (x) x->f = f;
    return x;
}

rush_content *rush_content_tensor(rush_tensor *t)
{
    if (!rush_tensor_given(t)) return NULL;
    rush_content *x = rush_park(rush_keep(t)) ? rush_content_new(RUSH_CONTENT_TENSOR) : NULL;
    if (x) x->t = t;
    return x;
}

int rush_content_add(rush_content *to, rush_content **items, size_t n)
{
    if (!n) return 0;
    if (to->room - to->n < n) { /* the old array goes with the scope */
        size_t room = RUSH_MAX(to->room * 2, to->n + n);
        rush_content **more = rush_scope_alloc(room * sizeof *more);
        if (!more) return -1;
        if (to->n) memcpy(more, to->items, to->n * sizeof *more);
        to->items = more;
        to->room = room;
    }
    memcpy(to->items + to->n, items, n * sizeof *items);
    to->n += n;
    return 0;
}

int rush_content_append(rush_content *list, rush_content *x)
{
    if (rush_failed()) return -1;
    if (!rush_content_given(list) || !rush_content_given(x)) return -1;
    RUSH_CHECK(list->kind == RUSH_CONTENT_LIST || list->kind == RUSH_CONTENT_TUPLE || list->kind == RUSH_CONTENT_SET, RUSH_TYPE_ERROR, "only lists, tuples and sets are appended to");
    return rush_content_add(list, &x, 1);
}

int rush_content_pair(rush_content *dict, rush_content *key, rush_content *x)
{
    if (rush_failed()) return -1;
    if (!rush_content_given(dict) || !rush_content_given(key) || !rush_content_given(x)) return -1;
    RUSH_CHECK(dict->kind == RUSH_CONTENT_DICT, RUSH_TYPE_ERROR, "only dictionaries have keys");
    return rush_content_add(dict, (rush_content *[]){key, x}, 2);
}

int rush_content_set(rush_content *dict, const char *key, rush_content *x)
{
    if (rush_failed()) return -1;
    if (!rush_content_given(dict) || !rush_content_given(x)) return -1;
    RUSH_CHECK(key, RUSH_TYPE_ERROR, "setting an item needs a key");
    RUSH_CHECK(dict->kind == RUSH_CONTENT_DICT, RUSH_TYPE_ERROR, "only dictionaries have keys");
    for (size_t i = 0; i + 1 < dict->n; i += 2)
        if (dict->items[i]->kind == RUSH_CONTENT_TEXT && !strcmp(dict->items[i]->s, key)) {
            dict->items[i + 1] = x;
            return 0;
        }
    rush_content *pair[2] = {rush_content_text(key), x};
    return pair[0] ? rush_content_add(dict, pair, 2) : -1;
}

rush_content *rush_content_state(rush_state s)
{
    if (!rush_state_given(s)) return NULL;
    rush_content *dict = rush_content_dict();
    for (int i = 0; dict && i < s.n; i++) {
        rush_content *pair[2] = {rush_content_text(s.name[i]), rush_content_tensor(s.tensor[i])};
        if (!pair[0] || !pair[1] || rush_content_add(dict, pair, 2)) dict = NULL;
    }
    return dict;
}

rush_content *rush_content_get(const rush_content *dict, const char *key)
{
    if (!rush_content_given(dict)) return NULL;
    RUSH_CHECK_NULL(key, RUSH_TYPE_ERROR, "looking up needs a key");
    if (dict->kind != RUSH_CONTENT_DICT) return NULL;
    for (size_t i = 0; i + 1 < dict->n; i += 2)
        if (dict->items[i]->kind == RUSH_CONTENT_TEXT && !strcmp(dict->items[i]->s, key)) return dict->items[i + 1];
    return NULL;
}

rush_content *rush_content_at(const rush_content *list, size_t i)
{
    if (!rush_content_given(list)) return NULL;
    if (list->kind < RUSH_CONTENT_LIST || list->kind > RUSH_CONTENT_DICT) return NULL;
    if (list->kind == RUSH_CONTENT_DICT) i = 2 * i + 1;
    return i < list->n ? list->items[i] : NULL;
}

/* ---- all tensors below an item ---- */

typedef struct walk {
    rush_state s;
    int room;
    uint64_t visits;
    char name[LONGEST_NAME];
} walk;

static int found(walk *w, rush_tensor *t, size_t length)
{
    if (w->s.n == w->room) {
        int room = RUSH_MAX(w->room * 2, 64);
        const char **names = rush_scope_alloc((size_t)room * sizeof *names);
        rush_tensor **tensors = rush_scope_alloc((size_t)room * sizeof *tensors);
        if (!names || !tensors) return -1;
        if (w->s.n) {
            memcpy(names, w->s.name, (size_t)w->s.n * sizeof *names);
            memcpy(tensors, w->s.tensor, (size_t)w->s.n * sizeof *tensors);
        }
        w->s.name = names, w->s.tensor = tensors, w->room = room;
    }
    char *name = rush_scope_alloc(length + 1);
    if (!name) return -1;
    memcpy(name, w->name, length);
    name[length] = 0;
    w->s.name[w->s.n] = name;
    w->s.tensor[w->s.n++] = t;
    return 0;
}

static int below(walk *w, const rush_content *x, size_t length, int depth)
{
    RUSH_CHECK(depth < DEEPEST && ++w->visits < 100000000, RUSH_VALUE_ERROR, "the values are nested too deep, or in a circle, at '%.200s'", w->name);
    if (x->kind == RUSH_CONTENT_TENSOR) return found(w, x->t, length);
    bool dict = x->kind == RUSH_CONTENT_DICT;
    if (x->kind < RUSH_CONTENT_LIST || x->kind > RUSH_CONTENT_DICT) return 0;
    for (size_t i = 0; i < x->n; i += dict ? 2 : 1) {
        const rush_content *key = x->items[i];
        char digits[32];
        const char *word = digits;
        if (dict && key->kind == RUSH_CONTENT_TEXT) word = key->s;
        else if (dict && (key->kind == RUSH_CONTENT_INT || key->kind == RUSH_CONTENT_BOOL)) snprintf(digits, sizeof digits, "%lld", (long long)key->i);
        else if (dict) continue;
        else snprintf(digits, sizeof digits, "%zu", i);
        size_t n = strlen(word), dot = length > 0;
        RUSH_CHECK(length + n + dot < sizeof w->name, RUSH_VALUE_ERROR, "a name is too long: '%.200s'...", w->name);
        if (dot) w->name[length] = '.';
        memcpy(w->name + length + dot, word, n + 1);
        if (below(w, x->items[dict ? i + 1 : i], length + dot + n, depth + 1)) return -1;
        w->name[length] = 0;
    }
    return 0;
}

rush_state rush_content_tensors(const rush_content *x)
{
    walk w = {.s = {.n = 0}};
    if (rush_failed() || !rush_content_given(x) || below(&w, x, 0, 0)) return (rush_state){.n = -1};
    return w.s;
}
