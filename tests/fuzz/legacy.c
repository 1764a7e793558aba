/* legacy.c - the row of pickles from before 2020. */
#include "io/checkpoint.h"
#include "fuzz.h"

FUZZ({
    rush_source source = {.fd = -1, .mem = (const char *)data, .size = size, .name = "input"};
    rush_reader r = {.path = "input", .folder = "data"};
    const rush_content *x = rush_legacy_load(&r, &source);
    if (x) fuzz_touch_all(rush_content_tensors(x));
})
