/* json.c - JSON, of which safetensors files, programs, vocabularies and requests are made. */
#include "base/base.h"
#include "base/json.h"
#include "fuzz.h"

FUZZ({ rush_free(rush_json_read((const char *)data, size)); })
