/* add.c - programs that grow: attributes and methods that C adds to classes, and their text where archives are written.
 *
 * A class remembers the text that it was read from. What is added is parsed as more of its body, bound, and kept beside that text as
 * lines at its end; save.c asks for both as one text. Objects of other programs may be held, whose classes may have the same names:
 * where all are written, each program's "__torch__" gets a name of its own.
 */
#include "script/script.h"
#include "script/text_of.h"

#include <ctype.h>
#include <stdio.h>

/* ---- text, token by token ---- */

static int put(script_writer *w, const char *s, size_t n)
{
    if (w->n + n + 1 > w->room) {
        size_t room = 2 * w->room + n + 64;
        char *more = rush_realloc(w->p, room);
        if (!more) return -1;
        w->p = more;
        w->room = room;
    }
    memcpy(w->p + w->n, s, n);
    w->n += n;
    w->p[w->n] = 0;
    return 0;
}

int rush_script_put(script_writer *w, const char *s) { return put(w, s, strlen(s)); }

/* How long the text in quotes is, from its first quote on. */
static size_t quoted(const char *s, const char *end)
{
    const char *p = s;
    const bool triple = end - s >= 3 && s[1] == *s && s[2] == *s;
    for (p += triple ? 3 : 1; p < end; ++p) {
        if (*p == '\\' && p + 1 < end) ++p;
        else if (*p == *s && (!triple || (end - p >= 3 && p[1] == *s && p[2] == *s))) return (size_t)(p - s) + (triple ? 3 : 1);
    }
    return (size_t)(end - s);
}

static size_t name_length(const char *s, const char *end)
{
    const char *p = s;
    while (p < end && (isalnum((unsigned char)*p) || *p == '_')) ++p;
    return (size_t)(p - s);
}

static bool begins(const char *s, const char *end, const char *with) { return (size_t)(end - s) >= strlen(with) && !memcmp(s, with, strlen(with)); }

/* A name of n letters, which stands behind no dot, in a text that is written with others; how many letters it took. */
static size_t put_name(script_writer *w, const script_place *at, const char *s, size_t n, const char *end)
{
    char *after, number[32];
    if (n == 9 && begins(s, end, "__torch__.") && !begins(s, end, "__torch__.torch.classes.")) return put(w, at->name, strlen(at->name)) ? 0 : n;
    if (n > 8 && begins(s, end, "__used__") && isdigit((unsigned char)s[8])) {
        const unsigned long k = strtoul(s + 8, &after, 10);
        if (k < at->unit->nused) return put(w, at->used[k]->name, strlen(at->used[k]->name)) ? 0 : n;
    }
    if (n == 9 && begins(s, end, "CONSTANTS.c") && at->constants && end - s > 11 && isdigit((unsigned char)s[11])) {
        const unsigned long k = strtoul(s + 11, &after, 10);
        snprintf(number, sizeof number, "CONSTANTS.c%zu", at->constants + k);
        return put(w, number, strlen(number)) ? 0 : (size_t)(after - s);
    }
    return put(w, s, n) ? 0 : n;
}

/* The text as it is, but for names where `at` is given, and with its lines moved where by is not 0. */
static int put_text(script_writer *w, const script_place *at, const char *s, const char *end, int by)
{
    bool fresh = true, dotted = false;
    while (s < end) {
        size_t n = 1;
        if (fresh) {
            const char *line = s;
            while (s < end && (*s == ' ' || *s == '\t')) ++s;
            const ptrdiff_t column = s - line + by;
            for (ptrdiff_t i = 0; s < end && *s != '\n' && i < column; ++i)
                if (put(w, by ? " " : line + i, 1)) return -1;
            fresh = false;
            continue;
        }
        if (*s == '"' || *s == '\'') n = quoted(s, end);
        else if (*s == '#') while (s + n < end && s[n] != '\n') ++n;
        else if (isdigit((unsigned char)*s)) n = name_length(s, end);
        else if (isalpha((unsigned char)*s) || *s == '_') {
            const size_t taken = name_length(s, end);
            if (at && !dotted) {
                if (!(n = put_name(w, at, s, taken, end))) return -1;
                s += n;
                continue;
            }
            n = taken;
        }
        dotted = *s == '.';
        fresh = *s == '\n';
        if (put(w, s, n)) return -1;
        s += n;
    }
    return 0;
}

int rush_script_put_text(script_writer *w, const script_place *at, const script_text *t)
{
    size_t done = 0, least = 0; /* where the last class ended, and the next one ends at the least */
    for (;;) {
        const script_class *next = NULL;
        for (const script_class *c = at->unit->first_class; c; c = c->next)
            if (c->text == t && c->added && c->end >= least && (!next || c->end < next->end)) next = c;
        const size_t end = next ? next->end : t->n;
        if (put_text(w, at, t->text + done, t->text + end, 0)) return -1;
        if (!next) return 0;
        if (w->n && w->p[w->n - 1] != '\n' && put(w, "\n", 1)) return -1;
        for (const script_piece *piece = next->added; piece; piece = piece->next)
            if (put_text(w, at, piece->text, piece->text + piece->n, 0)) return -1;
        done = end;
        least = end + 1;
    }
}

/* ---- adding ---- */

/* The column of the first line that says something; -1: there is none. */
static int first_column(const char *s)
{
    for (int column = 0; *s; ++s) {
        if (*s == '\n') column = 0;
        else if (*s == '#') s += strcspn(s, "\n") - 1, column = 0;
        else if (*s == ' ' || *s == '\t') ++column;
        else if (*s != '\r') return column;
    }
    return -1;
}

static int keep_piece(script_class *c, const char *text, size_t n)
{
    script_piece *piece = rush_script_alloc(c->unit, sizeof *piece), *last = c->added;
    if (!piece || !(piece->text = rush_script_copy(c->unit, text, n))) return -1;
    piece->n = n;
    while (last && last->next) last = last->next;
    if (last) last->next = piece;
    else c->added = piece;
    return 0;
}

int rush_script_put_lines(script_writer *w, const char *lines, int column)
{
    if (put_text(w, NULL, lines, lines + strlen(lines), column - RUSH_MAX(first_column(lines), 0))) return -1;
    return w->n && w->p[w->n - 1] != '\n' ? put(w, "\n", 1) : 0;
}

/* Bound again, all of it: names may stand for what was added. */
static int grow(script_class *c, const char *lines, size_t n, bool methods, const char *file)
{
    script_writer w = {0};
    int failed = put(&w, ":\n", 2) || put(&w, lines, n) || rush_script_parse_more(c->unit, w.p, w.n, c, methods, file);
    rush_free(w.p);
    c->grows = true;
    return failed || rush_script_bind(c->unit) || keep_piece(c, lines, n) ? -1 : 0;
}

int rush_script_class_add(script_class *c, const char *lines, bool methods, const char *file)
{
    const script_class before = *c;
    script_function **end = &c->method;
    script_writer w = {0};
    RUSH_CHECK(c->text, RUSH_NOT_IMPLEMENTED, "%s is no class that can be added to", c->path);
    if (rush_failed()) return -1;
    if (first_column(lines) < 0) return 0;
    while (*end) end = &(*end)->next;
    int failed = rush_script_put_lines(&w, lines, c->indent);
    if (!failed && (failed = grow(c, w.p, w.n, methods, file))) { /* as it was; what fields had room for stays in the arena */
        *end = NULL;
        c->nfields = before.nfields;
        c->nslots = before.nslots;
        c->field = before.field;
        c->parameters = before.parameters;
        c->buffers = before.buffers;
    }
    rush_free(w.p);
    return failed ? -1 : 0;
}

/* ---- several programs ---- */

static bool holds(const script_unit *u, const script_unit *other)
{
    if (u == other) return true;
    for (uint32_t i = 0; i < u->nused; ++i)
        if (holds(u->used[i], other)) return true;
    return false;
}

int rush_script_unit_use(script_unit *u, script_unit *other)
{
    for (uint32_t i = 0; i < u->nused; ++i)
        if (u->used[i] == other) return (int)i;
    RUSH_CHECK(!holds(other, u), RUSH_NOT_IMPLEMENTED, "two programs would hold objects of each other");
    script_unit **more = rush_realloc(u->used, (u->nused + 1) * sizeof *more);
    if (!more) return -1;
    u->used = more;
    atomic_fetch_add(&other->refs, 1);
    more[u->nused] = other;
    return (int)u->nused++;
}
