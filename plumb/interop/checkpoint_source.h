// Somebody's checkpoint, opened without running any of it: which tensors there are, and their values in
// pieces.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plumb/base/json.h"
#include "plumb/interop/strided.h"
#include "plumb/tensor/safetensors.h"

namespace plumb {

/// A tensor of a checkpoint: where it lies. Nothing of it has been read.
struct SourceTensor {
  std::string name;
  StoredType type = StoredType::f32;
  std::vector<std::int64_t> shape;
  std::size_t file = 0;               // which of the source's files
  std::uint64_t offset = 0;           // of its first byte in the file
  std::vector<std::int64_t> strides;  // in elements, of a view of a PyTorch storage; empty: contiguous
  std::string unread;                 // "sparse", "complex" …: why its values are not read; empty: they are

  StridedView view() const { return {shape, strides}; }
  std::uint64_t size() const;   // elements
  std::uint64_t bytes() const;  // size() elements of `type`
};

/// Whether it is a matrix that lies transposed in its storage, and the tensor as it lies there: its
/// transpose, or itself.
bool is_stored_transposed(const SourceTensor& t);
SourceTensor in_stored_order(const SourceTensor& t);

struct CheckpointSource {
  std::string name;                             // as the user gave it
  std::string format;                           // "safetensors", "torch", "config"
  std::vector<std::filesystem::path> files;     // with tensors
  std::vector<SourceTensor> tensors;            // by name
  std::map<std::string, std::string> metadata;  // a safetensors file's own
  std::string config_name;                      // a path, or what else the config came from; empty: none
  Json config;                                  // config.json, or model_args in a .pt file; null: none
  bool is_shard = false;                        // one file of several: an absent tensor proves nothing
  std::vector<std::string> notes;               // what the reader should know, as sentences

  const SourceTensor* find(std::string_view tensor) const;
  /// Whether it is of a kind and a type that TensorReader turns into floats.
  static bool is_readable(const SourceTensor&);
};

/// The first five of the names, each cut to 120 bytes, and how many more there are.
std::string some_of(const std::vector<std::string>& names);

/// Opens a folder (with the names that Hugging Face gives files in it), a .safetensors file, a PyTorch zip
/// archive (.bin, .pt, .pth), an index of shards, or a config.json alone; `config` overrides the config.json
/// beside it. Reads headers and pickles, no tensors; a hostile file is refused with one sentence (bad_input)
/// and costs at most some hundred MB.
CheckpointSource open_checkpoint_source(const std::filesystem::path& what,
                                        const std::filesystem::path& config = {});

/// Reads values of one tensor after another without opening the file each time.
class TensorReader {
 public:
  explicit TensorReader(const CheckpointSource& source) : source_(source) {}
  /// The elements from `first` on, as floats (from F64, F32, F16, BF16, integers or booleans).
  void read(const SourceTensor& tensor, std::uint64_t first, std::span<float> out);
  /// The bytes from the tensor's byte `first` on (of a view: whole elements).
  void read_bytes(const SourceTensor& tensor, std::uint64_t first, std::span<std::byte> out);

 private:
  const FileReader& file_of(const SourceTensor& tensor);
  const CheckpointSource& source_;
  std::size_t open_file_ = 0;
  std::optional<FileReader> file_;
  std::vector<std::byte> buffer_, window_;
};

}  // namespace plumb
