/* load.c - which kind of file a program is in: by its first bytes, not by its name. */
#include "graph/program.h"
#include "io/file.h"

#include "script/script.h"
#include <rushlight/program.h>

rush_module *rush_program_load(const char *path)
{
    if (rush_failed()) return NULL;
    RUSH_CHECK_NULL(path, RUSH_TYPE_ERROR, "a path is missing (NULL)");
    rush_source s;
    char first[2] = "";
    if (rush_source_open(&s, path)) return NULL;
    int failed = s.size < 2 ? 0 : rush_source_read(&s, 0, first, 2);
    const char *kind = failed ? NULL : rush_source_kind(&s);
    rush_source_close(&s);
    if (failed || rush_failed()) return NULL;
    RUSH_CHECK_NULL(!kind, RUSH_VALUE_ERROR, "'%s' is %s, not a program", path, kind);
    if (first[0] != 'P' || first[1] != 'K') return rush_onnx_load(path, 0, SIZE_MAX);
    return rush_script_is_archive(path) ? rush_script_program(path) : rush_archive_load(path);
}
