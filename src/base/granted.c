/* granted.c - what the system grants this process: processors by its control groups, and memory. */
#include "base/base.h"

#include <stdio.h>
#include <string.h>

static double number_in(const char *path, const char *format, double *second)
{
    FILE *f = fopen(path, "r");
    if (!f) return -1;
    double first = -1;
    int n = second ? fscanf(f, format, &first, second) : fscanf(f, format, &first);
    fclose(f);
    return n == (second ? 2 : 1) ? first : -1;
}

/* `limit` of a group, whose path below the controller's is `group`: not above 0 if it has none. Version 2 is one hierarchy. */
typedef double limit_of(bool v2, const char *group);

static double limit_of_processors(bool v2, const char *group)
{
    char path[4400];
    double period = 0, share;
    if (v2) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
        share = number_in(path, "%lf %lf", &period);
    } else {
        snprintf(path, sizeof path, "/sys/fs/cgroup/cpu%s/cpu.cfs_quota_us", group);
        share = number_in(path, "%lf", NULL);
        snprintf(path, sizeof path, "/sys/fs/cgroup/cpu%s/cpu.cfs_period_us", group);
        period = number_in(path, "%lf", NULL);
    }
    return period > 0 ? share / period : 0;
}

static double limit_of_memory(bool v2, const char *group)
{
    char path[4400];
    snprintf(path, sizeof path, v2 ? "/sys/fs/cgroup%s/memory.max" : "/sys/fs/cgroup/memory%s/memory.limit_in_bytes", group);
    return number_in(path, "%lf", NULL); /* "max" is no number */
}

/* The least limit of the process's groups of a controller, 0 for none. A line of them is "number:controllers:/path", in version 2 "0::/path". */
static double least(const char *controller, limit_of *limit)
{
    double so_far = 0;
    FILE *f = fopen("/proc/self/cgroup", "r");
    if (!f) return 0;
    char line[4096];
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL, *more = NULL;
        if (!group) continue;
        *group++ = 0;
        bool v2 = !*++names, ours = v2;
        for (char *name = strtok_r(names, ",", &more); name; name = strtok_r(NULL, ",", &more)) ours |= !strcmp(name, controller);
        /* A limit of any parent counts; within a container the path may not exist, the root then does. */
        while (ours) {
            const char *sub = strcmp(group, "/") ? group : "";
            double x = limit(v2, sub);
            if (x > 0 && (!so_far || x < so_far)) so_far = x;
            char *cut = strrchr(group, '/');
            if (!*sub || !cut) break;
            if (cut == group) group[1] = 0;
            else *cut = 0;
        }
    }
    fclose(f);
    return so_far;
}

double rush_granted_processors(void) { return least("cpu", limit_of_processors); }

double rush_granted_memory(void)
{
    double kb = 0, limit = least("memory", limit_of_memory);
    FILE *f = fopen("/proc/meminfo", "r");
    char line[256];
    while (f && fgets(line, sizeof line, f) && sscanf(line, "MemAvailable: %lf", &kb) != 1) {}
    if (f) fclose(f);
    return limit > 0 && limit < 1024 * kb ? limit : 1024 * kb;
}
