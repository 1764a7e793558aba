/* error.c - the one pending error of a thread.
 *
 * The first cause is kept, later ones are dropped. The text lives on the heap, so that the thread-local block
 * which every call reads stays small; where even that fails, a constant text stands in.
 */
#define _GNU_SOURCE
#include "base/base.h"
#include "base/text.h"
#include <rushlight/library.h>

#include <ctype.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

_Thread_local rush_thread rush_now RUSH_QUICK_TLS;
static _Thread_local char *message RUSH_QUICK_TLS;
static _Thread_local char *with_name RUSH_QUICK_TLS; /* the message that rush_fail put something in front of */
static _Thread_local size_t named RUSH_QUICK_TLS;    /* how much */

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void thread_ends(void *text)
{
    message = NULL;
    free(text);
}

static void start(void)
{
    pthread_key_create(&key, thread_ends);
}

static void keep(char *text)
{
    pthread_once(&once, start);
    free(message);
    message = text;
    pthread_setspecific(key, text);
}

const char *rush_error(void)
{
    if (!rush_now.error) return NULL;
    return message ? message : "not enough memory";
}

const char *rush_error_bare(void)
{
    const char *text = rush_error();
    return text && text == with_name ? text + named : text;
}

rush_error_kind rush_error_kind_now(void)
{
    return (rush_error_kind)rush_now.error;
}

void rush_error_clear(void)
{
    rush_now.error = RUSH_OK;
}

/* Does the text open with the operation's name already: "stack expects ...", "torch.clamp: ...", or with the kernel's: "\"arange_cpu\" not ..."? */
static bool names(const char *text, const char *base)
{
    if (*text == '"') return true;
    base += strspn(base, "_");
    if (!strncmp(base, "fft_", 4)) base += 4; /* torch.fft's texts say fftfreq */
    if (!strncmp(text, "torch.", 6)) text += 6;
    size_t n = strlen(base);
    return !strncmp(text, base, n) && !isalnum((unsigned char)text[n]);
}

int rush_fail(rush_error_kind kind, const char *format, ...)
{
    if (rush_now.error) return -1;
    char *text = NULL, *whole = NULL;
    size_t prefix = 0;
    va_list args;
    va_start(args, format);
    if (rush_vasprintf(&text, format, args) < 0) text = NULL;
    va_end(args);
    if (text && rush_now.op && rush_now.op->base && !names(text, rush_now.op->base)) {
        const char *base = rush_now.op->base + strspn(rush_now.op->base, "_");
        bool linalg = !strncmp(base, "linalg_", 7); /* torch.linalg.cholesky is called linalg_cholesky */
        size_t n = strlen(base), tail = linalg && n > 10 && !strcmp(base + n - 3, "_ex") ? 3 : 0;
        if (linalg) base += 7, n -= 7;
        if (asprintf(&whole, "%s%.*s: %s", linalg ? "linalg." : "", (int)(n - tail), base, text) < 0) whole = NULL;
        if (whole) {
            prefix = linalg ? 0 : strlen(whole) - strlen(text); /* PyTorch's texts of torch.linalg have it, too */
            free(text);
            text = whole;
        }
    }
    keep(text);
    with_name = text, named = prefix;
    rush_now.error = kind ? kind : RUSH_RUNTIME_ERROR;
    return -1;
}

rush_error_state rush_error_take(void)
{
    rush_error_state s = {rush_now.error, NULL};
    if (s.kind) {
        s.message = message;
        message = NULL;
        pthread_setspecific(key, NULL);
        rush_now.error = RUSH_OK;
    }
    return s;
}

int rush_error_in(const char *format, ...)
{
    rush_error_state e = rush_error_take();
    char *where = NULL;
    va_list args;
    va_start(args, format);
    if (rush_vasprintf(&where, format, args) < 0) where = NULL;
    va_end(args);
    rush_fail(e.kind, "%s: %s", where ? where : "?", e.message ? e.message : "no memory");
    free(where);
    free(e.message);
    return -1;
}

void rush_error_restore(rush_error_state s)
{
    if (!s.kind) {
        rush_now.error = RUSH_OK;
        return;
    }
    keep(s.message);
    rush_now.error = s.kind;
}

void rush_assert_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "rushlight %s: a bug in the library: %s does not hold at %s:%d, in operation %s\n",
            rush_version(), what, file, line, rush_now.op && rush_now.op->name ? rush_now.op->name : "(none)");
    fflush(stderr);
    abort();
}
