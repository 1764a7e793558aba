/* parse.c - TorchScript's text as nodes: a reader of Python's expressions, statements, functions and classes.
 *
 * Recursive descent with one token ahead. Names that are stored to in a function are its locals, numbered as they are met; all
 * others are bound later. Nothing is believed of the text: nesting is limited, and what is no TorchScript is an error with its line.
 */
#include "script/script.h"
#include "base/utf8.h"
#include "base/text.h"

#include <ctype.h>
#include <stdio.h>

enum { DEEPEST = 200, MOST_INDENTS = 100 };

/* ---- units ---- */

script_unit *rush_script_unit_new(void)
{
    script_unit *u = rush_calloc(1, sizeof *u);
    if (!u) return NULL;
    atomic_init(&u->refs, 1);
    return u;
}

void rush_script_unit_drop(script_unit *u)
{
    if (!u || atomic_fetch_sub(&u->refs, 1) > 1) return;
    rush_script_drop(u->root);
    rush_script_drop(u->constants);
    for (uint32_t i = 0; i < u->nused; ++i) rush_script_unit_drop(u->used[i]);
    rush_free(u->used);
    rush_arena_free(&u->arena);
    rush_free(u);
}

void *rush_script_alloc(script_unit *u, size_t bytes) { return rush_arena_alloc(&u->arena, bytes); }
const char *rush_script_copy(script_unit *u, const char *s, size_t n) { return rush_arena_copy(&u->arena, s, n); }

/* ---- tokens ---- */

enum token { END, NEWLINE, INDENT, DEDENT, NAME, NUMBER, TEXT, SIGN, BROKEN };

typedef struct parser {
    script_unit *u;
    const char *p, *end, *text, *file, *path;
    uint32_t line, last;     /* of what is read, and of what was taken last */
    uint8_t kind;            /* of the token ahead       */
    const char *s;           /* its text: a name or sign */
    char sign[4];
    script_value value;      /* of numbers and texts; texts are constants of the unit, in its arena */
    int indent[MOST_INDENTS], nindents, dedents, brackets, depth;
    bool fresh, ended;       /* at the start of a line; at the end of the text */
    script_function *f;
    script_text *whole;      /* NULL: more of a class is read    */
    bool methods;            /* of which it may have only these  */
} parser;

static int wrong(parser *p, const char *what)
{
    p->kind = BROKEN;
    return rush_fail(RUSH_VALUE_ERROR, "%s, line %u: %s", p->file, (unsigned)p->line, what);
}

static void *no(parser *p, const char *what) { return wrong(p, what), NULL; }

/* A text that lives with the unit: its box is in the arena, and never freed by itself. */
static script_value lasting_text(script_unit *u, const char *s, size_t n)
{
    script_box *b = rush_script_alloc(u, sizeof *b);
    if (!b || !(b->text = (char *)rush_script_copy(u, s, n))) return (script_value){.kind = SCRIPT_UNSET};
    atomic_init(&b->refs, 1 << 20);
    b->kind = SCRIPT_TEXT;
    b->n = n;
    return (script_value){.kind = SCRIPT_TEXT, .box = b};
}

static int hex(const char *s, int n)
{
    int x = 0;
    while (n-- && isxdigit((unsigned char)*s)) x = x * 16 + (isdigit((unsigned char)*s) ? *s - '0' : (rush_lower(*s) - 'a') + 10), ++s;
    return n < 0 ? x : -1;
}

/* One escape after its backslash; how many letters it had, 0: an error. */
static int escape(const char *s, const char *end, char *to, size_t *n)
{
    static const char from[] = "ntrabfv0\\'\"", into[] = "\n\t\r\a\b\f\v\0\\'\"";
    if (s >= end) return 0;
    if (*s == '\n') return 1;
    if (*s == 'x' || *s == 'u') {
        int digits = *s == 'x' ? 2 : 4, c = end - s > digits ? hex(s + 1, digits) : -1;
        if (c < 0) return 0;
        *n += (size_t)rush_utf8_put(to + *n, (uint32_t)c);
        return digits + 1;
    }
    if (*s >= '0' && *s <= '7') { /* octal, as C++ writes bytes that are no letters */
        int c = 0, k = 0;
        while (k < 3 && s + k < end && s[k] >= '0' && s[k] <= '7') c = c * 8 + s[k++] - '0';
        to[(*n)++] = (char)c;
        return k;
    }
    const char *at = memchr(from, *s, sizeof from - 1);
    if (!at) to[(*n)++] = '\\';
    to[(*n)++] = at ? into[at - from] : *s;
    return 1;
}

static int read_text(parser *p)
{
    char quote = *p->p, *to = rush_malloc((size_t)(p->end - p->p) * 2 + 4);
    bool triple = p->end - p->p >= 6 && p->p[1] == quote && p->p[2] == quote, closed = false;
    size_t n = 0;
    if (!to) return -1;
    p->p += triple ? 3 : 1;
    while (p->p < p->end && !closed) {
        if (*p->p == quote && (!triple || (p->end - p->p >= 3 && p->p[1] == quote && p->p[2] == quote))) {
            p->p += triple ? 3 : 1;
            closed = true;
        } else if (*p->p == '\\') {
            int k = escape(p->p + 1, p->end, to, &n);
            if (!k) break;
            p->p += k + 1;
        } else if (*p->p == '\n' && !triple) break;
        else {
            p->line += *p->p == '\n';
            to[n++] = *p->p++;
        }
    }
    if (closed) {
        p->value = lasting_text(p->u, to, n);
        p->kind = p->value.kind == SCRIPT_UNSET ? BROKEN : TEXT;
    }
    rush_free(to);
    return !closed ? wrong(p, "a text has no end") : p->kind == BROKEN ? -1 : 0;
}

static int read_number(parser *p)
{
    char text[64];
    size_t n = 0;
    bool whole = true;
    for (const char *s = p->p; s < p->end && (isalnum((unsigned char)*s) || *s == '.' || ((*s == '-' || *s == '+') && (s[-1] == 'e' || s[-1] == 'E'))); ++s) {
        if (n == sizeof text - 1) return wrong(p, "a number is too long");
        text[n++] = *s;
        whole = whole && isdigit((unsigned char)*s);
    }
    text[n] = 0;
    char *end;
    bool imaginary = n > 1 && text[n - 1] == 'j', based = n > 2 && text[0] == '0' && strchr("xXbBoO", text[1]);
    if (whole || based) {
        unsigned long long u = based ? strtoull(text + 2, &end, text[1] == 'x' || text[1] == 'X' ? 16 : text[1] == 'o' || text[1] == 'O' ? 8 : 2) : strtoull(text, &end, 10);
        p->value = script_of_int((int64_t)u);
    } else {
        double f = rush_strtod(text, &end);
        p->value = imaginary ? (script_value){.kind = SCRIPT_COMPLEX, .c = {0, f}} : script_of_float(f);
        end += imaginary;
    }
    if (end != text + n) return wrong(p, "a number cannot be read");
    p->p += n;
    p->kind = NUMBER;
    return 0;
}

/* The start of a line: how deep is it? */
static int read_indent(parser *p)
{
    int column;
    for (;;) {
        const char *s = p->p;
        for (column = 0; s < p->end && (*s == ' ' || *s == '\t'); ++s) column += *s == '\t' ? 8 : 1;
        if (s < p->end && *s == '#') while (s < p->end && *s != '\n') ++s;
        if (s < p->end && *s == '\r') ++s;
        p->p = s;
        if (s == p->end || *s != '\n') break;
        ++p->p;
        ++p->line;
    }
    p->fresh = false;
    if (p->p == p->end) column = 0;
    if (column > p->indent[p->nindents]) {
        if (p->nindents + 1 == MOST_INDENTS) return wrong(p, "blocks are nested too deeply");
        p->indent[++p->nindents] = column;
        return p->kind = INDENT, 1;
    }
    while (p->nindents && column < p->indent[p->nindents]) --p->nindents, ++p->dedents;
    return column != p->indent[p->nindents] ? wrong(p, "a line is indented unlike those before it") : 0;
}

static int next(parser *p)
{
    static const char *const signs[] = {"**=", "//=", "<<=", ">>=", "...", "->", "**", "//", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "%=", "@=", "|=", "&=", "^=", "<<", ">>"};
    if (p->kind == BROKEN) return -1;
    p->last = p->line;
    if (p->dedents) return --p->dedents, p->kind = DEDENT, 0;
    if (p->fresh && !p->brackets) {
        int r = read_indent(p);
        if (r) return r < 0 ? -1 : 0;
        if (p->dedents) return --p->dedents, p->kind = DEDENT, 0;
    }
    for (; p->p < p->end; ++p->p) {
        if (*p->p == '#') while (p->p < p->end && *p->p != '\n') ++p->p;
        bool joined = p->p + 1 < p->end && *p->p == '\\' && p->p[1] == '\n';
        if (joined) ++p->p;
        if (p->p == p->end || !(*p->p == ' ' || *p->p == '\t' || *p->p == '\r' || (*p->p == '\n' && (p->brackets || joined)))) break;
        p->line += *p->p == '\n';
    }
    if (p->p == p->end) {
        if (p->ended) return p->kind = END, 0;
        p->ended = p->fresh = true;
        return p->kind = NEWLINE, 0;
    }
    if (*p->p == '\n') return ++p->p, ++p->line, p->fresh = true, p->kind = NEWLINE, 0;
    if (*p->p == '"' || *p->p == '\'') return read_text(p);
    if (isdigit((unsigned char)*p->p) || (*p->p == '.' && p->p + 1 < p->end && isdigit((unsigned char)p->p[1]))) return read_number(p);
    if (isalpha((unsigned char)*p->p) || *p->p == '_') {
        const char *s = p->p;
        while (p->p < p->end && (isalnum((unsigned char)*p->p) || *p->p == '_')) ++p->p;
        p->kind = NAME;
        return (p->s = rush_script_copy(p->u, s, (size_t)(p->p - s))) ? 0 : -1;
    }
    p->kind = SIGN;
    p->s = p->sign;
    for (size_t i = 0; i < RUSH_COUNT(signs); ++i) {
        size_t n = strlen(signs[i]);
        if ((size_t)(p->end - p->p) >= n && !memcmp(p->p, signs[i], n)) return p->p += n, strcpy(p->sign, signs[i]), 0;
    }
    if (!strchr("()[]{}:,.;=<>+-*/%@|&^~", *p->p)) return wrong(p, "a letter that the language does not have");
    p->sign[0] = *p->p++;
    p->sign[1] = 0;
    if (strchr("([{", p->sign[0])) ++p->brackets;
    if (strchr(")]}", p->sign[0]) && p->brackets) --p->brackets;
    return 0;
}

static bool is(const parser *p, const char *s) { return p->s && (p->kind == SIGN || p->kind == NAME) && !strcmp(p->s, s); }
static bool take(parser *p, const char *s) { return is(p, s) && !next(p); }

static int need(parser *p, const char *s)
{
    char text[48];
    if (is(p, s)) return next(p);
    if (rush_failed()) return -1;
    snprintf(text, sizeof text, "'%s' was expected", s);
    return wrong(p, text);
}

static const char *need_name(parser *p)
{
    const char *s = p->s;
    if (p->kind != NAME) return rush_failed() ? NULL : no(p, "a name was expected");
    return next(p) ? NULL : s;
}

/* ---- nodes ---- */

typedef struct gathered { script_node **kid; const char **name; uint32_t n, room; } gathered;

static script_node *node(parser *p, int op, uint32_t n, script_node *a, script_node *b, script_node *c)
{
    script_node *x = rush_script_alloc(p->u, sizeof *x), *given[3] = {a, b, c};
    if (!x || (n && !(x->kid = rush_script_alloc(p->u, n * sizeof *x->kid)))) return NULL;
    for (uint32_t i = 0; i < n && i < 3; ++i)
        if (!(x->kid[i] = given[i])) return NULL;
    x->op = (uint8_t)op;
    x->n = n;
    x->line = p->last;
    return x;
}

static int gather(parser *p, gathered *g, script_node *x, const char *name)
{
    if (!x) return -1;
    if (g->n == g->room) {
        uint32_t room = g->room ? g->room * 2 : 8;
        script_node **kid = rush_script_alloc(p->u, room * sizeof *kid);
        const char **names = rush_script_alloc(p->u, room * sizeof *names);
        if (!kid || !names) return -1;
        if (g->n) memcpy(kid, g->kid, g->n * sizeof *kid), memcpy(names, g->name, g->n * sizeof *names);
        *g = (gathered){kid, names, g->n, room};
    }
    g->kid[g->n] = x;
    g->name[g->n++] = name;
    return 0;
}

static script_node *node_of(parser *p, int op, const gathered *g)
{
    script_node *x = node(p, op, 0, NULL, NULL, NULL);
    if (!x) return NULL;
    x->kid = g->kid;
    x->names = g->name;
    x->n = g->n;
    return x;
}

static script_node *constant(parser *p, script_value v)
{
    script_node *x = node(p, SCRIPT_N_CONSTANT, 0, NULL, NULL, NULL);
    if (x) x->constant = v;
    return x;
}

static script_node *named(parser *p, int op, uint32_t n, script_node *a, const char *name)
{
    script_node *x = node(p, op, n, a, NULL, NULL);
    if (x) x->name = name;
    return x;
}

/* x op y; of comparisons and arithmetic, `name` is the operation that it stands for. */
static script_node *operator_(parser *p, const char *name, script_node *a, script_node *b)
{
    script_node *x = node(p, SCRIPT_N_OPERATOR, b ? 2 : 1, a, b, NULL);
    if (!x) return NULL;
    x->name = name;
    x->target = (const void *)rush_script_builtin_find(name);
    x->op_of = rush_op_find(name);
    return x;
}

static int local_slot(parser *p, const char *name)
{
    script_function *f = p->f;
    for (uint32_t i = 0; i < f->nlocals; ++i)
        if (!strcmp(f->local[i], name)) return (int)i;
    if (f->nlocals % 16 == 0) {
        const char **more = rush_script_alloc(p->u, (f->nlocals + 16) * sizeof *more);
        bool *stored = rush_script_alloc(p->u, f->nlocals + 16);
        if (!more || !stored) return -1;
        if (f->nlocals) memcpy(more, f->local, f->nlocals * sizeof *more), memcpy(stored, f->stored, f->nlocals);
        f->local = more;
        f->stored = stored;
    }
    f->local[f->nlocals] = name;
    return (int)f->nlocals++;
}

static script_node *name_node(parser *p, const char *name)
{
    static const struct { const char *name; script_value v; } words[] = {
        {"None", {.kind = SCRIPT_NONE}}, {"True", {.kind = SCRIPT_BOOL, .i = 1}}, {"False", {.kind = SCRIPT_BOOL, .i = 0}},
        {"inf", {.kind = SCRIPT_FLOAT, .f = __builtin_inf()}}, {"nan", {.kind = SCRIPT_FLOAT, .f = __builtin_nan("")}},
        {"infj", {.kind = SCRIPT_COMPLEX, .c = {0, __builtin_inf()}}}, {"nanj", {.kind = SCRIPT_COMPLEX, .c = {0, __builtin_nan("")}}}};
    for (size_t i = 0; i < RUSH_COUNT(words); ++i)
        if (!strcmp(name, words[i].name)) return constant(p, words[i].v);
    if (!p->f) return named(p, SCRIPT_N_NAME, 0, NULL, name);
    int slot = local_slot(p, name);
    script_node *x = slot < 0 ? NULL : named(p, SCRIPT_N_LOCAL, 0, NULL, name);
    if (x) x->slot = (uint32_t)slot;
    return x;
}

/* ---- expressions ---- */

static script_node *expression(parser *p);
static script_node *expression_or_tuple(parser *p);
static script_node *or_test(parser *p);

static int deeper(parser *p) { return ++p->depth > DEEPEST ? wrong(p, "expressions and blocks are nested too deeply") : 0; }

static int mark_stored(parser *p, script_node *target)
{
    if (target->op == SCRIPT_N_LOCAL) p->f->stored[target->slot] = true;
    else if (target->op == SCRIPT_N_TUPLE || target->op == SCRIPT_N_LIST || target->op == SCRIPT_N_STAR)
        for (uint32_t i = 0; i < target->n; ++i)
            if (mark_stored(p, target->kid[i])) return -1;
    return 0;
}

static script_node *targets(parser *p) /* of loops: a, (b, c) */
{
    gathered g = {0};
    bool many = false;
    do {
        if (many && is(p, "in")) break;
        script_node *x = NULL;
        if (take(p, "(")) {
            x = targets(p);
            if (!x || need(p, ")")) return NULL;
        } else {
            const char *name = need_name(p);
            x = name ? name_node(p, name) : NULL;
        }
        if (gather(p, &g, x, NULL)) return NULL;
    } while (take(p, ",") && (many = true));
    script_node *t = g.n == 1 && !many ? g.kid[0] : node_of(p, SCRIPT_N_TUPLE, &g);
    return t && p->f && !mark_stored(p, t) ? t : NULL;
}

/* for target in what [if condition], after the element. */
static script_node *comprehension(parser *p, script_node *key, script_node *value)
{
    RUSH_CHECK_NULL(p->f, RUSH_VALUE_ERROR, "%s, line %u: a comprehension outside of a function", p->file, (unsigned)p->line);
    gathered g = {0};
    if (need(p, "for") || gather(p, &g, key, NULL) || (value && gather(p, &g, value, NULL))) return NULL;
    if (gather(p, &g, targets(p), NULL) || need(p, "in") || gather(p, &g, or_test(p), NULL)) return NULL;
    if (take(p, "if") && gather(p, &g, or_test(p), NULL)) return NULL;
    if (is(p, "for")) return no(p, "a comprehension with two loops");
    return node_of(p, value ? SCRIPT_N_EACH_PAIR : SCRIPT_N_EACH, &g);
}

static script_node *bracketed(parser *p) /* after "[" */
{
    gathered g = {0};
    while (!is(p, "]")) {
        script_node *x = take(p, "*") ? node(p, SCRIPT_N_STAR, 1, or_test(p), NULL, NULL) : expression(p);
        if (x && is(p, "for") && !g.n) {
            x = comprehension(p, x, NULL);
            return x && !need(p, "]") ? x : NULL;
        }
        if (gather(p, &g, x, NULL)) return NULL;
        if (!take(p, ",")) break;
    }
    return need(p, "]") ? NULL : node_of(p, SCRIPT_N_LIST, &g);
}

static script_node *braced(parser *p) /* after "{" */
{
    gathered g = {0};
    while (!is(p, "}")) {
        script_node *key = expression(p), *value;
        if (!key || need(p, ":") || !(value = expression(p))) return NULL;
        if (is(p, "for") && !g.n) {
            script_node *x = comprehension(p, key, value);
            return x && !need(p, "}") ? x : NULL;
        }
        if (gather(p, &g, key, NULL) || gather(p, &g, value, NULL)) return NULL;
        if (!take(p, ",")) break;
    }
    return need(p, "}") ? NULL : node_of(p, SCRIPT_N_DICT, &g);
}

static script_node *parenthesised(parser *p) /* after "(" */
{
    gathered g = {0};
    bool comma = false;
    while (!is(p, ")")) {
        script_node *x = take(p, "*") ? node(p, SCRIPT_N_STAR, 1, or_test(p), NULL, NULL) : expression(p);
        if (x && is(p, "for") && !g.n) {
            x = comprehension(p, x, NULL);
            return x && !need(p, ")") ? x : NULL;
        }
        if (gather(p, &g, x, NULL)) return NULL;
        if (!(comma = take(p, ","))) break;
    }
    if (need(p, ")")) return NULL;
    return g.n == 1 && !comma ? g.kid[0] : node_of(p, SCRIPT_N_TUPLE, &g);
}

static script_node *atom(parser *p)
{
    script_value v = p->value;
    if (p->kind == NUMBER) return next(p) ? NULL : constant(p, v);
    if (p->kind == TEXT) {
        if (next(p)) return NULL;
        while (p->kind == TEXT) { /* one after the other: one text */
            script_value w = p->value;
            char *both = rush_script_alloc(p->u, v.box->n + w.box->n + 1);
            if (!both) return NULL;
            memcpy(both, v.box->text, v.box->n);
            memcpy(both + v.box->n, w.box->text, w.box->n);
            v = lasting_text(p->u, both, v.box->n + w.box->n);
            if (v.kind == SCRIPT_UNSET || next(p)) return NULL;
        }
        return constant(p, v);
    }
    if (take(p, "(")) return parenthesised(p);
    if (take(p, "[")) return bracketed(p);
    if (take(p, "{")) return braced(p);
    if (take(p, "...")) return constant(p, (script_value){.kind = SCRIPT_ELLIPSIS});
    if (p->kind != NAME) return rush_failed() ? NULL : no(p, "an expression was expected");
    if (is(p, "lambda") || is(p, "yield") || is(p, "await")) return no(p, "lambda, yield and await are not TorchScript");
    const char *name = need_name(p);
    return name ? name_node(p, name) : NULL;
}

/* What fork() calls: for the name of a closure its body, once. */
static script_node *forked(parser *p, script_node *called)
{
    for (script_closure **at = p->f && called->op == SCRIPT_N_LOCAL ? &p->f->closure : NULL; at && *at; at = &(*at)->next)
        if (!strcmp((*at)->name, called->name)) return called = (*at)->body, *at = (*at)->next, called;
    return called;
}

static script_node *arguments(parser *p, script_node *callee) /* after "(" */
{
    gathered g = {0};
    bool method = callee->op == SCRIPT_N_ATTRIBUTE;
    if (gather(p, &g, method ? callee->kid[0] : callee, NULL)) return NULL;
    while (!is(p, ")")) {
        const char *name = NULL;
        script_node *x = take(p, "*") ? node(p, SCRIPT_N_STAR, 1, or_test(p), NULL, NULL) : expression(p);
        if (x && x->op == SCRIPT_N_LOCAL && is(p, "=")) {
            name = x->name;
            x = next(p) ? NULL : expression(p);
        }
        if (x && is(p, "for") && g.n == 1) x = comprehension(p, x, NULL);
        if (gather(p, &g, x, name)) return NULL;
        if (!take(p, ",")) break;
    }
    if (need(p, ")")) return NULL;
    script_node *x = node_of(p, method ? SCRIPT_N_METHOD : SCRIPT_N_CALL, &g);
    if (x && method) x->name = callee->name;
    if (x && !method && x->n > 1 && callee->name && !strcmp(callee->name, "fork")) x->kid[1] = forked(p, x->kid[1]);
    return x;
}

static script_node *slice_part(parser *p) { return is(p, ":") || is(p, ",") || is(p, "]") ? constant(p, SCRIPT_NOTHING) : expression(p); }

static script_node *subscript(parser *p)
{
    script_node *a = is(p, ":") ? constant(p, SCRIPT_NOTHING) : expression(p);
    if (!a || !take(p, ":")) return a;
    script_node *b = slice_part(p), *c = NULL;
    if (b) c = take(p, ":") ? slice_part(p) : constant(p, SCRIPT_NOTHING);
    return c ? node(p, SCRIPT_N_SLICE, 3, a, b, c) : NULL;
}

static script_node *subscripts(parser *p, script_node *of) /* after "[" */
{
    gathered g = {0};
    bool comma = false;
    while (!is(p, "]")) {
        if (gather(p, &g, subscript(p), NULL)) return NULL;
        if (!(comma = take(p, ","))) break;
    }
    if (need(p, "]")) return NULL;
    if (!g.n) return no(p, "an index is missing");
    return node(p, SCRIPT_N_INDEX, 2, of, g.n == 1 && !comma ? g.kid[0] : node_of(p, SCRIPT_N_TUPLE, &g), NULL);
}

static script_node *postfix(parser *p)
{
    script_node *x = atom(p);
    while (x) {
        if (take(p, ".")) {
            const char *name = need_name(p);
            x = name ? named(p, SCRIPT_N_ATTRIBUTE, 1, x, name) : NULL;
        } else if (take(p, "(")) x = arguments(p, x);
        else if (take(p, "[")) x = subscripts(p, x);
        else break;
    }
    return rush_failed() ? NULL : x;
}

static script_node *unary(parser *p);

static script_node *power(parser *p)
{
    script_node *x = postfix(p);
    return x && take(p, "**") ? operator_(p, "pow", x, unary(p)) : x;
}

static script_node *unary(parser *p)
{
    if (deeper(p)) return NULL;
    script_node *x;
    if (take(p, "-")) {
        x = unary(p);
        if (x && x->op == SCRIPT_N_CONSTANT && x->constant.kind == SCRIPT_INT) x->constant.i = (int64_t)-(uint64_t)x->constant.i;
        else if (x && x->op == SCRIPT_N_CONSTANT && x->constant.kind == SCRIPT_FLOAT) x->constant.f = -x->constant.f;
        else x = x ? operator_(p, "neg", x, NULL) : NULL;
    } else if (take(p, "+")) x = unary(p);
    else if (take(p, "~")) {
        x = unary(p);
        x = x ? operator_(p, "bitwise_not", x, NULL) : NULL;
    } else x = power(p);
    --p->depth;
    return x;
}

/* Left to right, by level: * / // % @, then + -, << >>, &, ^, |. */
static script_node *binary(parser *p, int level)
{
    static const struct { const char *sign, *name; int level; } table[] = {
        {"*", "mul", 5}, {"/", "div", 5}, {"//", "floordiv", 5}, {"%", "remainder", 5}, {"@", "matmul", 5}, {"+", "add", 4}, {"-", "sub", 4},
        {"<<", "__lshift__", 3}, {">>", "__rshift__", 3}, {"&", "__and__", 2}, {"^", "__xor__", 1}, {"|", "__or__", 0}};
    script_node *x = level == 6 ? unary(p) : binary(p, level + 1);
    for (size_t i = 0; x && i < RUSH_COUNT(table); ++i) {
        if (table[i].level != level || p->kind != SIGN || !is(p, table[i].sign)) continue;
        if (next(p)) return NULL;
        script_node *y = level == 5 ? unary(p) : binary(p, level + 1);
        x = y ? operator_(p, table[i].name, x, y) : NULL;
        i = (size_t)-1;
    }
    return x;
}

static const char *comparison(parser *p)
{
    static const char *const table[][2] = {{"==", "eq"}, {"!=", "ne"}, {"<", "lt"}, {">", "gt"}, {"<=", "le"}, {">=", "ge"}};
    for (size_t i = 0; i < RUSH_COUNT(table); ++i)
        if (p->kind == SIGN && take(p, table[i][0])) return table[i][1];
    if (take(p, "in")) return "in";
    if (take(p, "is")) return take(p, "not") ? "__isnot__" : "__is__";
    if (is(p, "not")) return next(p) || need(p, "in") ? NULL : "not in";
    return NULL;
}

static script_node *compare(parser *p)
{
    script_node *x = binary(p, 0), *all = NULL;
    while (x) {
        const char *name = comparison(p);
        if (!name) break;
        bool in = !strcmp(name, "in"), not_in = !strcmp(name, "not in");
        script_node *y = binary(p, 0), *one = NULL;
        if (y) one = in || not_in ? operator_(p, "__contains__", y, x) : operator_(p, name, x, y);
        if (one && not_in) one = node(p, SCRIPT_N_NOT, 1, one, NULL, NULL);
        if (!one) return NULL;
        all = all ? node(p, SCRIPT_N_AND, 2, all, one, NULL) : one;
        x = y;
    }
    return rush_failed() ? NULL : all ? all : x;
}

static script_node *not_test(parser *p)
{
    if (!take(p, "not")) return compare(p);
    if (deeper(p)) return NULL;
    script_node *x = not_test(p);
    --p->depth;
    return x ? node(p, SCRIPT_N_NOT, 1, x, NULL, NULL) : NULL;
}

static script_node *and_test(parser *p)
{
    script_node *x = not_test(p);
    while (x && take(p, "and")) x = node(p, SCRIPT_N_AND, 2, x, not_test(p), NULL);
    return x;
}

static script_node *or_test(parser *p)
{
    script_node *x = and_test(p);
    while (x && take(p, "or")) x = node(p, SCRIPT_N_OR, 2, x, and_test(p), NULL);
    return x;
}

static script_node *expression(parser *p)
{
    if (deeper(p)) return NULL;
    script_node *x = or_test(p);
    if (x && take(p, "if")) {
        script_node *condition = or_test(p);
        x = condition && !need(p, "else") ? node(p, SCRIPT_N_CHOICE, 3, condition, x, expression(p)) : NULL;
    }
    --p->depth;
    return rush_failed() ? NULL : x;
}

static script_node *expression_or_tuple(parser *p)
{
    script_node *x = take(p, "*") ? node(p, SCRIPT_N_STAR, 1, or_test(p), NULL, NULL) : expression(p);
    if (!x || !is(p, ",")) return x;
    gathered g = {0};
    if (gather(p, &g, x, NULL)) return NULL;
    while (take(p, ",")) {
        if (p->kind == NEWLINE || is(p, "=") || is(p, ")")) break;
        if (gather(p, &g, take(p, "*") ? node(p, SCRIPT_N_STAR, 1, or_test(p), NULL, NULL) : expression(p), NULL)) return NULL;
    }
    return node_of(p, SCRIPT_N_TUPLE, &g);
}

/* ---- statements ---- */

static script_node *block(parser *p);

static int end_line(parser *p)
{
    if (take(p, ";")) return 0;
    if (p->kind != NEWLINE) return rush_failed() ? -1 : wrong(p, "the end of the line was expected");
    return next(p);
}

static script_node *if_statement(parser *p) /* after "if" or "elif" */
{
    if (deeper(p)) return NULL;
    script_node *condition = expression(p), *yes = condition && !need(p, ":") ? block(p) : NULL, *other = NULL;
    if (!yes) return NULL;
    if (take(p, "elif")) other = if_statement(p);
    else if (take(p, "else")) other = need(p, ":") ? NULL : block(p);
    else other = node(p, SCRIPT_N_PASS, 0, NULL, NULL, NULL);
    --p->depth;
    return other ? node(p, SCRIPT_N_IF, 3, condition, yes, other) : NULL;
}

static script_node *loop(parser *p, bool counted)
{
    if (!counted) {
        script_node *condition = expression(p);
        return condition && !need(p, ":") ? node(p, SCRIPT_N_WHILE, 2, condition, block(p), NULL) : NULL;
    }
    script_node *to = targets(p), *of = to && !need(p, "in") ? expression_or_tuple(p) : NULL;
    return of && !need(p, ":") ? node(p, SCRIPT_N_FOR, 3, to, of, block(p)) : NULL;
}

static script_node *with(parser *p)
{
    gathered g = {0};
    do {
        script_node *x = expression(p), *as = NULL;
        if (x && take(p, "as")) {
            const char *name = need_name(p);
            if (!name || !(as = name_node(p, name)) || mark_stored(p, as)) return NULL;
        } else if (x) as = node(p, SCRIPT_N_PASS, 0, NULL, NULL, NULL);
        if (gather(p, &g, x, NULL) || gather(p, &g, as, NULL)) return NULL;
    } while (take(p, ","));
    if (need(p, ":") || gather(p, &g, block(p), NULL)) return NULL;
    return node_of(p, SCRIPT_N_WITH, &g);
}

static const char *change_of(const parser *p)
{
    static const char *const table[][2] = {{"+=", "add"}, {"-=", "sub"}, {"*=", "mul"}, {"/=", "div"}, {"//=", "floordiv"}, {"%=", "remainder"}, {"**=", "pow"},
                                           {"@=", "matmul"}, {"|=", "__or__"}, {"&=", "__and__"}, {"^=", "__xor__"}, {"<<=", "__lshift__"}, {">>=", "__rshift__"}};
    for (size_t i = 0; p->kind == SIGN && i < RUSH_COUNT(table); ++i)
        if (is(p, table[i][0])) return table[i][1];
    return NULL;
}

static bool can_store(const script_node *t)
{
    if (t->op == SCRIPT_N_LOCAL || t->op == SCRIPT_N_ATTRIBUTE || t->op == SCRIPT_N_INDEX) return true;
    if (t->op != SCRIPT_N_TUPLE && t->op != SCRIPT_N_LIST && t->op != SCRIPT_N_STAR) return false;
    for (uint32_t i = 0; i < t->n; ++i)
        if (!can_store(t->kid[i])) return false;
    return true;
}

static script_node *assignment(parser *p)
{
    script_node *x = expression_or_tuple(p);
    if (!x) return NULL;
    const char *change = change_of(p);
    if (change) {
        if (!can_store(x) || x->op == SCRIPT_N_TUPLE || x->op == SCRIPT_N_LIST || next(p) || mark_stored(p, x)) return rush_failed() ? NULL : no(p, "this cannot be changed in place");
        script_node *c = node(p, SCRIPT_N_CHANGE, 2, x, expression_or_tuple(p), NULL);
        if (c) c->name = change;
        return c;
    }
    if (take(p, ":")) {
        script_node *type = expression(p); /* a declaration: what it says is not needed to run */
        if (!type || mark_stored(p, x)) return NULL;
        if (!is(p, "=")) return node(p, SCRIPT_N_PASS, 0, NULL, NULL, NULL);
    }
    if (!is(p, "=")) return node(p, SCRIPT_N_DO, 1, x, NULL, NULL);
    gathered g = {0};
    if (gather(p, &g, x, NULL)) return NULL;
    while (take(p, "="))
        if (gather(p, &g, expression_or_tuple(p), NULL)) return NULL;
    for (uint32_t i = 0; i + 1 < g.n; ++i)
        if (!can_store(g.kid[i]) || mark_stored(p, g.kid[i])) return no(p, "this cannot be assigned to");
    return node_of(p, SCRIPT_N_ASSIGN, &g);
}

static script_node *simple(parser *p)
{
    if (take(p, "return")) return p->kind == NEWLINE ? node(p, SCRIPT_N_RETURN, 1, constant(p, SCRIPT_NOTHING), NULL, NULL) : node(p, SCRIPT_N_RETURN, 1, expression_or_tuple(p), NULL, NULL);
    if (take(p, "break")) return node(p, SCRIPT_N_BREAK, 0, NULL, NULL, NULL);
    if (take(p, "continue")) return node(p, SCRIPT_N_CONTINUE, 0, NULL, NULL, NULL);
    if (take(p, "pass")) return node(p, SCRIPT_N_PASS, 0, NULL, NULL, NULL);
    if (take(p, "raise")) return node(p, SCRIPT_N_RAISE, 1, p->kind == NEWLINE ? constant(p, SCRIPT_NOTHING) : expression(p), NULL, NULL);
    if (take(p, "assert")) {
        script_node *x = expression(p);
        return x ? node(p, SCRIPT_N_ASSERT, 2, x, take(p, ",") ? expression(p) : constant(p, SCRIPT_NOTHING), NULL) : NULL;
    }
    if (take(p, "del")) return node(p, SCRIPT_N_DELETE, 1, expression_or_tuple(p), NULL, NULL);
    return assignment(p);
}

static script_node *block(parser *p);

static script_node *closure(parser *p) /* after "def" */
{
    script_closure *c = rush_script_alloc(p->u, sizeof *c);
    script_closure *outer = p->f->closure;
    if (!c || !(c->name = need_name(p)) || need(p, "(") || need(p, ")") || need(p, ":")) return NULL;
    p->f->closure = NULL; /* it can only call its own: what is called is nested in the text */
    if (!(c->body = block(p))) return NULL;
    c->next = outer;
    p->f->closure = c;
    return node(p, SCRIPT_N_PASS, 0, NULL, NULL, NULL);
}

static script_node *statement(parser *p)
{
    if (take(p, "def")) return closure(p);
    if (take(p, "if")) return if_statement(p);
    if (take(p, "while")) return loop(p, false);
    if (take(p, "for")) return loop(p, true);
    if (take(p, "with")) return with(p);
    static const char *const others[] = {"class", "try", "import", "from", "global", "nonlocal", "async"};
    for (size_t i = 0; i < RUSH_COUNT(others); ++i)
        if (is(p, others[i])) return no(p, "classes in functions, try, import and global are not TorchScript");
    script_node *x = simple(p);
    return x && !end_line(p) ? x : NULL;
}

static script_node *block(parser *p) /* after ":" */
{
    gathered g = {0};
    if (deeper(p)) return NULL;
    if (p->kind != NEWLINE) { /* on the same line */
        do {
            script_node *x = simple(p);
            if (gather(p, &g, x, NULL)) return NULL;
        } while (take(p, ";") && p->kind != NEWLINE);
        if (end_line(p)) return NULL;
    } else {
        if (next(p)) return NULL;
        if (p->kind != INDENT) return no(p, "a block was expected");
        if (next(p)) return NULL;
        while (p->kind != DEDENT && p->kind != END)
            if (gather(p, &g, statement(p), NULL)) return NULL;
        if (p->kind == DEDENT && next(p)) return NULL;
    }
    --p->depth;
    return node_of(p, SCRIPT_N_BLOCK, &g);
}

/* ---- functions and classes ---- */

static const char *joined(parser *p, const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    char *s = rush_script_alloc(p->u, n + m + 2);
    if (s) sprintf(s, "%s.%s", a, b);
    return s;
}

static int parameter(parser *p, script_function *f, bool keyword_only)
{
    if (f->nparams % 8 == 0) {
        script_param *more = rush_script_alloc(p->u, (f->nparams + 8) * sizeof *more);
        if (!more) return -1;
        if (f->nparams) memcpy(more, f->param, f->nparams * sizeof *more);
        f->param = more;
    }
    script_param a = {.name = need_name(p), .keyword_only = keyword_only};
    if (!a.name) return -1;
    p->f = f;
    int slot = local_slot(p, a.name);
    p->f = NULL;
    if (slot < 0) return -1;
    if (slot != (int)f->nparams) return wrong(p, "two parameters have one name");
    f->stored[slot] = true;
    if (take(p, ":") && !(a.type = expression(p))) return -1;
    if (take(p, "=") && !(a.standard = expression(p))) return -1;
    f->param[f->nparams++] = a;
    return rush_failed() ? -1 : 0;
}

static script_function *function(parser *p, const char *path, script_class *of) /* after "def" */
{
    script_function *f = rush_script_alloc(p->u, sizeof *f);
    const char *start = p->p - strlen(p->s);
    while (start > p->text && start[-1] != '\n') --start;
    if (!f || !(f->name = need_name(p)) || !(f->path = joined(p, path, f->name)) || need(p, "(")) return NULL;
    f->of = of;
    f->line = p->line;
    f->text = start;
    bool keyword_only = false;
    while (!is(p, ")")) {
        if (take(p, "*")) keyword_only = true;
        else if (parameter(p, f, keyword_only)) return NULL;
        if (!take(p, ",")) break;
    }
    if (need(p, ")") || (take(p, "->") && !(f->result_type = expression(p))) || need(p, ":")) return rush_failed() ? NULL : no(p, "a function's head cannot be read");
    p->f = f;
    f->body = block(p);
    p->f = NULL;
    const char *end = p->p; /* behind the token that follows the function */
    if (p->kind != END) while (end > f->text && end[-1] != '\n') --end;
    f->ntext = (size_t)(end - f->text);
    return f->body && !rush_failed() ? f : NULL;
}

static script_field *field(parser *p, script_class *c, const char *name)
{
    script_field *old = rush_script_field_find(c, name);
    if (old) return old;
    if (c->nfields % 16 == 0) {
        script_field *more = rush_script_alloc(p->u, (c->nfields + 16) * sizeof *more);
        if (!more) return NULL;
        if (c->nfields) memcpy(more, c->field, c->nfields * sizeof *more);
        c->field = more;
    }
    c->field[c->nfields] = (script_field){.name = name, .slot = c->nslots++};
    return &c->field[c->nfields++];
}

/* A class may have several lines of names. */
static int more_names(parser *p, script_node **names, script_node *more)
{
    gathered g = {0};
    for (uint32_t i = 0; *names && i < (*names)->n; ++i)
        if (gather(p, &g, (*names)->kid[i], NULL)) return -1;
    for (uint32_t i = 0; *names && i < more->n; ++i)
        if (gather(p, &g, more->kid[i], NULL)) return -1;
    return (*names = *names ? node_of(p, SCRIPT_N_LIST, &g) : more) ? 0 : -1;
}

/* x : T, x : Final[T] = value, x = value, __annotations__["0"] = T, __parameters__ = [...]. */
static int class_line(parser *p, script_class *c)
{
    if (take(p, "pass")) return end_line(p);
    if (p->kind == TEXT) return next(p) ? -1 : end_line(p);
    const char *name = need_name(p);
    if (!name) return -1;
    if (!strcmp(name, "__annotations__") && take(p, "[")) {
        script_value key = p->value;
        if (p->kind != TEXT) return wrong(p, "a name in quotes was expected");
        script_field *f = field(p, c, key.box->text);
        return !f || next(p) || need(p, "]") || need(p, "=") || !(f->type = expression(p)) ? -1 : end_line(p);
    }
    if (take(p, ":")) {
        script_node *type = expression(p);
        script_field *f = type ? field(p, c, name) : NULL;
        if (!f) return -1;
        f->type = type;
        f->fixed = type->op == SCRIPT_N_INDEX && type->kid[0]->name && !strcmp(type->kid[0]->name, "Final");
        if (take(p, "=") && !(f->value = expression_or_tuple(p))) return -1;
        return end_line(p);
    }
    script_node *value = !need(p, "=") ? expression_or_tuple(p) : NULL;
    if (!value) return -1;
    if (!strcmp(name, "__parameters__")) return more_names(p, &c->parameters, value) ? -1 : end_line(p);
    if (!strcmp(name, "__buffers__")) return more_names(p, &c->buffers, value) ? -1 : end_line(p);
    if (strncmp(name, "__", 2)) { /* members of enums, constants */
        script_field *f = field(p, c, name);
        if (!f) return -1;
        f->value = value;
        f->fixed = true;
    }
    return end_line(p);
}

/* From the ":" of a class on. */
static int class_lines(parser *p, script_class *c)
{
    if (need(p, ":") || p->kind != NEWLINE) return rush_failed() ? -1 : wrong(p, "a class has no body");
    if (next(p) || p->kind != INDENT || next(p)) return rush_failed() ? -1 : wrong(p, "a class has no body");
    if (p->whole) c->text = p->whole, c->indent = p->indent[p->nindents];
    script_function **last = &c->method;
    while (*last) last = &(*last)->next;
    while (p->kind != DEDENT && p->kind != END) {
        if (take(p, "def")) {
            script_function *f = function(p, c->path, c);
            if (!f) return -1;
            RUSH_CHECK(p->whole || !rush_script_method_find(c, f->name), RUSH_RUNTIME_ERROR, "method '%.200s' already defined.", f->path);
            *last = f;
            last = &f->next;
        } else if (p->methods ? wrong(p, "a method was expected") : class_line(p, c)) return -1;
    }
    const char *end = p->p;
    while (end < p->end && end > p->text && end[-1] != '\n') --end;
    if (p->whole) c->end = (size_t)(end - p->text);
    return p->kind == DEDENT ? next(p) : rush_failed() ? -1 : 0;
}

static int class_(parser *p) /* after "class" */
{
    script_class *c = rush_script_alloc(p->u, sizeof *c);
    const char *name = c ? need_name(p) : NULL;
    if (!name || !(c->path = joined(p, p->path, name))) return -1;
    c->unit = p->u;
    if (take(p, "(") && !is(p, ")")) {
        const char *base = need_name(p);
        if (!base) return -1;
        c->is_module = !strcmp(base, "Module");
        c->is_tuple = !strcmp(base, "NamedTuple");
        c->is_enum = !strcmp(base, "Enum");
        c->is_interface = !strcmp(base, "Interface") || !strcmp(base, "ModuleInterface");
        if (need(p, ")")) return -1;
    } else if (is(p, ")") && next(p)) return -1;
    if (class_lines(p, c)) return -1;
    c->next = p->u->first_class;
    p->u->first_class = c;
    return 0;
}

int rush_script_parse_more(script_unit *u, const char *text, size_t n, script_class *c, bool methods, const char *file)
{
    if (!(text = rush_script_copy(u, text, n))) return -1;
    parser p = {.u = u, .p = text, .end = text + n, .text = text, .file = file, .path = c->path, .line = 0, .fresh = true, .methods = methods};
    if (next(&p) || class_lines(&p, c)) return -1;
    while (p.kind == NEWLINE)
        if (next(&p)) return -1;
    return p.kind == END ? 0 : wrong(&p, "a method was expected");
}

int rush_script_parse(script_unit *u, const char *text, size_t n, const char *path, const char *file)
{
    script_text *whole = rush_script_alloc(u, sizeof *whole);
    if (!whole || !(text = rush_script_copy(u, text, n))) return -1;
    *whole = (script_text){rush_script_copy(u, path, strlen(path)), text, n, u->first_text};
    u->first_text = whole;
    if (!whole->path) return -1;
    parser p = {.u = u, .p = text, .end = text + n, .text = text, .file = file, .path = path, .line = 1, .fresh = true, .whole = whole};
    if (rush_failed() || next(&p)) return -1;
    while (p.kind != END) {
        if (p.kind == NEWLINE && !next(&p)) continue;
        if (take(&p, "class")) {
            if (class_(&p)) return -1;
        } else if (take(&p, "def")) {
            script_function *f = function(&p, path, NULL);
            if (!f) return rush_failed() ? -1 : wrong(&p, "a function cannot be read");
            f->next = u->first_function;
            u->first_function = f;
        } else if (take(&p, "import")) {
            while (p.kind != NEWLINE && p.kind != END && !next(&p)) {}
        } else return rush_failed() ? -1 : wrong(&p, "a class or function was expected");
        if (rush_failed()) return -1;
    }
    return rush_failed() ? -1 : 0;
}
