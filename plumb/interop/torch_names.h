// The names that a pickle of torch.save may ask for: what they would make, and of which elements.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "plumb/tensor/safetensors.h"

namespace plumb {

/// How a tensor's arguments describe it: by torch._utils._rebuild_…
enum class TensorForm : std::uint8_t {
  plain,      // …tensor_v2: a typed storage, offset, sizes, strides
  typed,      // …tensor_v3: a storage of bytes, the same, and the type as the seventh argument
  sparse,     // …sparse_tensor: the layout, and a tuple that ends in the sizes
  quantised,  // …qtensor: as plain, and scales
  nested,     // …nested_tensor
  meta        // …meta_tensor_no_storage: the type, sizes, strides
};

/// What a "call" of a name notes.
enum class TorchCall : std::uint8_t {
  dict,           // an empty dict
  first,          // its first argument: a parameter is its tensor, a size the tuple of its numbers
  tensor,         // a tensor with these arguments
  tensor_of_type  // a tensor, whose function and arguments are arguments
};

struct TorchCallable {
  std::string_view name;
  TorchCall call;
  std::size_t least;  // arguments
  TensorForm form = TensorForm::plain;
};
/// The callable of that name ("torch._utils._rebuild_tensor_v2"), or nullptr.
const TorchCallable* find_torch_callable(std::string_view name);

/// Whether a pickle may name it. Names are looked at, never imported. Those that are no callables are types
/// of elements, and what stands for a plain tensor's class.
bool is_allowed_name(std::string_view module, std::string_view name);

/// The elements of torch's "FloatStorage", "HalfStorage" …, or of its type "float32", "float8_e4m3fn" …;
/// nothing for a name that says none that can be read here.
std::optional<StoredType> type_of_storage(std::string_view name);
std::optional<StoredType> type_of_dtype(std::string_view name);
/// "complex" or "quantised" for a storage of such elements; empty for every other name.
std::string_view unread_storage(std::string_view name);

}  // namespace plumb
