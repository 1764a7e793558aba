/* buried.c - handles that have ended, and how they are told from those that live. */
#include "base/buried.h"

void rush_bury_handle(void *p, size_t size)
{
    memset(p, 0, sizeof(uint64_t));
    rush_bury(p, size, sizeof(uint64_t));
}

bool rush_lives(const void *handle, const char *what)
{
    uint64_t first = 0;
    if (handle) memcpy(&first, handle, sizeof first);
    if (RUSH_LIKELY(first)) return true;
    rush_fail(RUSH_TYPE_ERROR, handle ? "%s is used after its end" : "%s was expected, but there is none (NULL)", what);
    return false;
}
