/* versions.h - oneDNN 3's functions, made of oneDNN 2's where that is what there is: its memory descriptor is a struct
 * that anyone may read, and an operation has a descriptor before its primitive's.
 */
#ifndef RUSH_ONEDNN_VERSIONS_H
#define RUSH_ONEDNN_VERSIONS_H

#include <dnnl.h>
#include <stdlib.h>

/* Sizes, strides and type of a memory. */
#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t rush_desc;
typedef const_dnnl_memory_desc_t rush_const_desc;
#else
typedef dnnl_memory_desc_t *rush_desc;
typedef const dnnl_memory_desc_t *rush_const_desc;

static inline dnnl_status_t rush_desc_made(rush_desc *desc, dnnl_status_t status)
{
    if (status == dnnl_success) return status;
    free(*desc);
    *desc = NULL;
    return status;
}

static inline dnnl_status_t dnnl_memory_desc_create_with_strides(rush_desc *desc, int nd, const dnnl_dims_t dims, dnnl_data_type_t t, const dnnl_dims_t strides)
{
    *desc = malloc(sizeof **desc);
    return *desc ? rush_desc_made(desc, dnnl_memory_desc_init_by_strides(*desc, nd, dims, t, strides)) : dnnl_out_of_memory;
}

static inline dnnl_status_t dnnl_memory_desc_create_with_tag(rush_desc *desc, int nd, const dnnl_dims_t dims, dnnl_data_type_t t, dnnl_format_tag_t tag)
{
    *desc = malloc(sizeof **desc);
    return *desc ? rush_desc_made(desc, dnnl_memory_desc_init_by_tag(*desc, nd, dims, t, tag)) : dnnl_out_of_memory;
}

static inline dnnl_status_t dnnl_memory_desc_clone(rush_desc *desc, rush_const_desc from)
{
    *desc = malloc(sizeof **desc);
    if (!*desc) return dnnl_out_of_memory;
    **desc = *from;
    return dnnl_success;
}

static inline dnnl_status_t dnnl_memory_desc_destroy(rush_desc desc)
{
    free(desc);
    return dnnl_success;
}

static inline dnnl_status_t dnnl_primitive_attr_set_zero_points_mask(dnnl_primitive_attr_t attr, int arg, int mask)
{
    const int32_t later = DNNL_RUNTIME_S32_VAL;
    return dnnl_primitive_attr_set_zero_points(attr, arg, 1, mask, &later);
}

static inline dnnl_status_t dnnl_matmul_primitive_desc_create(dnnl_primitive_desc_t *made, dnnl_engine_t engine, rush_const_desc a, rush_const_desc b,
                                                              rush_const_desc bias, rush_const_desc c, const_dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t d;
    dnnl_status_t s = dnnl_matmul_desc_init(&d, a, b, bias, c);
    return s == dnnl_success ? dnnl_primitive_desc_create(made, &d, attr, engine, NULL) : s;
}

static inline dnnl_status_t dnnl_convolution_forward_primitive_desc_create(
    dnnl_primitive_desc_t *made, dnnl_engine_t engine, dnnl_prop_kind_t kind, dnnl_alg_kind_t way, rush_const_desc image, rush_const_desc weight,
    rush_const_desc bias, rush_const_desc result, const dnnl_dims_t strides, const dnnl_dims_t dilates, const dnnl_dims_t before,
    const dnnl_dims_t behind, const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t d;
    dnnl_status_t s = dnnl_dilated_convolution_forward_desc_init(&d, kind, way, image, weight, bias, result, strides, dilates, before, behind);
    return s == dnnl_success ? dnnl_primitive_desc_create(made, &d, attr, engine, NULL) : s;
}

static inline dnnl_status_t dnnl_convolution_backward_data_primitive_desc_create(
    dnnl_primitive_desc_t *made, dnnl_engine_t engine, dnnl_alg_kind_t way, rush_const_desc image, rush_const_desc weight, rush_const_desc result,
    const dnnl_dims_t strides, const dnnl_dims_t dilates, const dnnl_dims_t before, const dnnl_dims_t behind, const_dnnl_primitive_desc_t hint,
    const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t d;
    dnnl_status_t s = dnnl_dilated_convolution_backward_data_desc_init(&d, way, image, weight, result, strides, dilates, before, behind);
    return s == dnnl_success ? dnnl_primitive_desc_create(made, &d, attr, engine, hint) : s;
}

static inline dnnl_status_t dnnl_convolution_backward_weights_primitive_desc_create(
    dnnl_primitive_desc_t *made, dnnl_engine_t engine, dnnl_alg_kind_t way, rush_const_desc image, rush_const_desc weight, rush_const_desc bias,
    rush_const_desc result, const dnnl_dims_t strides, const dnnl_dims_t dilates, const dnnl_dims_t before, const dnnl_dims_t behind,
    const_dnnl_primitive_desc_t hint, const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t d;
    dnnl_status_t s = dnnl_dilated_convolution_backward_weights_desc_init(&d, way, image, weight, bias, result, strides, dilates, before, behind);
    return s == dnnl_success ? dnnl_primitive_desc_create(made, &d, attr, engine, hint) : s;
}

#endif
#endif
