/* onnx.c - ONNX files: their messages, tensors and graph; one that loads is printed and run on ones. */
#include "graph/program.h"
#include <rushlight/ops.h>
#include <rushlight/program.h>
#include "fuzz.h"

static void run(rush_module *net)
{
    const rush_program *p = rush_module_data(net);
    rush_tensor *in[8], *out[8];
    int n = 0;
    for (uint32_t i = 0; i < p->graph->nin && n < 8; ++i) {
        if (p->in[i].part) continue;
        const rush_graph_value *v = &p->graph->value[p->graph->in[i]];
        int64_t size[RUSH_MAXDIM], numel = 1;
        for (int d = 0; d < v->ndim; ++d) numel *= size[d] = v->size[d].n >= 0 && v->size[d].n < 9 ? v->size[d].n : 3;
        rush_tensor *x = numel < 4096 && v->ndim >= 0 ? rush_ones(((rush_ints){size, (size_t)v->ndim}), .dtype = v->dtype) : NULL;
        if (!x) return;
        in[n++] = x;
    }
    if (rush_forward_all(net, n, in, out) > 0) fuzz_touch(out[0]);
}

FUZZ({
    rush_module *net = size > 1 && (data[0] != 'P' || data[1] != 'K') ? rush_program_load(fuzz_file(data, size)) : NULL;
    if (net) {
        rush_program_text(net);
        run(net);
    }
})
