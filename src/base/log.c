/* log.c - where messages for people go: one callback and one level for the process.
 *
 * RUSHLIGHT_LOG=0..3 in the environment sets the level of the default, which writes to standard error. A
 * callback gets every message and decides by itself.
 */
#define _GNU_SOURCE
#include "base/base.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

static rush_log_fn log_fn;
static void *log_arg;
static atomic_int default_level = -1;

static int level_wanted(void)
{
    int level = atomic_load(&default_level);
    if (level < 0) {
        const char *text = getenv("RUSHLIGHT_LOG");
        level = text && *text >= '0' && *text <= '9' ? *text - '0' : 1;
        atomic_store(&default_level, level);
    }
    return level;
}

void rush_log_to(rush_log_fn fn, void *arg)
{
    rush_lock(RUSH_LOCK_LOG);
    log_fn = fn;
    log_arg = arg;
    rush_unlock(RUSH_LOCK_LOG);
}

void rush_log(int level, const char *format, ...)
{
    rush_lock(RUSH_LOCK_LOG);
    rush_log_fn fn = log_fn;
    void *arg = log_arg;
    rush_unlock(RUSH_LOCK_LOG);
    if (!fn && level > level_wanted()) return;

    char text[1024];
    va_list args;
    va_start(args, format);
    rush_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    static const char *const names[] = {"error", "warning", "info", "debug"};
    if (fn) fn(level, text, arg);
    else fprintf(stderr, "rushlight %s: %s\n", names[RUSH_MAX(0, RUSH_MIN(level, 3))], text);
}

static atomic_bool each_time;

void rush_warn_always(bool always) { atomic_store(&each_time, always); }

bool rush_warn_now(atomic_flag *said) { return !atomic_flag_test_and_set(said) || atomic_load(&each_time); }
