/* test_dist.c - groups and the mean of gradients. The ranks are threads that meet in a store in memory and talk over sockets. */
#define _GNU_SOURCE
#include "suite/suite.h"
#include "dist/group.h"
#include <rushlight.h>
#include <rushlight/dist.h>
#include <rushlight/ops.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TEST(name) static void name(void **state)
enum { MOST = 4 };

typedef struct rank {
    int number, size;
    double timeout;
    rush_store *store;
    void (*program)(struct rank *, rush_group *);
    double value;        /* what the program found */
    char said[400];      /* the error that it ended with */
    rush_error_kind kind;
} rank;

static void *run(void *arg)
{
    rank *r = arg;
    rush_scope() {
        rush_group *g = rush_group_new(r->store, .rank = r->number, .size = r->size, .timeout = r->timeout);
        if (g) r->program(r, g);
        r->kind = rush_error_kind_now();
        snprintf(r->said, sizeof r->said, "%s", rush_error() ? rush_error() : "");
        rush_group_drop(g);
    }
    rush_error_clear();
    return NULL;
}

static void give_up(void *s) { rush_store_drop(s); }

static rank ranks[MOST];

/* Runs a program as `size` ranks; their results are in ranks[]. */
static void job(int size, double timeout, void (*program)(rank *, rush_group *))
{
    if (!rush_engine_load("gloo") && !suite_failing()) {
        print_message("skipped: %s\n", rush_error());
        rush_error_clear();
        skip();
    }
    rush_store *store = rush_store_hash();
    suite_after(give_up, store);
    assert_non_null(store);
    pthread_t threads[MOST];
    double patience = suite_failing() ? 0.1 : timeout;
    rush_store_timeout_set(store, patience);
    for (int i = 0; i < size; i++) {
        ranks[i] = (rank){.number = i, .size = size, .timeout = patience, .store = store, .program = program};
        assert_int_equal(pthread_create(&threads[i], NULL, run, &ranks[i]), 0);
    }
    for (int i = 0; i < size; i++) pthread_join(threads[i], NULL);
}

static void all_well(int size)
{
    if (suite_failing()) {
        for (int i = 0; i < size; i++) /* an allocation that failed in one rank ends all of them, with an error each */
            if (ranks[i].kind) rush_fail(ranks[i].kind, "%s", ranks[i].said);
        return;
    }
    for (int i = 0; i < size; i++) {
        if (ranks[i].kind) print_message("rank %d: %s\n", i, ranks[i].said);
        assert_int_equal(ranks[i].kind, RUSH_OK);
    }
}

static rush_tensor *numbers(int64_t n, float first)
{
    rush_tensor *t = rush_from_data((float[8]){first, first + 1, first + 2, first + 3}, RUSH_F32, 1, &n);
    return t;
}

static void collectives(rank *r, rush_group *g)
{
    rush_tensor *t = numbers(4, (float)r->number), *all = rush_zeros(RUSH_INTS(4 * r->size)), *b = numbers(4, (float)r->number), *part = numbers(2, 0);
    if (rush_error()) return;
    if (rush_dist_all_gather(g, all, t) || rush_dist_all_reduce(g, t, RUSH_REDUCE_SUM) || rush_dist_broadcast(g, b, 1) || rush_dist_barrier(g)) return;
    if (r->size == 2 && rush_dist_reduce_scatter(g, part, t, RUSH_REDUCE_MAX)) return;
    r->value = rush_item(rush_sum(t)) + 1000 * rush_item(rush_sum(b)) + 1e6 * rush_item(rush_sum(all));
}

TEST(collectives_of_two_and_three)
{
    job(2, 20, collectives);
    all_well(2); /* sum 0..3 is 6, plus 4 per rank before */
    for (int i = 0; i < 2 && !suite_failing(); i++) assert_true(ranks[i].value == 16 + 1000 * 10 + 1e6 * 16);
    if (suite_failing()) return;
    job(3, 20, collectives);
    all_well(3);
    for (int i = 0; i < 3; i++) assert_true(ranks[i].value == 30 + 1000 * 10 + 1e6 * 30);
}

static void messages(rank *r, rush_group *g)
{
    rush_tensor *t = numbers(4, 7);
    if (!t) return;
    if (r->number) {
        rush_dist_send(g, t, 0, 5);
        return;
    }
    rush_tensor *got = rush_zeros(RUSH_INTS(4));
    rush_collective c = {.kind = RUSH_DIST_RECEIVE, .out = &got, .nout = 1, .root = -1, .tag = 5};
    rush_work *w = got ? rush_dist_start(g, &c) : NULL;
    if (w && !rush_work_wait(w, 0)) r->value = rush_item(rush_sum(got)) + 100 * rush_work_source(w);
    rush_work_drop(w);
}

TEST(messages_of_two)
{
    job(2, 20, messages);
    all_well(2);
    if (!suite_failing()) assert_true(ranks[0].value == 34 + 100);
}

static void a_work_that_nobody_waits_for(rank *r, rush_group *g)
{
    rush_tensor *t = numbers(4, 1);
    rush_collective c = {.kind = RUSH_DIST_ALL_REDUCE, .out = &t, .nout = 1};
    rush_work *w = t ? rush_dist_start(g, &c) : NULL;
    rush_work_drop(w);
    if (w) rush_dist_barrier(g);
    r->value = t && w ? rush_item(rush_sum(t)) : 0;
}

TEST(works_may_be_dropped)
{
    job(2, 20, a_work_that_nobody_waits_for);
    all_well(2);
    if (!suite_failing()) assert_true(ranks[0].value == 20 && ranks[1].value == 20);
}

static void different_calls(rank *r, rush_group *g)
{
    rush_tensor *t = numbers(4, 1);
    if (!t) return;
    if (r->number) rush_dist_all_reduce(g, t, RUSH_REDUCE_SUM);
    else rush_dist_all_reduce(g, t, RUSH_REDUCE_MAX);
    if (!rush_error()) rush_dist_barrier(g);
}

TEST(calls_that_differ_are_told)
{
    job(2, 20, different_calls);
    if (suite_failing()) return all_well(2);
    bool shown = false;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ranks[i].kind, RUSH_DIST_BACKEND_ERROR);
        shown |= strstr(ranks[i].said, "do not agree") && strstr(ranks[i].said, "all_reduce.SUM") && strstr(ranks[i].said, "all_reduce.MAX");
    }
    assert_true(shown);
}

static void one_leaves(rank *r, rush_group *g)
{
    rush_dist_barrier(g);
    if (r->number != 1 && !rush_error()) rush_dist_barrier(g);
}

TEST(who_leaves_is_told)
{
    job(3, 20, one_leaves);
    if (suite_failing()) return all_well(3);
    assert_int_equal(ranks[1].kind, RUSH_OK);
    assert_true(ranks[0].kind && ranks[2].kind);
    assert_true(strstr(ranks[0].said, "left the group") || strstr(ranks[2].said, "left the group"));
}

static void late(rank *r, rush_group *g)
{
    if (r->number == 1) usleep(900000);
    else rush_dist_barrier(g);
}

TEST(waits_end)
{
    job(2, 0.3, late);
    if (suite_failing()) return all_well(2);
    assert_int_equal(ranks[0].kind, RUSH_DIST_BACKEND_ERROR);
    assert_non_null(strstr(ranks[0].said, "waited 0.3 s for rank 1"));
}

/* Rank 1 announces a message and leaves before anybody wants it; who then receives from any gets that of rank 2. */
static void announced_and_left(rank *r, rush_group *g)
{
    rush_tensor *t = numbers(4, (float)r->number);
    rush_collective c = {.kind = RUSH_DIST_SEND, .in = &t, .nin = 1, .root = 0, .tag = 5};
    if (!t || rush_dist_barrier(g)) return;
    if (r->number == 1) return rush_work_drop(rush_dist_start(g, &c));
    usleep(suite_failing() ? 1000 : r->number ? 600000 : 300000);
    if (r->number == 2) return (void)rush_dist_run(g, &c);
    rush_collective any = {.kind = RUSH_DIST_RECEIVE, .out = &t, .nout = 1, .root = -1, .tag = 5};
    rush_work *w = rush_dist_start(g, &any);
    if (w && !rush_work_wait(w, 0)) r->value = rush_work_source(w);
    rush_work_drop(w);
}

TEST(a_message_of_one_who_left_is_not_waited_for)
{
    job(3, 5, announced_and_left);
    if (suite_failing()) return all_well(3);
    all_well(3);
    assert_true(ranks[0].value == 2);
}

/* Every collective, of few numbers and of many, over TCP and in shared memory: the same answers. */
static void all_kinds(rank *r, rush_group *g)
{
    enum { MANY = 200003 };
    int n = r->size;
    for (int pass = 0; pass < 2; pass++)
        rush_scope() {
            int64_t each = pass ? MANY : 3, whole = each * n;
            rush_tensor *own = rush_full(RUSH_INTS(each), r->number + 1.0), *sum = rush_full(RUSH_INTS(each), r->number + 1.0), *all = rush_zeros(RUSH_INTS(whole));
            rush_tensor *sent = rush_full(RUSH_INTS(whole), r->number + 1.0), *got = rush_zeros(RUSH_INTS(whole)), *part = rush_zeros(RUSH_INTS(each));
            rush_tensor *from_last = rush_full(RUSH_INTS(each), r->number + 1.0), *best = rush_full(RUSH_INTS(each), r->number + 1.0);
            if (rush_error()) continue;
            rush_dist_all_reduce(g, sum, RUSH_REDUCE_SUM);
            rush_dist_reduce(g, best, n - 1, RUSH_REDUCE_MAX);
            rush_dist_broadcast(g, from_last, n - 1);
            rush_dist_all_gather(g, all, own);
            rush_dist_reduce_scatter(g, part, sent, RUSH_REDUCE_SUM);
            rush_dist_all_to_all(g, got, sent);
            rush_dist_barrier(g);
            if (rush_error()) continue;
            double triangle = n * (n + 1) / 2.0;
            bool right = rush_item(rush_sum(sum)) == triangle * (double)each && rush_item(rush_sum(from_last)) == n * (double)each;
            right &= rush_item(rush_sum(all)) == triangle * (double)each && rush_item(rush_sum(got)) == triangle * (double)each;
            right &= rush_item(rush_sum(part)) == triangle * (double)each && (r->number < n - 1 || rush_item(rush_sum(best)) == n * (double)each);
            r->value += right;
        }
}

TEST(shared_memory_and_tcp_agree)
{
    for (int shared = 0; shared < 2; shared++)
        for (int size = 2; size <= (suite_failing() ? 2 : 4); size += 2) {
            setenv("RUSHLIGHT_DIST_SHARED", shared ? "1" : "0", 1);
            job(size, 20, all_kinds);
            unsetenv("RUSHLIGHT_DIST_SHARED");
            all_well(size);
            for (int i = 0; i < size && !suite_failing(); i++) assert_true(ranks[i].value == 2);
        }
}

static void mistakes(rank *r, rush_group *g)
{
    rush_tensor *t = numbers(4, 1), *i = rush_from_data((int64_t[]){1, 2}, RUSH_I64, 1, (int64_t[]){2});
    if (!t || !i) return;
    int wrong = 0;
    wrong += rush_dist_broadcast(g, t, 9) == -1 && rush_error_kind_now() == RUSH_RUNTIME_ERROR;
    rush_error_clear();
    wrong += rush_dist_all_reduce(g, t, RUSH_REDUCE_BXOR) == -1;
    rush_error_clear();
    wrong += rush_dist_all_gather(g, i, t) == -1;
    rush_error_clear();
    wrong += rush_dist_send(g, t, 0, 0) == -1;
    rush_error_clear();
    r->value = wrong;
}

TEST(mistakes_are_errors)
{
    job(1, 20, mistakes);
    if (!suite_failing()) assert_true(ranks[0].value == 4);
}

/* A linear layer: the gradient of its weight is the mean of the ranks' inputs. */
static void learn(rank *r, rush_group *g)
{
    rush_module *net = rush_nn_linear(4, 1, .no_bias = true);
    rush_reducer *mean = net ? rush_ddp(g, net) : NULL;
    for (int pass = 0; mean && pass < 2; pass++)
        rush_scope() {
            rush_module_zero_grad(net);
            rush_backward(rush_sum(rush_forward(net, rush_reshape(numbers(4, (float)(10 * r->number)), RUSH_INTS(1, 4)))));
        }
    rush_tensors all = rush_error() ? (rush_tensors){0} : rush_parameters(net);
    rush_tensor *w = all.data ? all.data[0] : NULL;
    r->value = w && rush_grad(w) ? rush_item(rush_sum(rush_grad(w))) : -1;
    rush_reducer_drop(mean);
}

TEST(gradients_become_their_mean)
{
    job(2, 20, learn);
    all_well(2);
    if (!suite_failing()) assert_true(ranks[0].value == 26 && ranks[1].value == 26);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives_of_two_and_three), cmocka_unit_test(messages_of_two), cmocka_unit_test(works_may_be_dropped),
        cmocka_unit_test(calls_that_differ_are_told), cmocka_unit_test(who_leaves_is_told), cmocka_unit_test(waits_end),
        cmocka_unit_test(a_message_of_one_who_left_is_not_waited_for), cmocka_unit_test(shared_memory_and_tcp_agree), cmocka_unit_test(mistakes_are_errors), cmocka_unit_test(gradients_become_their_mean),
    };
    return SUITE(tests);
}
