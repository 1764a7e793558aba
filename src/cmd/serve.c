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
    "                           [--queue 256] [--timeout-ms 30000] [--grace-ms 10000] [--connections 64] [--max-mb 64] [--context 0] [--log] [--trace FILE]\n"
    "                           [--shared-memory]\n"
    "Serves DIR/NAME.pt2 (.onnx, .pt, .gguf) and DIR/NAME/VERSION/model.pt2 by the KServe v2 protocol, language models (.gguf) by OpenAI's; /metrics is for\n"
    "Prometheus. --context: the tokens that a language model remembers; 0: as many as it was trained for, at most 4096.\n"
    "--tls: HTTPS with the certificate and key in one file of PEM. --log: a line of JSON for each request and each model that is loaded, on standard error.\n"
    "--trace: clients may ask for traces (/v2/trace/setting), which become a list in FILE: when requests came, waited, were computed and answered.\n"
    "--shared-memory: clients on this machine may name shared memory, of which the server reads and writes what its user may.\n"
    "The key may also stand in RUSHLIGHT_API_KEY. A changed file is loaded again; SIGTERM ends it when all is answered.\n";

static int read_options(int n, char **args)
{
    serve_options *o = &serve_given;
    int64_t mb = 64;
    const rush_option known[] = {
        {"--host", RUSH_TO(&o->host)}, {"--port", RUSH_TO(&o->port), 0, 65535}, {"--api-key", RUSH_TO(&o->key)}, {"--tls", RUSH_TO(&o->tls)}, {"--instances", RUSH_TO(&o->instances), 1, 1024},
        {"--max-batch", RUSH_TO(&o->max_batch), 1}, {"--delay-us", RUSH_TO(&o->delay_us)}, {"--queue", RUSH_TO(&o->queue), 1}, {"--timeout-ms", RUSH_TO(&o->timeout_ms), 1},
        {"--grace-ms", RUSH_TO(&o->grace_ms)}, {"--connections", RUSH_TO(&o->connections), 1, 65536}, {"--max-mb", RUSH_TO(&mb), 1}, {"--context", RUSH_TO(&o->context)},
        {"--log", RUSH_TO(&o->log)}, {"--trace", RUSH_TO(&o->trace)}, {"--shared-memory", RUSH_TO(&o->shared)}, {0}};
    o->key = getenv("RUSHLIGHT_API_KEY");
    if ((n = rush_options_read("serve", known, 1, n, args)) < 0) return n;
    o->dir = args[0];
    o->max_bytes = (size_t)mb << 20;
    o->max_held = 4 * o->max_bytes;
    if (o->key && !*o->key) o->key = NULL;
    return o->dir ? 0 : RUSH_CMD_WRONG;
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

int rush_cmd_serve(int n, char **args)
{
    const struct sigaction ending = {.sa_handler = end, .sa_flags = SA_RESTART};
    if ((n = read_options(n, args)) < 0) return n;
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
    serve_trace_end();
    return 0;
}
