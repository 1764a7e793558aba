/* column.c - the kernels of a backend: its column in the table of operations and devices.
 *
 * The CPU's kernel is in the record itself; those of others are in an array of the backend, by the record's index.
 */
#include "op/op.h"
#include "op/tables.h"
#include "tensor/backend.h"

const rush_tables *rush_tables_of[RUSH_DEVICES];

int rush_backend_kernel(rush_backend *b, const char *name, rush_kernel kernel)
{
    const rush_op *op = rush_op_find(name);
    RUSH_CHECK(op, RUSH_NOT_IMPLEMENTED, "no operation is called %s", name);
    RUSH_CHECK(!op->run, RUSH_VALUE_ERROR, "%s consists of other operations: it has no kernels", op->name);
    if (op->index >= b->nkernels) {
        uint32_t n = RUSH_MAX(op->index + 1, 2 * b->nkernels);
        rush_kernel *more = rush_realloc(b->kernels, sizeof *more * n);
        if (!more) return -1;
        memset(more + b->nkernels, 0, sizeof *more * (n - b->nkernels));
        b->kernels = more;
        b->nkernels = n;
    }
    b->kernels[op->index] = kernel;
    return 0;
}

bool rush_runs_on(rush_device device, const rush_op *op)
{
    const rush_backend *b = rush_backend_of(device);
    if (device.type == RUSH_CPU || !b) return b;
    return op->run || b->fallback || (op->index < b->nkernels && b->kernels[op->index]);
}

bool rush_needs_fallback(rush_device device, const rush_op *op)
{
    const rush_backend *b = rush_backend_of(device);
    if (device.type <= RUSH_META || op->run || op->flags & (RUSH_CROSS_DEVICE | RUSH_VIEW | RUSH_ANY_DEVICE)) return false;
    return !b || op->index >= b->nkernels || !b->kernels[op->index];
}

int rush_run_on(rush_device device, const rush_op *op, const rush_value *in, rush_value *out)
{
    if (device.type == RUSH_META) {
        RUSH_CHECK(!(op->flags & RUSH_DATA_SIZED) || HAS(out[0]), RUSH_NOT_IMPLEMENTED, "the result depends on data, which tensors on this device have not");
        return 0;
    }
    const rush_backend *b = rush_backend_of(device);
    RUSH_CHECK(b, RUSH_NOT_IMPLEMENTED, "there is no backend for device %s", rush_device_text(device));
    rush_kernel kernel = op->index < b->nkernels ? b->kernels[op->index] : NULL;
    if (!kernel && op->flags & RUSH_CROSS_DEVICE) kernel = op->cpu;
    if (!kernel && op->flags & (RUSH_VIEW | RUSH_ANY_DEVICE)) return 0;
    if (kernel) return rush_kernel_run(kernel, op, in, out);
    if (b->fallback) return b->fallback(device, op, in, out) || rush_failed() ? -1 : 0;
    return rush_fail(RUSH_NOT_IMPLEMENTED, "Could not run 'aten::%s' on device '%s': it has no kernel there.", op->name, rush_device_name(device.type));
}
