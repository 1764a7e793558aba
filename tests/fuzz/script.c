/* script.c - TorchScript: whole archives, and text alone. What loads is not run: a program may loop for ever, as any. */
#include "script/script.h"
#include <rushlight/program.h>
#include "fuzz.h"

FUZZ({
    if (size > 2 && data[0] == 'P' && data[1] == 'K') {
        rush_module *net = rush_program_load(fuzz_file(data, size));
        if (net) rush_program_text(net);
    } else {
        script_unit *u = rush_script_unit_new();
        if (u && !rush_script_parse(u, (const char *)data, size, "__torch__", "text")) rush_script_bind(u);
        rush_script_unit_drop(u);
    }
})
