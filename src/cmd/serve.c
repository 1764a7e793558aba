/* serve.c - `rushlight serve DIR`: options, signals, and a look at the folder every second. */
#include "cmd/cmd.h"
#include "serve/serve.h"

#include <errno.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

serve_options serve_given = {.host = "127.0.0.1", .port = 8000, .connections = 64, .instances = 1, .max_batch = 32, .queue = 256, .timeout_ms = 30000, .grace_ms = 10000,
                             .max_bytes = (size_t)64 << 20, .max_held = (size_t)256 << 20};

const char rush_usage_serve[] =
    "usage: rushlight serve DIR [--host 127.0.0.1] [--port 8000] [--api-key KEY] [--tls FILE] [--instances 1] [--max-batch 32] [--delay-us 0]\n"
    "                           [--queue 256] [--timeout-ms 30000] [--grace-ms 10000] [--connections 64] [--max-mb 64] [--context 0] [--log] [--shared-memory]\n"
    "Serves DIR/NAME.pt2 (.onnx, .pt, .gguf) and DIR/NAME/VERSION/model.pt2 by the KServe v2 protocol, language models (.gguf) by OpenAI's; /metrics is for\n"
    "Prometheus. --context: the tokens that a language model remembers; 0: as many as it was trained for, at most 4096.\n"
    "--tls: HTTPS with the certificate and key in one file of PEM. --log: a line of JSON for each request and each model that is loaded, on standard error.\n"
    "--shared-memory: clients on this machine may name shared memory, of which the server reads and writes what its user may.\n"
    "The key may also stand in RUSHLIGHT_API_KEY. A changed file is loaded again; SIGTERM ends it when all is answered.\n";

static int read_options(int argc, char **argv)
{
    serve_options *o = &serve_given;
    long long mb = 64;
    const struct { const char *name; int *i; int64_t *l; const char **s; long long *m; int least; } known[] = {
        {"--host", .s = &o->host}, {"--port", .i = &o->port}, {"--api-key", .s = &o->key}, {"--tls", .s = &o->tls}, {"--instances", .i = &o->instances, .least = 1}, {"--max-batch", .i = &o->max_batch, .least = 1},
        {"--delay-us", .l = &o->delay_us}, {"--queue", .i = &o->queue, .least = 1}, {"--timeout-ms", .l = &o->timeout_ms, .least = 1}, {"--grace-ms", .l = &o->grace_ms}, {"--connections", .i = &o->connections, .least = 1},
        {"--max-mb", .m = &mb, .least = 1}, {"--context", .l = &o->context}};
    o->key = getenv("RUSHLIGHT_API_KEY");
    for (int i = 0; i < argc; ++i) {
        size_t k = 0, n = sizeof known / sizeof *known;
        if (!strcmp(argv[i], "--log") || !strcmp(argv[i], "--shared-memory")) {
            *(argv[i][2] == 'l' ? &o->log : &o->shared) = true;
            continue;
        }
        while (k < n && strcmp(known[k].name, argv[i])) ++k;
        if (k == n && argv[i][0] != '-' && !o->dir) {
            o->dir = argv[i];
            continue;
        }
        if (k == n) return fprintf(stderr, "rushlight: serve does not know %s\n", argv[i]), -1;
        if (++i == argc) return fprintf(stderr, "rushlight: %s needs a value\n", known[k].name), -1;
        char *end = NULL;
        long long number = known[k].s ? 0 : strtoll(argv[i], &end, 10);
        if (!known[k].s && (*end || end == argv[i] || number < known[k].least || number > (known[k].i == &o->port ? 65535 : 1000000000))) return fprintf(stderr, "rushlight: %s %s is no such number\n", known[k].name, argv[i]), -1;
        if (known[k].s) *known[k].s = argv[i];
        else if (known[k].i) *known[k].i = (int)number;
        else if (known[k].l) *known[k].l = number;
        else *known[k].m = number;
    }
    o->max_bytes = (size_t)mb << 20;
    o->max_held = 4 * o->max_bytes;
    if (o->key && !*o->key) o->key = NULL;
    return o->dir ? 0 : -1;
}

static int ends[2]; /* a pipe: a byte comes when the server is to end */

/* In whatever thread the signal arrives: libraries have made some before this program began, so that none could be kept from it. */
static void end(int number)
{
    int before = errno;
    ssize_t written = write(ends[1], "", 1);
    (void)number, (void)written;
    errno = before;
}

static bool is_ended(void)
{
    struct pollfd waiting = {.fd = ends[0], .events = POLLIN};
    return poll(&waiting, 1, 1000) > 0;
}

int rush_cmd_serve(int argc, char **argv)
{
    const struct sigaction ending = {.sa_handler = end, .sa_flags = SA_RESTART};
    if (read_options(argc, argv)) return RUSH_CMD_WRONG;
    struct stat folder;
    if (stat(serve_given.dir, &folder) || !S_ISDIR(folder.st_mode)) return fprintf(stderr, "rushlight: '%s' is no folder\n", serve_given.dir), 1;
    if (pipe(ends)) return fprintf(stderr, "rushlight: %s\n", strerror(errno)), 1;
    sigaction(SIGTERM, &ending, NULL);
    sigaction(SIGINT, &ending, NULL);
    if (signal(SIGHUP, SIG_IGN) != SIG_IGN) sigaction(SIGHUP, &ending, NULL); /* ignored under nohup */
    signal(SIGPIPE, SIG_IGN);
    if (serve_given.log) serve_log_all();
#ifdef M_ARENA_MAX
    mallopt(M_ARENA_MAX, rush_num_threads()); /* else each of many connections comes to hold what its largest request took */
#endif
    rush_num_threads_set(RUSH_MAX(rush_num_threads() / serve_given.instances, 1));
    rush_parallel_alone(true); /* as the web server's threads do: the instances' are the only teams */
    serve_repository_scan();
    if (serve_http_begin()) return fprintf(stderr, "rushlight: %s\n", rush_error()), 1;
    printf(strchr(serve_given.host, ':') ? "serving %s at %s://[%s]:%d\n" : "serving %s at %s://%s:%d\n", serve_given.dir, serve_given.tls ? "https" : "http", serve_given.host, serve_given.port);
    fflush(stdout);
    while (!is_ended()) serve_repository_scan();
    serve_http_drain();
    serve_http_end();
    serve_repository_end();
    return 0;
}
