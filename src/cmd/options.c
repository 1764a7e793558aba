/* options.c - what stands behind a command: options, as its table says, and words. */
#include "cmd/cmd.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool read_whole(const rush_option *o, const char *text, int64_t *to)
{
    char *end;
    *to = strtoll(text, &end, 10);
    return end != text && !*end && *to >= o->least && *to <= (o->most ? o->most : RUSH_OPTION_MOST);
}

static bool read_reals(const char *text, rush_floats *to)
{
    static double room[64];
    static size_t used;
    to->data = room + used;
    for (to->n = 0; used < sizeof room / sizeof *room;) {
        char *end;
        room[used++] = strtod(text, &end);
        if (end == text || !isfinite(to->data[to->n++]) || (*end && *end != ',')) return false;
        if (!*end) return true;
        text = end + 1;
    }
    return false;
}

static bool take(const rush_option *o, const char *text)
{
    int64_t whole;
    rush_floats reals;
    switch (o->type) {
    case RUSH_OPTION_TEXT: return *(const char **)o->to = text, true;
    case RUSH_OPTION_INT: return read_whole(o, text, &whole) && (*(int *)o->to = (int)whole, true);
    case RUSH_OPTION_INT64: return read_whole(o, text, &whole) && (*(int64_t *)o->to = whole, true);
    case RUSH_OPTION_REAL: return read_reals(text, &reals) && reals.n == 1 && (*(double *)o->to = reals.data[0], true);
    default: return read_reals(text, o->to);
    }
}

static int refuse(const rush_option *o, const char *text)
{
    fprintf(stderr, "rushlight: %s takes ", o->name);
    if (o->type <= RUSH_OPTION_INT64) fprintf(stderr, "a whole number from %lld to %lld", (long long)o->least, (long long)(o->most ? o->most : RUSH_OPTION_MOST));
    else fprintf(stderr, o->type == RUSH_OPTION_REAL ? "a number" : "numbers with commas between them");
    fprintf(stderr, ", not '%s'\n", text);
    return RUSH_CMD_WRONG;
}

int rush_options_read(const char *command, const rush_option *known, int most, int n, char **args)
{
    int words = 0;
    bool rest = false; /* all that is left are words */
    for (int i = 0; i < n; ++i) {
        char *arg = args[i], *value = strncmp(arg, "--", 2) ? NULL : strchr(arg, '=');
        size_t length = value ? (size_t)(value++ - arg) : strlen(arg);
        if (rest || arg[0] != '-' || !arg[1]) {
            if (words == most) return fprintf(stderr, "rushlight: %s does not know %s\n", command, arg), RUSH_CMD_WRONG;
            args[words++] = arg;
            rest |= most == RUSH_OPTION_PROGRAM;
            continue;
        }
        if (!strcmp(arg, "--")) {
            rest = true;
            continue;
        }
        if (!strcmp(arg, "--help") || !strcmp(arg, "-h")) return RUSH_CMD_HELP;
        const rush_option *o = known;
        while (o->name && (strncmp(o->name, arg, length) || o->name[length])) ++o;
        if (!o->name) return fprintf(stderr, "rushlight: %s does not know %s\n", command, arg), RUSH_CMD_WRONG;
        if (o->type == RUSH_OPTION_FLAG) {
            if (value) return fprintf(stderr, "rushlight: %s takes no value\n", o->name), RUSH_CMD_WRONG;
            *(bool *)o->to = true;
            continue;
        }
        if (!value && !(value = args[++i])) return fprintf(stderr, "rushlight: %s needs a value\n", o->name), RUSH_CMD_WRONG;
        if (!take(o, value)) return refuse(o, value);
    }
    args[words] = NULL;
    return words;
}
