/* gguf.c - GGUF files: tensors, and what is said about them. */
#include "fuzz.h"
#include <rushlight/gguf.h>

FUZZ({
    const char *path = fuzz_file(data, size);
    fuzz_touch_all(rush_gguf_load(path));
    rush_error_clear();
    rush_gguf_text(path);
})
