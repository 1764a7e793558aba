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
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

int suite_run(int argc, char **argv, const struct CMUnitTest *tests, size_t n);

#define SUITE(tests) suite_run(argc, argv, tests, sizeof(tests) / sizeof *(tests))

#endif
