/* suite.h - what a test program starts with: cmocka, and the main that also runs tests with failing allocations.
 *
 *     test_index                       the tests, once
 *     test_index --failing [E] [NAME]  each test with its n-th allocation failing, for every n or, in long tests, for some,
 *                                      the first and spread ones; E times as many (default 1)
 *     test_index --failing E NAME N    one test with one n, to look into it
 *
 * A failing allocation may make a test fail; it must not crash, leak, or fail without an error pending.
 */
#ifndef SUITE_H
#define SUITE_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* What a test made, to be given up when it ends, also at a failed assertion: the last first. */
void suite_after(void (*give_up)(void *), void *thing);
void suite_forget(void *thing); /* the test gave it up itself */
void *suite_alloc(size_t bytes); /* such memory */
size_t suite_live(void);         /* live allocations of the library */
bool suite_failing(void);        /* do allocations fail? The test runs many times then, and repeats less itself */

int suite_run(int argc, char **argv, const struct CMUnitTest *tests, size_t n);

#define SUITE(tests) suite_run(argc, argv, tests, sizeof(tests) / sizeof *(tests))

#endif
