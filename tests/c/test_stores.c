/* test_stores.c - stores: what they hold, waits that end, and what a server takes from strangers. */
#define _GNU_SOURCE
#include "suite/suite.h"
#include "dist/secret.h"
#include <rushlight/dist.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TEST(name) static void name(void **state)

static char folder[64];

static void give_up(void *s) { rush_store_drop(s); }
static rush_store *kept(rush_store *s)
{
    suite_after(give_up, s);
    if (rush_error()) print_message("%s\n", rush_error());
    assert_non_null(s);
    return s;
}
static void free_bytes(void *b) { rush_bytes_free(b); }

static void no_error(void)
{
    if (rush_error()) print_message("%s\n", rush_error());
    assert_null(rush_error());
}

static rush_store *hash(void) { return kept(rush_store_hash()); }
static rush_store *tcp(void) { return kept(rush_store_tcp("127.0.0.1", 0, .server = true, .timeout = 20)); }
static rush_store *prefix(void) { return kept(rush_store_prefix("p", hash())); }
static rush_store *file(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/store", folder);
    unlink(path);
    return kept(rush_store_file(path, 1));
}

static void has(rush_store *s, const char *key, const char *value)
{
    static rush_bytes b;
    suite_after(free_bytes, &b);
    assert_int_equal(rush_store_get(s, key, &b), 0);
    assert_int_equal(b.n, strlen(value));
    assert_memory_equal(b.data, value, b.n);
    rush_bytes_free(&b);
    suite_forget(&b);
}

static void holds(rush_store *s)
{
    static rush_bytes now;
    suite_after(free_bytes, &now);
    int64_t n = 0;
    rush_store_set(s, "a", "x", 1);
    rush_store_append(s, "a", "yz", 2);
    no_error();
    has(s, "a", "xyz");
    assert_int_equal(rush_store_add(s, "n", 5, NULL), 0);
    assert_int_equal(rush_store_add(s, "n", -7, &n), 0);
    assert_int_equal(n, -2);
    assert_int_equal(rush_store_check(s, 2, (const char *[]){"a", "n"}), 1);
    assert_int_equal(rush_store_check(s, 2, (const char *[]){"a", "z"}), 0);
    assert_int_equal(rush_store_compare_set(s, "a", (rush_bytes){"xyz", 3}, (rush_bytes){"new", 3}, &now), 0);
    assert_memory_equal(now.data, "new", 3);
    rush_bytes_free(&now);
    assert_int_equal(rush_store_delete(s, "a"), 1);
    assert_int_equal(rush_store_delete(s, "a"), 0);
    assert_int_equal(rush_store_set_all(s, 2, (const char *[]){"k1", "k2"}, (rush_bytes[]){{"1", 1}, {"22", 2}}), 0);
    has(s, "k2", "22");
    assert_int_equal(rush_store_barrier(s, "b", 1, 5), 0);
    assert_int_equal(rush_store_wait(s, 1, (const char *[]){"late"}, 0.03), -1);
    assert_int_equal(rush_error_kind_now(), suite_failing() ? rush_error_kind_now() : RUSH_DIST_STORE_ERROR);
    if (!suite_failing()) rush_error_clear();
}

TEST(hash_store_holds) { holds(hash()); }
TEST(prefix_store_holds) { holds(prefix()); }
TEST(file_store_holds) { holds(file()); }
TEST(tcp_store_holds) { holds(tcp()); }

TEST(queues)
{
    rush_store *all[] = {hash(), tcp()};
    static rush_bytes b;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rush_store_push(all[i], "q", "one", 3), 0);
        assert_int_equal(rush_store_push(all[i], "q", "two", 3), 0);
        assert_int_equal(rush_store_queued(all[i], "q"), 2);
        suite_after(free_bytes, &b);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(rush_store_pop(all[i], "q", true, &b), 0);
            assert_memory_equal(b.data, k ? "two" : "one", 3);
            rush_bytes_free(&b);
        }
        suite_forget(&b);
        if (suite_failing()) return;
        assert_int_equal(rush_store_pop(all[i], "q", false, &b), -1);
        assert_int_equal(rush_error_kind_now(), RUSH_DIST_QUEUE_ERROR);
        rush_error_clear();
    }
}

/* What PyTorch's FileStore writes for the same calls. */
TEST(the_file_is_pytorchs)
{
    static const char want[] = "\x09\0\0\0refcount/\1\0\0\0001\2\0\0\0/a\1\0\0\0x\2\0\0\0/n\1\0\0\0005\3\0\0\0-/a\0\0\0\0\2\0\0\0/s\1\0\0\0001"
                               "\2\0\0\0/s\2\0\0\00012";
    rush_store *s = file();
    rush_store_set(s, "a", "x", 1);
    rush_store_add(s, "n", 5, NULL);
    rush_store_delete(s, "a");
    rush_store_append(s, "s", "1", 1);
    rush_store_append(s, "s", "2", 1);
    no_error();
    char path[128], bytes[256];
    snprintf(path, sizeof path, "%s/store", folder);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    assert_int_equal(n, sizeof want - 1);
    assert_memory_equal(bytes, want, n);
}

/* ---- strangers ---- */

static int stranger(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

/* Was the connection closed by the server (within five seconds)? */
static bool thrown_out(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char c[64];
    ssize_t got = 1;
    while (got > 0 && poll(&p, 1, 5000) == 1) got = recv(fd, c, sizeof c, 0);
    return got <= 0;
}

static void send_all(int fd, const void *p, size_t n)
{
    for (const char *at = p; n;) {
        ssize_t k = send(fd, at, n, MSG_NOSIGNAL);
        if (k <= 0) return; /* thrown out while it talks */
        at += k;
        n -= (size_t)k;
    }
}

#define HELLO "\0\xce\xf7\x85\x3c"

TEST(strangers_are_thrown_out)
{
    rush_store *s = tcp();
    static const struct { const char *bytes; size_t n; } talk[] = {
        {"GET / HTTP/1.1\r\n\r\n", 18},                                        /* no greeting */
        {"\0abcd", 5},                                                         /* a wrong number */
        {"\1\1\0\0\0\0\0\0\0a\1\0\0\0\0\0\0\0b", 19},                          /* SET without a greeting */
        {HELLO "\x7f", 6},                                                     /* a kind that is none */
        {HELLO "\1\xff\xff\xff\xff\xff\xff\xff\xff", 14},                      /* a key of 2^64 bytes */
        {HELLO "\1\1\0\0\0\0\0\0\0a\0\0\0\0\1\0\0\0", 23},                     /* a value of 4 GB */
        {HELLO "\6\0\0\0\0\0\1\0\0", 14},                                      /* a wait for 2^40 keys */
        {HELLO "\3\2\0\0\0\0\0\0\0/z", 16},                                    /* GET of what is not there */
        {HELLO "\6\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0/z\3", 25},                  /* a request while it waits */
    };
    for (size_t i = 0; i < sizeof talk / sizeof *talk; i++) {
        int fd = stranger(rush_store_port(s));
        send_all(fd, talk[i].bytes, talk[i].n);
        bool out = thrown_out(fd);
        close(fd);
        if (!out) print_message("talk %zu\n", i);
        assert_true(out);
    }
    rush_store_set(s, "a", "still there", 11); /* and the others are served */
    if (!suite_failing()) has(s, "a", "still there");
}

TEST(random_bytes_harm_nobody)
{
    rush_store *s = tcp();
    srand(1);
    for (int i = 0; i < (suite_failing() ? 3 : 300); i++) {
        char bytes[256] = HELLO;
        int n = 5 + rand() % 200;
        for (int k = 5; k < n; k++) bytes[k] = (char)(rand() % 3 ? rand() % 20 : rand());
        int fd = stranger(rush_store_port(s));
        send_all(fd, bytes, (size_t)n);
        close(fd);
    }
    rush_store_set(s, "a", "1", 1);
    if (!suite_failing()) has(s, "a", "1");
}

static size_t resident(void)
{
    size_t all, here = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%zu %zu", &all, &here), 2);
    fclose(f);
    return here * (size_t)sysconf(_SC_PAGESIZE);
}

/* Who announces much and sends little takes little. */
TEST(what_is_announced_takes_no_memory)
{
    enum { GUESTS = 100 };
    rush_store *s = tcp();
    static const char talk[] = HELLO "\1\1\0\0\0\0\0\0\0a\0\0\0\x0f\0\0\0\0"; /* a value of 251 MB */
    static char some[20000];
    int fds[GUESTS], n = suite_failing() ? 2 : GUESTS;
    size_t before = resident();
    for (int i = 0; i < n; i++) {
        fds[i] = stranger(rush_store_port(s));
        send_all(fds[i], talk, sizeof talk - 1);
        send_all(fds[i], some, sizeof some);
    }
    rush_store_set(s, "a", "1", 1);
    if (!suite_failing()) has(s, "a", "1");
    size_t after = resident();
    for (int i = 0; i < n; i++) close(fds[i]);
    assert_true(after < before + ((size_t)64 << 20));
}

/* RFC 4231, test cases 2 and 6. */
TEST(hmac_is_that_of_the_standard)
{
    static const uint8_t want[2][4] = {{0x5b, 0xdc, 0xc1, 0x46}, {0x60, 0xe4, 0x31, 0x59}}, end[2][2] = {{0x38, 0x43}, {0x7f, 0x54}};
    char key[131];
    uint8_t mac[32];
    memset(key, 0xaa, sizeof key);
    rush_hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, mac);
    assert_memory_equal(mac, want[0], 4);
    assert_memory_equal(mac + 30, end[0], 2);
    rush_hmac_sha256(key, sizeof key, "Test Using Larger Than Block-Size Key - Hash Key First", 54, mac);
    assert_memory_equal(mac, want[1], 4);
    assert_memory_equal(mac + 30, end[1], 2);
}

static void forget_secret(void *unused) { unsetenv("RUSHLIGHT_STORE_SECRET"); }

TEST(a_secret_is_demanded)
{
    setenv("RUSHLIGHT_STORE_SECRET", "open sesame", 1);
    suite_after(forget_secret, forget_secret);
    rush_store *s = tcp();
    holds(s);
    if (suite_failing()) return;
    int port = rush_store_port(s), fd = stranger(port);
    send_all(fd, HELLO "\1\1\0\0\0\0\0\0\0a\1\0\0\0\0\0\0\0b", 23); /* SET without a proof */
    assert_true(thrown_out(fd));
    close(fd);
    fd = stranger(port);
    send_all(fd, HELLO "\x71" "0123456789abcdef0123456789abcdef", 38); /* a proof that nobody asked for */
    assert_true(thrown_out(fd));
    close(fd);
    setenv("RUSHLIGHT_STORE_SECRET", "another", 1);
    assert_null(rush_store_tcp("127.0.0.1", port, .timeout = 5));
    assert_non_null(strstr(rush_error(), "has another secret"));
    rush_error_clear();
    unsetenv("RUSHLIGHT_STORE_SECRET");
    assert_null(rush_store_tcp("127.0.0.1", port, .timeout = 5));
    assert_non_null(rush_error());
    rush_error_clear();
    rush_store *open = tcp();
    setenv("RUSHLIGHT_STORE_SECRET", "open sesame", 1);
    assert_null(rush_store_tcp("127.0.0.1", rush_store_port(open), .timeout = 5));
    assert_non_null(strstr(rush_error(), "does not take the secret"));
    rush_error_clear();
}

/* A message in pieces, byte by byte. */
TEST(a_slow_client_is_served)
{
    rush_store *s = tcp();
    static const char talk[] = HELLO "\1\2\0\0\0\0\0\0\0/a\3\0\0\0\0\0\0\0xyz";
    int fd = stranger(rush_store_port(s));
    for (size_t i = 0; i < sizeof talk - 1; i++) {
        send_all(fd, talk + i, 1);
        usleep(200);
    }
    if (!suite_failing()) has(s, "a", "xyz");
    close(fd);
}

static void *set_later(void *s)
{
    usleep(50000);
    rush_store_set(s, "late", "1", 1);
    return NULL;
}

TEST(a_wait_lets_others_through)
{
    rush_store *s = tcp();
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, set_later, s), 0);
    int failed = rush_store_wait(s, 1, (const char *[]){"late"}, suite_failing() ? 1 : 20);
    pthread_join(thread, NULL);
    if (!suite_failing()) assert_int_equal(failed, 0);
}

TEST(nobody_there)
{
    assert_null(rush_store_tcp("127.0.0.1", 1, .timeout = 0.05));
    assert_non_null(rush_error());
    if (suite_failing()) return;
    assert_non_null(strstr(rush_error(), "timed out after 50ms"));
    rush_error_clear();
    rush_store *s = tcp();
    assert_null(rush_store_tcp("127.0.0.1", rush_store_port(s), .server = true));
    assert_non_null(strstr(rush_error(), "failed to listen"));
    rush_error_clear();
    assert_null(rush_store_tcp("127.0.0.1", 0, .server = true, .world_size = 2, .wait = true, .timeout = 0.05));
    assert_non_null(strstr(rush_error(), "1/2 clients joined"));
    rush_error_clear();
}

int main(int argc, char **argv)
{
    strcpy(folder, "/tmp/rush_stores.XXXXXX");
    if (!mkdtemp(folder)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hash_store_holds), cmocka_unit_test(prefix_store_holds), cmocka_unit_test(file_store_holds), cmocka_unit_test(tcp_store_holds),
        cmocka_unit_test(queues), cmocka_unit_test(the_file_is_pytorchs), cmocka_unit_test(strangers_are_thrown_out),
        cmocka_unit_test(random_bytes_harm_nobody), cmocka_unit_test(what_is_announced_takes_no_memory),
        cmocka_unit_test(hmac_is_that_of_the_standard), cmocka_unit_test(a_secret_is_demanded), cmocka_unit_test(a_slow_client_is_served), cmocka_unit_test(a_wait_lets_others_through),
        cmocka_unit_test(nobody_there),
    };
    int failed = SUITE(tests);
    char path[128];
    snprintf(path, sizeof path, "%s/store", folder);
    unlink(path);
    rmdir(folder);
    return failed;
}
