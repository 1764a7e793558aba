/* pin.c - page-locked memory: no backend has any, and asking for it is an error, as in PyTorch without an accelerator. */
#include "op/op.h"

static int pin_run(const rush_op *op, const rush_value *in, rush_value *out)
{
    for (int type = RUSH_META + 1; type < RUSH_DEVICES; ++type)
        RUSH_CHECK(!rush_device_count(type), RUSH_NOT_IMPLEMENTED, "device '%s' has no page-locked memory", rush_device_name(type));
    return rush_fail(RUSH_RUNTIME_ERROR, "Cannot access accelerator device when none is available.");
}

static rush_op op__pin_memory = {
    .schema = "_pin_memory(Tensor self, Device? device=None) -> Tensor",
    .doc = "A copy in page-locked memory; an error without an accelerator.", .run = pin_run, .flags = RUSH_HIDDEN,
};

RUSH_FAMILY(pin, &op__pin_memory)
