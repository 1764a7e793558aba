/* kept.c - see kept.h. */
#include "base/kept.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void rush_make_parents(char *path)
{
    for (char *p = path + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(path, 0700);
        *p = '/';
    }
}

static int make_folder(char *path)
{
    struct stat s;
    rush_make_parents(path);
    mkdir(path, 0700);
    return lstat(path, &s) || !S_ISDIR(s.st_mode) || s.st_uid != geteuid() || s.st_mode & (S_IWGRP | S_IWOTH) ? -1 : 0;
}

int rush_kept_folder(char *path, size_t room)
{
    const char *use = getenv("USE_PYTORCH_KERNEL_CACHE"), *own = getenv("PYTORCH_KERNEL_CACHE_PATH"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = 0;
    if (use && !strcmp(use, "0")) return -1;
    if (own && *own) n = snprintf(path, room, "%s", own);
    else if (cache && *cache == '/') n = snprintf(path, room, "%s/rushlight/kernels", cache);
    else if (home && *home == '/') n = snprintf(path, room, "%s/.cache/rushlight/kernels", home);
    return n <= 0 || (size_t)n >= room ? -1 : make_folder(path);
}
