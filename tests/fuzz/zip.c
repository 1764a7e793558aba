/* zip.c - archives: every entry is looked up, located and read. */
#include "io/zip.h"
#include "fuzz.h"

FUZZ({
    rush_zip *z = rush_zip_open((rush_source){.fd = -1, .mem = (const char *)data, .size = size, .name = "input"});
    for (uint32_t i = 0; z && i < z->n; i++) {
        z->check = i & 1;
        if (rush_zip_find(z, z->entry[i].name) != z->entry + i) abort();
        if (rush_zip_offset(z, z->entry + i) >= 0 && z->entry[i].size < 1 << 24) rush_free(rush_zip_read_all(z, z->entry + i));
        rush_error_clear();
    }
    rush_zip_close(z);
})
