/* launch.c - `rushlight launch`: the processes of a job on this machine, for programs of C, without Python.
 *
 * The environment is torchrun's. Machine 0 serves the store in which the processes meet. Each process has a session of its own and is killed
 * when the launcher goes. The first that fails ends all: SIGTERM, five seconds later SIGKILL, to their children too; then all start again as often
 * as --max-restarts says, and in the end that process is shown with the last of what it wrote to stderr. Numbers of machines that
 * change are the business of `python -m rushlight.distributed.run`.
 */
#define _GNU_SOURCE
#include "cmd/cmd.h"
#include <rushlight.h>
#include <rushlight/dist.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TAIL = 4096, GRACE = 5, MOST = 100000 };

typedef struct stream { /* what a process writes: passed on, logged, and its end remembered */
    int fd;             /* -1: it has ended */
    FILE *to, *log;
    char tail[TAIL], line[4096]; /* the end of a line is waited for, so that those of several processes do not mix */
    size_t n, in_line;  /* bytes read so far; those that wait */
} stream;

typedef struct worker {
    pid_t pid; /* 0: it was not started */
    int rank, status;
    bool ended;
    stream out, err;
} worker;

typedef struct job {
    int local, nodes, node, restarts, port, before, world;
    const char *address, *logs;
    char **program;
    rush_store *store;
    worker *workers;
} job;

static volatile sig_atomic_t asked; /* the signal that ends the job */

static void ask(int number) { asked = number; }
static void wake(int number) { (void)number; }

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- a process ---- */

static void put(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static void environment(const job *j, int local, int attempt)
{
    const struct { const char *name; int value; } numbers[] = {
        {"RANK", j->before + local}, {"LOCAL_RANK", local}, {"WORLD_SIZE", j->world}, {"LOCAL_WORLD_SIZE", j->local}, {"GROUP_RANK", j->node},
        {"GROUP_WORLD_SIZE", j->nodes}, {"ROLE_RANK", j->before + local}, {"ROLE_WORLD_SIZE", j->world}, {"MASTER_PORT", rush_store_port(j->store)},
        {"TORCHELASTIC_RESTART_COUNT", attempt}, {"TORCHELASTIC_MAX_RESTARTS", j->restarts}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) put(numbers[i].name, numbers[i].value);
    setenv("MASTER_ADDR", j->address, 1);
    setenv("ROLE_NAME", "default", 1);
    setenv("TORCHELASTIC_RUN_ID", "launch", 1);
    setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
    if (j->local > 1) setenv("OMP_NUM_THREADS", "1", 0);
}

static void child(const job *j, int local, int attempt, int out, int err)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(out, 1);
    dup2(err, 2);
    environment(j, local, attempt);
    execvp(j->program[0], j->program);
    fprintf(stderr, "rushlight launch: %s: %s\n", j->program[0], strerror(errno));
    _exit(127);
}

static FILE *log_of(const job *j, int local, int attempt, const char *name)
{
    char path[4096];
    if (!j->logs) return NULL;
    mkdir(j->logs, 0777);
    snprintf(path, sizeof path, "%s/attempt_%d_rank_%d.%s", j->logs, attempt, j->before + local, name);
    FILE *f = fopen(path, "we");
    if (!f) fprintf(stderr, "rushlight launch: %s: %s\n", path, strerror(errno));
    return f;
}

static int start(job *j, int local, int attempt)
{
    worker *w = &j->workers[local];
    int out[2], err[2];
    if (pipe2(out, O_CLOEXEC)) return -1;
    if (pipe2(err, O_CLOEXEC)) return close(out[0]), close(out[1]), -1;
    *w = (worker){.rank = j->before + local, .out = {.fd = out[0], .to = stdout}, .err = {.fd = err[0], .to = stderr}};
    fflush(NULL);
    w->pid = fork();
    if (!w->pid) child(j, local, attempt, out[1], err[1]);
    close(out[1]);
    close(err[1]);
    if (w->pid < 0) return w->pid = 0, close(out[0]), close(err[0]), w->out.fd = w->err.fd = -1, -1;
    w->out.log = log_of(j, local, attempt, "stdout");
    w->err.log = log_of(j, local, attempt, "stderr");
    return 0;
}

static void pass_on(stream *s, size_t n)
{
    fwrite(s->line, 1, n, s->to);
    fflush(s->to);
    memmove(s->line, s->line + n, s->in_line -= n);
}

/* What there is to read of a stream. */
static void pump(stream *s)
{
    char *some = s->line + s->in_line;
    ssize_t n = read(s->fd, some, sizeof s->line - s->in_line);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n <= 0) {
        pass_on(s, s->in_line);
        close(s->fd);
        s->fd = -1;
        if (s->log) fclose(s->log);
        s->log = NULL;
        return;
    }
    if (s->log) fwrite(some, 1, (size_t)n, s->log), fflush(s->log);
    for (ssize_t i = 0; i < n; i++) s->tail[s->n++ % TAIL] = some[i];
    size_t whole = s->in_line += (size_t)n;
    if (whole < sizeof s->line)
        while (whole && !strchr("\n\r", s->line[whole - 1])) whole--;
    if (whole) pass_on(s, whole);
}

/* Reads what all say for so long at most, and buries who has ended. */
static void listen_for(job *j, double seconds)
{
    struct pollfd polled[2 * j->local];
    stream *which[2 * j->local];
    nfds_t n = 0;
    for (int i = 0; i < 2 * j->local; i++) {
        stream *s = i % 2 ? &j->workers[i / 2].err : &j->workers[i / 2].out;
        if (j->workers[i / 2].pid && s->fd >= 0) which[n] = s, polled[n++] = (struct pollfd){.fd = s->fd, .events = POLLIN};
    }
    sigset_t none;
    sigemptyset(&none);
    struct timespec limit = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    int got = ppoll(polled, n, &limit, &none);
    for (nfds_t i = 0; got > 0 && i < n; i++)
        if (polled[i].revents) pump(which[i]);
    for (int i = 0; i < j->local; i++) {
        worker *w = &j->workers[i];
        if (w->pid && !w->ended && waitpid(w->pid, &w->status, WNOHANG) == w->pid) w->ended = true;
    }
}

static bool all_ended(const job *j)
{
    for (int i = 0; i < j->local; i++)
        if (j->workers[i].pid && !j->workers[i].ended) return false;
    return true;
}

static void end_all(job *j, int number)
{
    for (int i = 0; i < j->local; i++)
        if (j->workers[i].pid && !j->workers[i].ended) kill(-j->workers[i].pid, number);
    for (double end = now() + GRACE; now() < end && !all_ended(j);) listen_for(j, 0.05);
    for (int i = 0; i < j->local; i++)
        if (j->workers[i].pid) kill(-j->workers[i].pid, SIGKILL); /* children of those that have ended, too */
    while (!all_ended(j)) listen_for(j, 0.05);
    for (int i = 0; i < j->local; i++)
        for (int k = 0; k < 2; k++) {
            stream *s = k ? &j->workers[i].err : &j->workers[i].out;
            for (double end = now() + 1; s->fd >= 0 && now() < end;) listen_for(j, 0.01);
        }
}

/* ---- the job ---- */

/* Until all have ended well (NULL), one has failed (it), a signal came or another machine says that one has failed (*over). */
static worker *watch(job *j, int attempt, bool *over)
{
    char key[64];
    snprintf(key, sizeof key, "/launch/failed/%d", attempt);
    for (double looked = now(); !asked;) {
        listen_for(j, 0.2);
        for (int i = 0; i < j->local; i++)
            if (j->workers[i].ended && j->workers[i].status) {
                rush_store_set(j->store, key, "1", 1);
                return &j->workers[i];
            }
        if (all_ended(j)) return NULL;
        if (j->nodes > 1 && now() - looked > 1) {
            looked = now();
            if (rush_store_check(j->store, 1, (const char *[]){key}) != 0) break; /* or the store is gone */
        }
    }
    *over = true;
    return NULL;
}

static void show(const worker *w)
{
    const int signal = WIFSIGNALED(w->status) ? WTERMSIG(w->status) : 0;
    if (signal) fprintf(stderr, "\nrank %d (pid %d) failed first: it was ended by signal %d (%s).", w->rank, (int)w->pid, signal, strsignal(signal));
    else fprintf(stderr, "\nrank %d (pid %d) failed first: it exited with code %d.", w->rank, (int)w->pid, WEXITSTATUS(w->status));
    fprintf(stderr, " The end of what it said:\n");
    size_t from = w->err.n > TAIL ? w->err.n - TAIL : 0;
    for (size_t i = from; i < w->err.n; i++) fputc(w->err.tail[i % TAIL], stderr);
    fflush(stderr);
}

/* How many processes all machines have, and those before this one. */
static int count(job *j)
{
    char key[64], text[16];
    snprintf(key, sizeof key, "/launch/node/%d", j->node);
    snprintf(text, sizeof text, "%d", j->local);
    if (rush_store_set(j->store, key, text, strlen(text))) return -1;
    for (int i = 0; i < j->nodes; i++) {
        rush_bytes got = {0};
        snprintf(key, sizeof key, "/launch/node/%d", i);
        if (rush_store_get(j->store, key, &got)) return -1;
        snprintf(text, sizeof text, "%.*s", (int)got.n, (char *)got.data);
        rush_bytes_free(&got);
        j->world += atoi(text);
        j->before += i < j->node ? atoi(text) : 0;
    }
    return 0;
}

/* Who serves the store does so until the others have gone. */
static void leave(job *j)
{
    int64_t gone = 0;
    if (j->nodes == 1 || rush_store_add(j->store, "/launch/gone", 1, &gone)) return;
    for (double end = now() + 10; !j->node && gone < j->nodes && now() < end;) {
        nanosleep(&(struct timespec){0, 50000000}, NULL);
        if (rush_store_add(j->store, "/launch/gone", 0, &gone)) return;
    }
}

static int run(job *j)
{
    int status = 1;
    for (int attempt = 0; attempt <= j->restarts; attempt++) {
        bool over = false;
        for (int i = 0; i < j->local; i++)
            if (start(j, i, attempt)) {
                fprintf(stderr, "rushlight launch: a process cannot be started: %s\n", strerror(errno));
                end_all(j, SIGKILL);
                return 1;
            }
        worker *failed = watch(j, attempt, &over);
        end_all(j, asked ? asked : SIGTERM);
        if (asked) return 128 + asked;
        if (!failed && !over) {
            status = 0;
            break;
        }
        if (attempt < j->restarts) fprintf(stderr, "rushlight launch: starting again, %d of %d restarts left\n", j->restarts - attempt - 1, j->restarts);
        else if (failed) show(failed);
        else fprintf(stderr, "rushlight launch: a process on another machine failed first\n");
    }
    leave(j);
    return status;
}

const char rush_usage_launch[] =
    "usage: rushlight launch [-n PROCESSES] [--nnodes N --node-rank I --master-addr HOST --master-port PORT]\n"
    "                        [--max-restarts N] [--log-dir FOLDER] PROGRAM [ARGUMENTS ...]\n";

int rush_cmd_launch(int n, char **args)
{
    job j = {.local = 1, .nodes = 1, .address = "127.0.0.1", .port = -1, .program = args};
    const rush_option known[] = {
        {"-n", RUSH_TO(&j.local), 1, MOST}, {"--nproc-per-node", RUSH_TO(&j.local), 1, MOST}, {"--nnodes", RUSH_TO(&j.nodes), 1, MOST}, {"--node-rank", RUSH_TO(&j.node)},
        {"--master-addr", RUSH_TO(&j.address)}, {"--master-port", RUSH_TO(&j.port), 0, 65535}, {"--max-restarts", RUSH_TO(&j.restarts)}, {"--log-dir", RUSH_TO(&j.logs)}, {0}};
    if ((n = rush_options_read("launch", known, RUSH_OPTION_PROGRAM, n, args)) < 0) return n;
    if (!n) return RUSH_CMD_WRONG;
    if (j.node >= j.nodes) return fprintf(stderr, "rushlight: machine %d of %d: they are counted from 0\n", j.node, j.nodes), RUSH_CMD_WRONG;
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t held;
    sigemptyset(&held);
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) sigaction(ending[i], &(struct sigaction){.sa_handler = ask}, NULL), sigaddset(&held, ending[i]);
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = wake}, NULL);
    sigaddset(&held, SIGCHLD);
    if (j.port < 0) j.port = j.nodes > 1 ? 29500 : 0;
    j.store = rush_store_tcp(j.address, j.port, .server = !j.node);
    j.workers = calloc((size_t)j.local, sizeof *j.workers);
    int status = 1;
    if (!j.store || count(&j)) fprintf(stderr, "rushlight launch: %s\n", rush_error());
    else if (!j.workers) fprintf(stderr, "rushlight launch: no memory for %d processes\n", j.local);
    else {
        sigprocmask(SIG_BLOCK, &held, NULL); /* they come while we listen, and not between looking and listening */
        status = run(&j);
    }
    free(j.workers);
    rush_store_drop(j.store);
    return status;
}
