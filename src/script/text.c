/* text.c - str in programs: its methods, with PyTorch's arguments and defaults, and both ways to format. Texts are bytes; what letters
 * are is said of ASCII. One table at the end.
 */
#include "script/builtin.h"
#include "base/text.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>

typedef struct piece { const char *s; size_t n; } piece;

static bool is_text(const script_call *c, int k) { return k < c->n && c->in[k].kind == SCRIPT_TEXT; }
static piece whole(script_value v) { return (piece){v.box->text, v.box->n}; }

static int64_t number(const script_call *c, int k, const char *name, int64_t standard)
{
    const script_value *v = rush_script_argument(c, k, name);
    return v && (v->kind == SCRIPT_INT || v->kind == SCRIPT_BOOL) ? v->i : standard;
}

/* Adds to a text that is being made; one that could not be made any longer becomes UNSET and stays it. */
static void add(script_value *all, const char *s, size_t n)
{
    if (all->kind == SCRIPT_UNSET) return;
    script_box *b = all->box;
    if (b->n + n + 1 > b->room) {
        size_t room = RUSH_MAX(b->room * 2, b->n + n + 32);
        char *p = rush_realloc(b->text, room);
        if (!p) {
            rush_script_drop(*all);
            all->kind = SCRIPT_UNSET;
            return;
        }
        b->text = p;
        b->room = room;
    }
    if (n) memcpy(b->text + b->n, s, n);
    b->text[b->n += n] = 0;
}

static void add_times(script_value *all, char x, int64_t n)
{
    for (int64_t i = 0; i < n && all->kind != SCRIPT_UNSET; ++i) add(all, &x, 1);
}

static void add_value(script_value *all, script_value v)
{
    script_value text = rush_script_print(v, false);
    if (text.kind == SCRIPT_UNSET) {
        rush_script_drop(*all);
        all->kind = SCRIPT_UNSET;
        return;
    }
    add(all, text.box->text, text.box->n);
    rush_script_drop(text);
}

/* The same of a list of texts. */
static void append(script_value *list, const char *s, size_t n)
{
    if (list->kind == SCRIPT_UNSET) return;
    script_value text = rush_script_text(s, n);
    if (text.kind == SCRIPT_UNSET || rush_script_append(list->box, text)) {
        rush_script_drop(*list);
        list->kind = SCRIPT_UNSET;
    }
    rush_script_drop(text);
}

/* ---- formatting ---- */

/* Only "{}" stands for an argument, as in PyTorch. */
FUNCTION(format)
{
    if (!is_text(c, 0)) NOT_MINE;
    script_value all = rush_script_text("", 0);
    const char *s = c->in[0].box->text;
    int next = 1;
    for (const char *at; all.kind != SCRIPT_UNSET && (at = strstr(s, "{}")); s = at + 2) {
        add(&all, s, (size_t)(at - s));
        if (next == c->n) return rush_script_drop(all), rush_fail(RUSH_RUNTIME_ERROR, "Too few arguments for format string: %.100s", c->in[0].box->text);
        add_value(&all, c->in[next++]);
    }
    add(&all, s, strlen(s));
    return give(out, all);
}

/* Adds one argument of "..." % arguments. */
static int add_specified(script_value *all, char what, script_value v)
{
    static const char *const kinds[] = {[SCRIPT_NONE] = "None", [SCRIPT_FLOAT] = "Double", [SCRIPT_COMPLEX] = "ComplexDouble", [SCRIPT_TENSOR] = "Tensor", [SCRIPT_DEVICE] = "Device",
                                        [SCRIPT_TEXT] = "String", [SCRIPT_LIST] = "GenericList", [SCRIPT_TUPLE] = "Tuple", [SCRIPT_DICT] = "GenericDict", [SCRIPT_OBJECT] = "Object"};
    const char *kind = v.kind < RUSH_COUNT(kinds) && kinds[v.kind] ? kinds[v.kind] : rush_script_kind_name(v);
    const bool real = script_is_number(v) && v.kind != SCRIPT_COMPLEX;
    char text[400], how[] = {'%', what, 0};
    switch (what) {
    case 's': add_value(all, v); return 0;
    case 'd': case 'i':
        RUSH_CHECK(real, RUSH_RUNTIME_ERROR, "%%%c requires a number for formatting, but got %s", what, kind);
        if (v.kind == SCRIPT_FLOAT) snprintf(text, sizeof text, "%.0f", trunc(v.f));
        else snprintf(text, sizeof text, "%lld", (long long)v.i);
        break;
    case 'e': case 'E': case 'f': case 'F':
        RUSH_CHECK(real, RUSH_RUNTIME_ERROR, "%%%c requires a number for formatting, but got %s", what, kind);
        rush_snprintf(text, sizeof text, how, rush_script_double(v));
        break;
    case 'c':
        RUSH_CHECK(v.kind == SCRIPT_INT || (v.kind == SCRIPT_TEXT && v.box->n == 1), RUSH_RUNTIME_ERROR, "%%c requires an int or char for formatting, but got %s", kind);
        snprintf(text, sizeof text, "%c", v.kind == SCRIPT_INT ? (int)v.i : v.box->text[0]);
        break;
    default: return rush_fail(RUSH_RUNTIME_ERROR, "The specifier %%%c is not supported in TorchScript format strings", what);
    }
    add(all, text, strlen(text));
    return 0;
}

static int formatted(const char *s, int n, const script_value *in, script_value *all)
{
    int next = 0;
    while (*s && all->kind != SCRIPT_UNSET) {
        size_t plain = strcspn(s, "%");
        add(all, s, plain);
        s += plain;
        if (!*s) break;
        RUSH_CHECK(s[1], RUSH_RUNTIME_ERROR, "Incomplete format specifier");
        RUSH_CHECK(s[1] == '%' || next < n, RUSH_RUNTIME_ERROR, "Too few arguments for format string");
        if (s[1] == '%') add(all, "%", 1);
        else if (add_specified(all, s[1], in[next++])) return -1;
        s += 2;
    }
    RUSH_CHECK(next >= n, RUSH_RUNTIME_ERROR, "Too many arguments for format string");
    return 0;
}

FUNCTION(percent_format)
{
    if (!is_text(c, 0)) NOT_MINE;
    const bool several = c->n == 2 && c->in[1].kind == SCRIPT_TUPLE;
    script_value all = rush_script_text("", 0);
    if (formatted(c->in[0].box->text, several ? (int)c->in[1].box->n : c->n - 1, several ? c->in[1].box->item : c->in + 1, &all)) return rush_script_drop(all), -1;
    return give(out, all);
}

FUNCTION(join)
{
    if (!is_text(c, 0) || c->n != 2) NOT_MINE;
    script_value items, all = rush_script_text("", 0);
    if (rush_script_items(c->in[1], &items)) return rush_script_drop(all), -1;
    for (size_t i = 0; i < items.box->n && all.kind != SCRIPT_UNSET; ++i) {
        script_value v = items.box->item[i];
        if (v.kind != SCRIPT_TEXT) return rush_script_drop(items), rush_script_drop(all), rush_fail(RUSH_TYPE_ERROR, "join wants texts");
        if (i) add(&all, c->in[0].box->text, c->in[0].box->n);
        add(&all, v.box->text, v.box->n);
    }
    rush_script_drop(items);
    return give(out, all);
}

/* ---- letters ---- */

FUNCTION(text_case)
{
    if (!is_text(c, 0)) NOT_MINE;
    *out = rush_script_text(c->in[0].box->text, c->in[0].box->n);
    if (out->kind == SCRIPT_UNSET) return -1;
    const char *name = c->name;
    bool first = true;
    for (char *s = out->box->text; *s; ++s) {
        const unsigned char x = (unsigned char)*s;
        const bool up = !strcmp(name, "swapcase") ? islower(x) : !strcmp(name, "upper") || (first && strcmp(name, "lower"));
        *s = up ? rush_upper(*s) : rush_lower(*s);
        first = !strcmp(name, "title") && !isalpha(x);
    }
    return 0;
}

static bool is_digit(unsigned char x) { return isdigit(x); }
static bool is_letter(unsigned char x) { return isalpha(x); }
static bool is_either(unsigned char x) { return isalnum(x); }
static bool is_space(unsigned char x) { return isspace(x); }

FUNCTION(all_are)
{
    static const struct { const char *name; bool (*is)(unsigned char); } questions[] = {
        {"isdigit", is_digit}, {"isdecimal", is_digit}, {"isnumeric", is_digit}, {"isalpha", is_letter}, {"isalnum", is_either}, {"isspace", is_space}};
    if (!is_text(c, 0)) NOT_MINE;
    size_t k = 0;
    while (strcmp(questions[k].name, c->name)) ++k;
    bool all = c->in[0].box->n > 0;
    for (const char *s = c->in[0].box->text; *s; ++s) all = all && questions[k].is((unsigned char)*s);
    return give_bool(out, all);
}

FUNCTION(is_printable)
{
    if (!is_text(c, 0)) NOT_MINE;
    bool all = true;
    for (const char *s = c->in[0].box->text; *s; ++s) all = all && isprint((unsigned char)*s);
    return give_bool(out, all);
}

FUNCTION(is_identifier)
{
    if (!is_text(c, 0)) NOT_MINE;
    const char *text = c->in[0].box->text;
    bool all = *text && !isdigit((unsigned char)*text);
    for (const char *s = text; *s; ++s) all = all && (*s == '_' || isalnum((unsigned char)*s));
    return give_bool(out, all);
}

/* islower, isupper; istitle: words begin with a capital, and nothing else is one. There must be a letter. */
FUNCTION(case_is)
{
    if (!is_text(c, 0)) NOT_MINE;
    bool any = false, all = true, first = true;
    for (const char *s = c->in[0].box->text; *s; ++s) {
        const unsigned char x = (unsigned char)*s;
        const bool up = c->name[2] == 'u' || (c->name[2] == 't' && first);
        if (isalpha(x)) any = true, all = all && (up ? isupper(x) : islower(x));
        first = !isalpha(x);
    }
    return give_bool(out, any && all);
}

/* ---- searching ---- */

/* The part of a text that the arguments start and end say; an end below zero counts from behind the last byte, so -1 is the whole. */
static bool part(const script_call *c, piece *p)
{
    const int64_t n = (int64_t)p->n;
    int64_t start = number(c, 2, "start", 0), end = number(c, 3, "end", -1);
    start = RUSH_MAX(start < 0 ? start + n : start, 0);
    end = RUSH_MIN(end < 0 ? end + n + 1 : end, n);
    if (start > end) return false;
    *p = (piece){p->s + start, (size_t)(end - start)};
    return true;
}

static int64_t place(piece in, piece what, bool last)
{
    const int64_t most = (int64_t)in.n - (int64_t)what.n;
    for (int64_t i = 0; i <= most; ++i)
        if (!memcmp(in.s + (last ? most - i : i), what.s, what.n)) return last ? most - i : i;
    return -1;
}

/* find, rfind, index, rindex */
FUNCTION(find)
{
    if (!is_text(c, 0) || !is_text(c, 1)) NOT_MINE;
    piece in = whole(c->in[0]);
    const int64_t at = part(c, &in) ? place(in, whole(c->in[1]), c->name[0] == 'r') : -1;
    RUSH_CHECK(at >= 0 || strstr(c->name, "find"), RUSH_RUNTIME_ERROR, "ValueError: substring not found");
    return give_int(out, at < 0 ? at : in.s - c->in[0].box->text + at);
}

FUNCTION(count)
{
    if (!is_text(c, 0) || !is_text(c, 1)) NOT_MINE;
    piece in = whole(c->in[0]), what = whole(c->in[1]);
    if (!part(c, &in)) return give_int(out, 0);
    if (!what.n) return give_int(out, (int64_t)in.n + 1);
    int64_t n = 0;
    for (int64_t at; (at = place(in, what, false)) >= 0; ++n) in = (piece){in.s + at + what.n, in.n - (size_t)at - what.n};
    return give_int(out, n);
}

FUNCTION(text_ends)
{
    if (!is_text(c, 0) || !is_text(c, 1)) NOT_MINE;
    piece in = whole(c->in[0]), what = whole(c->in[1]);
    if (!part(c, &in) || what.n > in.n) return give_bool(out, false);
    return give_bool(out, !memcmp(in.s + (c->name[0] == 's' ? 0 : in.n - what.n), what.s, what.n));
}

/* ---- taking apart ---- */

FUNCTION(strip)
{
    if (!is_text(c, 0)) NOT_MINE;
    const char *set = is_text(c, 1) ? c->in[1].box->text : " \t\n\r\f\v", *s = c->in[0].box->text, *end = s + c->in[0].box->n;
    while (c->name[0] != 'r' && s < end && strchr(set, *s)) ++s;
    while (c->name[0] != 'l' && s < end && strchr(set, end[-1])) --end;
    return give(out, rush_script_text(s, (size_t)(end - s)));
}

/* At blanks, which there may be several of. */
static int split_words(const char *s, int64_t most, script_value *out)
{
    static const char blanks[] = " \t\n\r\f\v";
    *out = rush_script_list(SCRIPT_LIST, 0, NULL);
    for (int64_t k = 0; out->kind != SCRIPT_UNSET && *(s += strspn(s, blanks)); ++k) {
        const size_t n = most >= 0 && k >= most ? strlen(s) : strcspn(s, blanks);
        append(out, s, n);
        s += n;
    }
    return out->kind == SCRIPT_UNSET ? -1 : 0;
}

FUNCTION(split)
{
    if (!is_text(c, 0)) NOT_MINE;
    const script_value *given = rush_script_argument(c, 1, "separator");
    const int64_t most = number(c, 2, "max", -1);
    piece in = whole(c->in[0]), by = {" ", 1};
    const bool last = c->name[0] == 'r';
    if (given && given->kind != SCRIPT_TEXT) NOT_MINE;
    if (!given && !last) return split_words(in.s, most, out);
    if (given) by = whole(*given);
    RUSH_CHECK(by.n, RUSH_RUNTIME_ERROR, "ValueError: empty separator");
    *out = rush_script_list(SCRIPT_LIST, 0, NULL);
    int64_t at;
    for (int64_t k = 0; (most < 0 || k < most) && (at = place(in, by, last)) >= 0; ++k) {
        const size_t behind = (size_t)at + by.n;
        if (last) append(out, in.s + behind, in.n - behind), in.n = (size_t)at;
        else append(out, in.s, (size_t)at), in = (piece){in.s + behind, in.n - behind};
    }
    append(out, in.s, in.n);
    if (out->kind == SCRIPT_UNSET) return -1;
    for (size_t i = 0, n = out->box->n; last && i < n / 2; ++i) { /* found from behind */
        script_value v = out->box->item[i];
        out->box->item[i] = out->box->item[n - 1 - i];
        out->box->item[n - 1 - i] = v;
    }
    return 0;
}

FUNCTION(split_lines)
{
    if (!is_text(c, 0)) NOT_MINE;
    const bool kept = number(c, 1, "keepends", 0);
    *out = rush_script_list(SCRIPT_LIST, 0, NULL);
    for (const char *s = c->in[0].box->text; out->kind != SCRIPT_UNSET && *s;) {
        const size_t n = strcspn(s, "\n\r\v\f"), end = !s[n] ? 0 : s[n] == '\r' && s[n + 1] == '\n' ? 2 : 1;
        append(out, s, n + (kept ? end : 0));
        s += n + end;
    }
    return out->kind == SCRIPT_UNSET ? -1 : 0;
}

FUNCTION(partition)
{
    if (!is_text(c, 0) || !is_text(c, 1)) NOT_MINE;
    piece in = whole(c->in[0]), by = whole(c->in[1]);
    const bool last = c->name[0] == 'r';
    RUSH_CHECK(by.n, RUSH_RUNTIME_ERROR, "ValueError: empty separator");
    const int64_t at = place(in, by, last);
    const size_t before = at >= 0 ? (size_t)at : last ? 0 : in.n, behind = at >= 0 ? (size_t)at + by.n : before;
    *out = rush_script_list(SCRIPT_TUPLE, 0, NULL);
    append(out, in.s, before);
    append(out, by.s, at >= 0 ? by.n : 0);
    append(out, in.s + behind, in.n - behind);
    return out->kind == SCRIPT_UNSET ? -1 : 0;
}

/* ---- others of it ---- */

FUNCTION(replace)
{
    if (!is_text(c, 0) || !is_text(c, 1) || !is_text(c, 2)) NOT_MINE;
    piece in = whole(c->in[0]), old = whole(c->in[1]), made = whole(c->in[2]);
    const int64_t most = number(c, 3, "max", -1);
    script_value all = rush_script_text("", 0);
    int64_t at;
    for (int64_t k = 0; all.kind != SCRIPT_UNSET && (most < 0 || k < most) && (at = place(in, old, false)) >= 0; ++k) {
        const size_t passed = old.n ? (size_t)at + old.n : RUSH_MIN(in.n, (size_t)1); /* nothing stands before each letter, and behind the last */
        add(&all, in.s, (size_t)at);
        add(&all, made.s, made.n);
        if (!old.n) add(&all, in.s, passed);
        if (!old.n && !in.n) return give(out, all);
        in = (piece){in.s + passed, in.n - passed};
    }
    add(&all, in.s, in.n);
    return give(out, all);
}

/* ljust, rjust, center */
FUNCTION(justify)
{
    if (!is_text(c, 0)) NOT_MINE;
    const script_value *fill = rush_script_argument(c, 2, "fillchar");
    const int64_t n = (int64_t)c->in[0].box->n, width = number(c, 1, "width", 0), room = RUSH_MAX(width - n, 0);
    RUSH_CHECK(!fill || (fill->kind == SCRIPT_TEXT && fill->box->n == 1), RUSH_RUNTIME_ERROR, "TypeError: The fill character must be exactly one character long");
    RUSH_CHECK(width < 1 << 28, RUSH_MEMORY_ERROR, "a text of %lld letters", (long long)width);
    const int64_t left = c->name[0] == 'l' ? 0 : c->name[0] == 'r' ? room : room / 2 + (room & width & 1);
    const char x = fill ? fill->box->text[0] : ' ';
    script_value all = rush_script_text("", 0);
    add_times(&all, x, left);
    add(&all, c->in[0].box->text, (size_t)n);
    add_times(&all, x, room - left);
    return give(out, all);
}

FUNCTION(zfill)
{
    if (!is_text(c, 0)) NOT_MINE;
    piece in = whole(c->in[0]);
    const int64_t width = number(c, 1, "width", 0);
    const size_t sign = in.n && (in.s[0] == '-' || in.s[0] == '+');
    RUSH_CHECK(width < 1 << 28, RUSH_MEMORY_ERROR, "a text of %lld letters", (long long)width);
    script_value all = rush_script_text(in.s, sign);
    add_times(&all, '0', width - (int64_t)in.n);
    add(&all, in.s + sign, in.n - sign);
    return give(out, all);
}

FUNCTION(expand_tabs)
{
    if (!is_text(c, 0)) NOT_MINE;
    const int64_t tab = number(c, 1, "tabsize", 8);
    script_value all = rush_script_text("", 0);
    int64_t column = 0;
    for (const char *s = c->in[0].box->text; *s; ++s) {
        const int64_t n = *s != '\t' ? 1 : tab > 0 ? tab - column % tab : 0;
        add_times(&all, *s == '\t' ? ' ' : *s, n);
        column = *s == '\n' || *s == '\r' ? 0 : column + n;
    }
    return give(out, all);
}

static const struct { const char *name; script_builtin f; } table[] = {
    {"format", format}, {"percentFormat", percent_format}, {"join", join}, {"upper", text_case}, {"lower", text_case}, {"title", text_case}, {"capitalize", text_case}, {"swapcase", text_case},
    {"isdigit", all_are}, {"isdecimal", all_are}, {"isnumeric", all_are}, {"isalpha", all_are}, {"isalnum", all_are}, {"isspace", all_are}, {"isprintable", is_printable},
    {"isidentifier", is_identifier}, {"islower", case_is}, {"isupper", case_is}, {"istitle", case_is}, {"find", find}, {"rfind", find}, {"index", find}, {"rindex", find}, {"count", count},
    {"startswith", text_ends}, {"endswith", text_ends}, {"strip", strip}, {"lstrip", strip}, {"rstrip", strip}, {"split", split}, {"rsplit", split}, {"splitlines", split_lines},
    {"partition", partition}, {"rpartition", partition}, {"replace", replace}, {"ljust", justify}, {"rjust", justify}, {"center", justify}, {"zfill", zfill}, {"expandtabs", expand_tabs}};

script_builtin rush_script_text_method(const char *name)
{
    for (size_t i = 0; i < RUSH_COUNT(table); ++i)
        if (!strcmp(table[i].name, name)) return table[i].f;
    return NULL;
}
