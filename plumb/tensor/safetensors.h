// Files of named tensors in the safetensors format (8 bytes of header length, little endian; a JSON header;
// the bytes), https://github.com/huggingface/safetensors. Same tensors and metadata give the same bytes: no
// time stamps.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "plumb/base/files.h"

namespace plumb {

/// The element types of the format. Tensors are written here as one of the first four, and read whole as one of
/// these; read_tensor_index knows all of them.
enum class StoredType : std::uint8_t {
  f64, f32, i64, i32,
  f16, bf16, i16, i8, u64, u32, u16, u8, boolean, f8_e4m3, f8_e5m2, f8_e8m0
};

template <class T>
constexpr StoredType stored_type() {
  if constexpr (std::is_same_v<T, double>) {
    return StoredType::f64;
  } else if constexpr (std::is_same_v<T, float>) {
    return StoredType::f32;
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return StoredType::i64;
  } else {
    static_assert(std::is_same_v<T, std::int32_t>, "only double, float, int64 and int32 are stored here");
    return StoredType::i32;
  }
}

/// "F64", "F32", "BF16", "BOOL" …, as the format spells them.
std::string_view stored_type_name(StoredType type);
/// Bytes of one element.
std::size_t stored_type_bytes(StoredType type);
/// Bytes of a tensor, or nothing when a size is negative or the product does not fit 63 bits.
std::optional<std::uint64_t> stored_bytes(StoredType type, const std::vector<std::int64_t>& shape);
/// "[3, 4]"
std::string shape_text(const std::vector<std::int64_t>& shape);

/// What is to be written: borrowed bytes.
struct TensorView {
  std::string name;
  StoredType type = StoredType::f32;
  std::vector<std::int64_t> shape;  // empty: a scalar
  std::span<const std::byte> bytes;
};

template <class T>
TensorView tensor_view(std::string name, std::vector<std::int64_t> shape, std::span<const T> values) {
  return {std::move(name), stored_type<T>(), std::move(shape), std::as_bytes(values)};
}

/// What was read: owned bytes.
struct StoredTensor {
  std::string name;
  StoredType type = StoredType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;

  /// The values as T (bad_input when the file stores another type).
  template <class T>
  std::span<const T> values() const {
    require_type(stored_type<T>());
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

 private:
  void require_type(StoredType wanted) const;
};

class TensorFile {
 public:
  std::string name;                             // the path, for errors
  std::map<std::string, std::string> metadata;  // `__metadata__`, without our "sha256"
  std::vector<StoredTensor> tensors;            // in the order of their bytes

  /// The tensor called `name`, or nullptr.
  const StoredTensor* find(std::string_view tensor) const;
  /// The tensor called `name`, or bad_input naming the nearest one that is there.
  const StoredTensor& at(std::string_view tensor) const;
};

/// Writes atomically, larger element types first and then by name, so that every tensor is aligned. Adds
/// "sha256" to the metadata: the digest of all tensor bytes in file order. bad_input when a name appears
/// twice, is "__metadata__", or a shape does not fit its bytes, and when `metadata` has "sha256"; fail() when
/// the file cannot be written.
void save_tensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                  const std::map<std::string, std::string>& metadata = {});

/// Reads and checks everything before it allocates: header length, JSON, types, shapes, offsets (no gap, no
/// overlap, nothing behind the end) and, when the metadata has it, the SHA-256. bad_input with one sentence
/// otherwise.
TensorFile load_tensors(const std::filesystem::path& path);

/// What a header says of one tensor, of any type.
struct TensorExtent {
  std::string name;
  StoredType type = StoredType::f32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes of the file
};

struct TensorIndex {
  std::string name;                             // the path, for errors
  std::map<std::string, std::string> metadata;  // `__metadata__` as it is
  std::vector<TensorExtent> tensors;            // in the order of their bytes
};

/// Reads the header alone, and checks it as load_tensors does. What it takes is bounded by the format's limit on
/// headers (100 MB) and by two million JSON values, whatever the file claims.
TensorIndex read_tensor_index(const FileReader& file);

/// load_tensors for bytes in memory; `name` is what errors call them.
TensorFile parse_tensors(std::string_view bytes, std::string_view name);

}  // namespace plumb
