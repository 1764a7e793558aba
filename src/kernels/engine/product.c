/* product.c - matrix products by oneDNN's matmul primitive (never its sgemm, which is slower). */
#include "config.h"
#include "kernels/engine/engine.h"

#if RUSH_HAS_ONEDNN
#include "kernels/engine/onednn.h"

/* Rows that a bfloat16 product needs for packing its right-hand matrix to pay: many more where it has tiles (AMX) to do the product. */
static int64_t pack_from(void)
{
    return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_amx) == dnnl_cpu_isa_avx512_core_amx ? 2048 : 64;
}

/* A matrix that oneDNN reads fast: one of its strides is 1, the other spans the lines. */
static bool plain(int64_t rows, int64_t columns, int64_t rs, int64_t cs)
{
    if (cs == 1 || columns == 1) return rows == 1 || rs >= columns;
    if (rs == 1 || rows == 1) return columns == 1 || cs >= rows;
    return false;
}

/* Strides of dimensions of size 1 mean nothing; oneDNN wants them not to. */
static rush_desc describe(int nd, dnnl_data_type_t t, int64_t batch, int64_t rows, int64_t columns, int64_t bs, int64_t rs, int64_t cs)
{
    if (columns == 1 && rs == 1 && rows > 1) cs = rows;
    else if (columns == 1) cs = 1;
    if (rows == 1) rs = cs == 1 ? columns : 1;
    if (rows == 1 && cs != 1) cs = RUSH_MAX(cs, 1);
    if (batch == 1) bs = rows * columns;
    dnnl_dims_t dims = {batch, rows, columns}, strides = {bs, rs, cs};
    if (nd == 2) {
        dims[0] = rows, dims[1] = columns;
        strides[0] = rs, strides[1] = cs;
    }
    rush_desc made;
    return dnnl_memory_desc_create_with_strides(&made, nd, dims, t, strides) == dnnl_success ? made : NULL;
}

static void append_sum(dnnl_post_ops_t post, float scale)
{
#if DNNL_VERSION_MAJOR >= 3
    dnnl_post_ops_append_sum(post, scale, 0, dnnl_data_type_undef);
#else
    dnnl_post_ops_append_sum(post, scale);
#endif
}

static dnnl_primitive_desc_t choose(const rush_engine_product *p, rush_const_desc a, rush_const_desc b, rush_const_desc bias, rush_const_desc c)
{
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t post;
    dnnl_primitive_desc_t desc = NULL;
    if (dnnl_primitive_attr_create(&attr) != dnnl_success) return NULL;
    if (p->beta != 0) {
        dnnl_post_ops_create(&post);
        append_sum(post, (float)p->beta);
        dnnl_primitive_attr_set_post_ops(attr, post);
        dnnl_post_ops_destroy(post);
    }
    if (dnnl_matmul_primitive_desc_create(&desc, rush_onednn(), a, b, bias, c, attr) != dnnl_success) desc = NULL;
    dnnl_primitive_attr_destroy(attr);
    return desc;
}

/* Does the product want b in a layout that our own kernel makes? It is quicker at it than the product is by itself. */
static bool packs(dnnl_primitive_desc_t desc, rush_const_desc b)
{
    rush_const_desc want = dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0);
    rush_repack l;
    return want && rush_repack_plan(&l, b, want);
}

/* Packed where that pays, else as b lies; NULL where oneDNN has nothing better than ours. */
static dnnl_primitive_desc_t choose_layout(const rush_engine_product *p, dnnl_data_type_t t, int nd, rush_const_desc a, rush_const_desc b,
                                           rush_const_desc bias, rush_const_desc c)
{
    dnnl_primitive_desc_t desc = NULL;
    rush_desc any;
    if (t == dnnl_bf16 && nd == 2 && p->m >= pack_from() && p->k % 32 == 0 && p->n % 16 == 0 &&
        dnnl_memory_desc_create_with_tag(&any, nd, (dnnl_dims_t){p->k, p->n}, t, dnnl_format_tag_any) == dnnl_success) {
        desc = choose(p, a, any, bias, c);
        dnnl_memory_desc_destroy(any);
        if (desc && !packs(desc, b)) {
            rush_primitive_done(desc);
            desc = NULL;
        }
    }
    if (!desc) desc = choose(p, a, b, bias, c);
    const char *name = NULL;
    if (desc && dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name) == dnnl_success && name && strstr(name, "ref")) {
        rush_primitive_done(desc); /* its reference code is slower than ours */
        desc = NULL;
    }
    return desc;
}

static rush_primitive *make(const void *arg, const rush_case *id)
{
    const rush_engine_product *p = arg;
    dnnl_data_type_t t = (dnnl_data_type_t)rush_onednn_dtype(p->dtype);
    int nd = p->batch > 1 ? 3 : 2;
    rush_desc a = describe(nd, t, p->ab ? p->batch : 1, p->m, p->k, p->ab, p->am, p->ak);
    rush_desc b = describe(nd, t, p->bb ? p->batch : 1, p->k, p->n, p->bb, p->bk, p->bn);
    rush_desc c = describe(nd, t == dnnl_s8 ? dnnl_s32 : t, p->batch, p->m, p->n, p->cb, p->cm, p->cn);
    rush_desc bias = p->bias ? describe(nd, t, 1, 1, p->n, p->n, p->n, 1) : NULL;
    dnnl_primitive_desc_t desc = a && b && c && (bias || !p->bias) ? choose_layout(p, t, nd, a, b, bias, c) : NULL;
    rush_primitive *made = rush_primitive_add(id, desc);
    bool ok = made && rush_primitive_mem(made, desc, dnnl_query_src_md, 0, DNNL_ARG_SRC, a, false) &&
              rush_primitive_mem(made, desc, dnnl_query_weights_md, 0, DNNL_ARG_WEIGHTS, b, false) &&
              rush_primitive_mem(made, desc, dnnl_query_dst_md, 0, DNNL_ARG_DST, c, true) &&
              (!p->bias || rush_primitive_mem(made, desc, dnnl_query_weights_md, 1, DNNL_ARG_BIAS, bias, false));
    if (made && !ok) rush_primitive_forget(made);
    rush_primitive_done(desc);
    rush_desc all[] = {a, b, c, bias};
    for (int i = 0; i < RUSH_COUNT(all); ++i)
        if (all[i]) dnnl_memory_desc_destroy(all[i]);
    return ok ? made : NULL;
}

bool rush_engine_matmul(const rush_engine_product *p)
{
    if (p->dtype == RUSH_I8 && !rush_onednn_exact_bytes()) return false;
    if (p->cn != 1 || (p->cm < p->n && p->m > 1)) return false;
    if (!plain(p->m, p->k, p->am, p->ak) || !plain(p->k, p->n, p->bk, p->bn)) return false;
    rush_case id = {0};
    int64_t key[] = {1, p->dtype, p->batch, p->m, p->n, p->k, p->ab, p->am, p->ak, p->bb, p->bk, p->bn, p->cb, p->cm, p->bias != NULL,
                     p->beta != 0, rush_num_threads()};
    rush_case_add(&id, RUSH_COUNT(key), key);
    void *data[] = {(void *)p->a, (void *)p->b, p->c, (void *)p->bias};
    return rush_primitive_do(&id, make, p, data);
}

#else

bool rush_engine_matmul(const rush_engine_product *p)
{
    (void)p;
    return false;
}

#endif
