#include "plumb/interop/torch_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace plumb {
namespace {

struct ElementType {
  std::string_view storage, dtype;  // torch.FloatStorage, torch.float32; the newest types have no storage
  StoredType type;
};
constexpr ElementType element_types[] = {{"DoubleStorage", "float64", StoredType::f64},
                                         {"FloatStorage", "float32", StoredType::f32},
                                         {"HalfStorage", "float16", StoredType::f16},
                                         {"BFloat16Storage", "bfloat16", StoredType::bf16},
                                         {"LongStorage", "int64", StoredType::i64},
                                         {"IntStorage", "int32", StoredType::i32},
                                         {"ShortStorage", "int16", StoredType::i16},
                                         {"CharStorage", "int8", StoredType::i8},
                                         {"ByteStorage", "uint8", StoredType::u8},
                                         {"BoolStorage", "bool", StoredType::boolean},
                                         {"", "uint16", StoredType::u16},
                                         {"", "uint32", StoredType::u32},
                                         {"", "uint64", StoredType::u64},
                                         {"", "float8_e4m3fn", StoredType::f8_e4m3},
                                         {"", "float8_e5m2", StoredType::f8_e5m2},
                                         {"", "float8_e8m0fnu", StoredType::f8_e8m0}};

constexpr std::pair<std::string_view, std::string_view> unread_storages[] = {
    {"ComplexFloatStorage", "complex"}, {"ComplexDoubleStorage", "complex"}, {"QInt8Storage", "quantised"},
    {"QUInt8Storage", "quantised"},     {"QInt32Storage", "quantised"},      {"QUInt4x2Storage", "quantised"},
    {"QUInt2x4Storage", "quantised"}};

// float32, qint8, float4_e2m1fn_x2 …: types that PyTorch has or will have, none of them a function.
bool is_dtype(std::string_view name) {
  if (name == "bool") return true;
  for (const std::string_view kind : {"float", "bfloat", "complex", "int", "uint", "qint", "quint", "bits"})
    if (name.size() > kind.size() && name.starts_with(kind) && name[kind.size()] >= '0' &&
        name[kind.size()] <= '9')
      return true;
  return false;
}

constexpr TorchCallable callables[] = {
    {"collections.OrderedDict", TorchCall::dict, 0},
    {"torch._utils._rebuild_tensor", TorchCall::tensor, 4},
    {"torch._utils._rebuild_tensor_v2", TorchCall::tensor, 4},
    {"torch._utils._rebuild_tensor_v3", TorchCall::tensor, 7, TensorForm::typed},
    {"torch._utils._rebuild_sparse_tensor", TorchCall::tensor, 2, TensorForm::sparse},
    {"torch._utils._rebuild_sparse_csr_tensor", TorchCall::tensor, 2, TensorForm::sparse},
    {"torch._utils._rebuild_qtensor", TorchCall::tensor, 4, TensorForm::quantised},
    {"torch._utils._rebuild_nested_tensor", TorchCall::tensor, 1, TensorForm::nested},
    {"torch._utils._rebuild_meta_tensor_no_storage", TorchCall::tensor, 2, TensorForm::meta},
    {"torch._tensor._rebuild_from_type_v2", TorchCall::tensor_of_type, 3},
    {"torch._utils._rebuild_parameter", TorchCall::first, 1},
    {"torch._utils._rebuild_parameter_with_state", TorchCall::first, 1},
    {"torch._utils._rebuild_device_tensor_from_cpu_tensor", TorchCall::first, 1},
    {"torch.serialization._get_layout", TorchCall::first, 1},
    {"torch.Size", TorchCall::first, 1},
    {"torch.device", TorchCall::first, 1},
    {"_codecs.encode", TorchCall::first, 1},  // bytes in protocol 2
};

}  // namespace

const TorchCallable* find_torch_callable(std::string_view name) {
  const auto found = std::ranges::find(callables, name, &TorchCallable::name);
  return found == std::end(callables) ? nullptr : found;
}

bool is_allowed_name(std::string_view module, std::string_view name) {
  if (find_torch_callable(fmt::format("{}.{}", module, name))) return true;
  if (module == "torch.storage") return name == "UntypedStorage";
  if (module == "torch.nn.parameter") return name == "Parameter";
  return module == "torch" && (name == "UntypedStorage" || name == "Tensor" || name == "per_tensor_affine" ||
                               name == "per_channel_affine" || type_of_storage(name) ||
                               !unread_storage(name).empty() || is_dtype(name));
}

std::optional<StoredType> type_of_storage(std::string_view name) {
  for (const ElementType& e : element_types)
    if (!e.storage.empty() && e.storage == name) return e.type;
  return {};
}

std::optional<StoredType> type_of_dtype(std::string_view name) {
  for (const ElementType& e : element_types)
    if (e.dtype == name) return e.type;
  return {};
}

std::string_view unread_storage(std::string_view name) {
  for (const auto& [storage, kind] : unread_storages)
    if (storage == name) return kind;
  return {};
}

}  // namespace plumb
