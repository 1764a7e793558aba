/* shim.h - the C functions that PyTorch promises to keep, in libtorch_cpu.so: what is compiled with this header needs nothing else.
 *
 * Functions return 0, or 1 after an error, whose message torch_exception_get_what() has. A handle that a function gives is the caller's.
 */
#pragma once
#include <torch/headeronly/version.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t AOTITorchError;
typedef uint64_t StableIValue; /* a number, or what points to the rest: docs/stable.md */
typedef struct AtenTensorOpaque *AtenTensorHandle;
typedef struct AtenGeneratorOpaque *AtenGeneratorHandle;
typedef struct TorchLibraryOpaque *TorchLibraryHandle;
typedef struct StableListOpaque *StableListHandle;
typedef struct StringOpaque *StringHandle;
typedef struct DeviceGuardOpaque *DeviceGuardHandle;
typedef struct StreamOpaque *StreamHandle;
#define AOTI_TORCH_SUCCESS 0
#define AOTI_TORCH_FAILURE 1
#define AOTI_TORCH_EXPORT

const char *torch_exception_get_what(void);
const char *torch_exception_get_what_without_backtrace(void);
uint64_t aoti_torch_abi_version(void);

/* ---- numbers of dtypes, layouts, memory formats, devices ---- */

#define AOTI_NUMBERS_(_)                                                                                    \
    _(dtype_bool) _(dtype_uint8) _(dtype_uint16) _(dtype_uint32) _(dtype_uint64) _(dtype_int8) _(dtype_int16) _(dtype_int32) _(dtype_int64) _(dtype_float16) _(dtype_bfloat16) \
    _(dtype_float32) _(dtype_float64) _(dtype_complex32) _(dtype_complex64) _(dtype_complex128) _(dtype_float8_e5m2) _(dtype_float8_e4m3fn) _(dtype_float8_e5m2fnuz) \
    _(dtype_float8_e4m3fnuz) _(dtype_float8_e8m0fnu) _(layout_strided) _(layout_sparse_coo) _(layout_sparse_csr) _(layout_sparse_csc) _(layout_sparse_bsr) _(layout_sparse_bsc) \
    _(layout__mkldnn) _(layout_jagged) _(memory_format_contiguous_format) _(memory_format_preserve_format) _(memory_format_channels_last) _(memory_format_channels_last_3d) \
    _(device_type_cpu) _(device_type_cuda) _(device_type_meta) _(device_type_mps) _(device_type_xpu) _(device_type_privateuse1)
#define AOTI_NUMBER_(name) int32_t aoti_torch_##name(void);
AOTI_NUMBERS_(AOTI_NUMBER_)
#undef AOTI_NUMBER_
size_t aoti_torch_dtype_element_size(int32_t dtype);

/* ---- tensors ---- */

AOTITorchError aoti_torch_get_data_ptr(AtenTensorHandle, void **);
AOTITorchError torch_get_mutable_data_ptr(AtenTensorHandle, void **);
AOTITorchError torch_get_const_data_ptr(AtenTensorHandle, const void **);
AOTITorchError aoti_torch_get_dim(AtenTensorHandle, int64_t *);
AOTITorchError aoti_torch_get_numel(AtenTensorHandle, int64_t *);
AOTITorchError aoti_torch_get_sizes(AtenTensorHandle, int64_t **);
AOTITorchError aoti_torch_get_strides(AtenTensorHandle, int64_t **);
AOTITorchError aoti_torch_get_size(AtenTensorHandle, int64_t d, int64_t *);
AOTITorchError aoti_torch_get_stride(AtenTensorHandle, int64_t d, int64_t *);
AOTITorchError aoti_torch_get_dtype(AtenTensorHandle, int32_t *);
AOTITorchError aoti_torch_get_layout(AtenTensorHandle, int32_t *);
AOTITorchError aoti_torch_get_device_type(AtenTensorHandle, int32_t *);
AOTITorchError aoti_torch_get_device_index(AtenTensorHandle, int32_t *);
AOTITorchError aoti_torch_get_storage_offset(AtenTensorHandle, int64_t *);
AOTITorchError aoti_torch_get_storage_size(AtenTensorHandle, int64_t *);
AOTITorchError aoti_torch_get_storage_numel(AtenTensorHandle, int64_t *);
AOTITorchError aoti_torch_is_contiguous(AtenTensorHandle, bool *);
AOTITorchError aoti_torch_is_defined(AtenTensorHandle, bool *);
AOTITorchError torch_set_requires_grad(AtenTensorHandle, bool);
AOTITorchError aoti_torch_delete_tensor_object(AtenTensorHandle);
AOTITorchError aoti_torch_new_tensor_handle(AtenTensorHandle, AtenTensorHandle *);
AOTITorchError aoti_torch_new_uninitialized_tensor(AtenTensorHandle *);
AOTITorchError aoti_torch_assign_tensors(AtenTensorHandle from, AtenTensorHandle to);
AOTITorchError aoti_torch_assign_tensors_out(AtenTensorHandle from, AtenTensorHandle *to);
AOTITorchError aoti_torch_empty_strided(int64_t ndim, const int64_t *sizes, const int64_t *strides, int32_t dtype, int32_t device_type, int32_t device_index, AtenTensorHandle *);
AOTITorchError aoti_torch_as_strided(AtenTensorHandle, const int64_t *sizes, const int64_t *strides, AtenTensorHandle *);
AOTITorchError aoti_torch_clone(AtenTensorHandle, AtenTensorHandle *);
AOTITorchError aoti_torch_clone_preserve_strides(AtenTensorHandle, AtenTensorHandle *);
AOTITorchError aoti_torch_copy_(AtenTensorHandle to, AtenTensorHandle from, int32_t non_blocking);
AOTITorchError aoti_torch_zero_(AtenTensorHandle);
AOTITorchError aoti_torch_create_tensor_from_blob(void *data, int64_t ndim, const int64_t *sizes, const int64_t *strides, int64_t storage_offset, int32_t dtype, int32_t device_type,
                                                  int32_t device_index, AtenTensorHandle *);
/* end(data, context) is called with the last tensor that has the data. */
AOTITorchError torch_from_blob(void *data, int64_t ndim, const int64_t *sizes, const int64_t *strides, int64_t storage_offset, int32_t dtype, int32_t device_type, int32_t device_index,
                               AtenTensorHandle *, int32_t layout, const uint8_t *, int64_t, void (*end)(void *data, void *context), void *context);
void aoti_torch_print_tensor_handle(AtenTensorHandle, const char *text);
#define AOTI_ITEMS_(_)                                                                                      \
    _(bool, bool) _(uint8, uint8_t) _(uint16, uint16_t) _(uint32, uint32_t) _(uint64, uint64_t) _(int8, int8_t) _(int16, int16_t) _(int32, int32_t) _(int64, int64_t) \
    _(float32, float) _(float64, double)
#define AOTI_ITEM_(name, type)                                                                              \
    AOTITorchError aoti_torch_item_##name(AtenTensorHandle, type *);                                        \
    AOTITorchError aoti_torch_scalar_to_tensor_##name(type, AtenTensorHandle *);
AOTI_ITEMS_(AOTI_ITEM_)
#undef AOTI_ITEM_

/* ---- operations of ATen that are functions ---- */

AOTITorchError aoti_torch_aten_amax(AtenTensorHandle, const int64_t *dims, int64_t ndims, int32_t keepdim, AtenTensorHandle *);
AOTITorchError aoti_torch_aten_fill__Scalar(AtenTensorHandle, double);
AOTITorchError aoti_torch_aten_full(const int64_t *size, int64_t ndim, double, int32_t *dtype, int32_t *layout, int32_t *device_type, int32_t device_index, int32_t *pin_memory, AtenTensorHandle *);
AOTITorchError aoti_torch_aten_narrow(AtenTensorHandle, int64_t dim, int64_t start, int64_t length, AtenTensorHandle *);
AOTITorchError aoti_torch_aten_new_empty(AtenTensorHandle, const int64_t *size, int64_t ndim, int32_t *dtype, int32_t *layout, int32_t *device_type, int32_t device_index, int32_t *pin_memory,
                                         AtenTensorHandle *);
AOTITorchError aoti_torch_aten_new_zeros(AtenTensorHandle, const int64_t *size, int64_t ndim, int32_t *dtype, int32_t *layout, int32_t *device_type, int32_t device_index, int32_t *pin_memory,
                                         AtenTensorHandle *);
AOTITorchError aoti_torch_aten_pad(AtenTensorHandle, const int64_t *pad, int64_t npad, const char *mode, double *value, AtenTensorHandle *);
AOTITorchError aoti_torch_aten_subtract_Tensor(AtenTensorHandle, AtenTensorHandle, double alpha, AtenTensorHandle *);

/* ---- operations by their names: arguments on a stack, which takes them and gets the results ---- */

AOTITorchError torch_call_dispatcher(const char *name, const char *overload, StableIValue *stack, uint64_t abi_version);
AOTITorchError aoti_torch_call_dispatcher(const char *name, const char *overload, StableIValue *stack);
AOTITorchError aoti_torch_library_init_def(const char *ns, const char *file, uint32_t line, TorchLibraryHandle *);
AOTITorchError aoti_torch_library_init_fragment(const char *ns, const char *file, uint32_t line, TorchLibraryHandle *);
AOTITorchError aoti_torch_library_init_impl(const char *ns, const char *key, const char *file, uint32_t line, TorchLibraryHandle *);
AOTITorchError aoti_torch_library_def(TorchLibraryHandle, const char *schema);
AOTITorchError torch_library_def_with_tags(TorchLibraryHandle, const char *schema, const int32_t *tags, int32_t ntags);
AOTITorchError torch_library_impl(TorchLibraryHandle, const char *name, void (*)(StableIValue *, uint64_t, uint64_t), uint64_t abi_version);
AOTITorchError aoti_torch_library_impl(TorchLibraryHandle, const char *name, void (*)(StableIValue *, uint64_t, uint64_t));
AOTITorchError torch_library_set_python_module(TorchLibraryHandle, const char *module, const char *context);
AOTITorchError aoti_torch_delete_library_object(TorchLibraryHandle);

/* ---- values ---- */

AOTITorchError torch_new_stable_ivalue(StableIValue **);
AOTITorchError torch_delete_stable_ivalue(StableIValue *);
AOTITorchError torch_new_list_reserve_size(size_t, StableListHandle *);
AOTITorchError torch_list_size(StableListHandle, size_t *);
AOTITorchError torch_list_get_item(StableListHandle, size_t, StableIValue *);
AOTITorchError torch_list_set_item(StableListHandle, size_t, StableIValue);
AOTITorchError torch_list_push_back(StableListHandle, StableIValue);
AOTITorchError torch_delete_list(StableListHandle);
AOTITorchError torch_new_string_handle(const char *, size_t, StringHandle *);
AOTITorchError torch_string_length(StringHandle, size_t *);
AOTITorchError torch_string_c_str(StringHandle, const char **);
AOTITorchError torch_delete_string(StringHandle);
AOTITorchError torch_new_generator_handle(AtenGeneratorHandle, AtenGeneratorHandle *);
AOTITorchError torch_delete_generator(AtenGeneratorHandle);
AOTITorchError torch_generator_get_device(AtenGeneratorHandle, int32_t *type, int32_t *index);
AOTITorchError torch_parse_device_string(const char *, uint32_t *type, int32_t *index);

/* ---- devices and streams of the accelerator ---- */

AOTITorchError aoti_torch_get_current_device_index(int32_t *);
AOTITorchError aoti_torch_create_device_guard(int32_t index, DeviceGuardHandle *);
AOTITorchError aoti_torch_device_guard_set_index(DeviceGuardHandle, int32_t index);
AOTITorchError aoti_torch_delete_device_guard(DeviceGuardHandle);
AOTITorchError aoti_torch_get_current_stream(int32_t index, StreamHandle *);
AOTITorchError aoti_torch_stream_id(StreamHandle, int64_t *);
AOTITorchError aoti_torch_delete_stream(StreamHandle);

/* ---- modes, threads, words ---- */

bool aoti_torch_grad_mode_is_enabled(void);
void aoti_torch_grad_mode_set_enabled(bool);
AOTITorchError torch_parallel_for(int64_t begin, int64_t end, int64_t grain_size, void (*)(int64_t begin, int64_t end, void *), void *);
AOTITorchError torch_get_thread_idx(uint32_t *);
AOTITorchError torch_get_num_threads(uint32_t *);
void aoti_torch_warn(const char *function, const char *file, uint32_t line, const char *text);

#ifdef __cplusplus
}
#endif
