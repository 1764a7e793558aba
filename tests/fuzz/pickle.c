/* pickle.c - the pickle machine with C's maker: storages are promised by the pickle and empty. */
#include "io/checkpoint.h"
#include "fuzz.h"

FUZZ({
    rush_reader r = {.path = "input", .folder = "data", .left = 1 << 20, .script = size & 1};
    size_t used;
    const rush_content *x = rush_reader_pickle(&r, data, size, &used);
    if (x) fuzz_touch_all(rush_content_tensors(x));
})
