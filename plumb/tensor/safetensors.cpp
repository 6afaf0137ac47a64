#include "plumb/tensor/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>

#include "plumb/base/error.h"
#include "plumb/base/files.h"
#include "plumb/base/json.h"
#include "plumb/base/sha256.h"
#include "plumb/base/text.h"

namespace plumb {
namespace {

constexpr std::string_view metadata_key = "__metadata__", digest_key = "sha256";
constexpr std::size_t length_bytes = 8;
// The format's own limit; it also bounds what a hostile file can make us allocate.
constexpr std::uint64_t max_header_bytes = 100'000'000;
constexpr std::size_t max_header_depth = 8;
// A tensor has nine; a JSON value takes twenty times the memory of the two characters that it may be written with.
constexpr std::size_t max_header_values = 2'000'000;

struct TypeInfo {
  StoredType type;
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array types{
    TypeInfo{StoredType::f64, "F64", 8},         TypeInfo{StoredType::f32, "F32", 4},
    TypeInfo{StoredType::i64, "I64", 8},         TypeInfo{StoredType::i32, "I32", 4},
    TypeInfo{StoredType::f16, "F16", 2},         TypeInfo{StoredType::bf16, "BF16", 2},
    TypeInfo{StoredType::i16, "I16", 2},         TypeInfo{StoredType::i8, "I8", 1},
    TypeInfo{StoredType::u64, "U64", 8},         TypeInfo{StoredType::u32, "U32", 4},
    TypeInfo{StoredType::u16, "U16", 2},         TypeInfo{StoredType::u8, "U8", 1},
    TypeInfo{StoredType::boolean, "BOOL", 1},    TypeInfo{StoredType::f8_e4m3, "F8_E4M3", 1},
    TypeInfo{StoredType::f8_e5m2, "F8_E5M2", 1}, TypeInfo{StoredType::f8_e8m0, "F8_E8M0", 1}};
constexpr std::string_view read_whole = "F32, F64, I32 or I64";

const TypeInfo& info_of(StoredType type) {
  return *std::find_if(types.begin(), types.end(), [&](const TypeInfo& t) { return t.type == type; });
}

bool is_read_whole(StoredType type) {
  return type == StoredType::f64 || type == StoredType::f32 || type == StoredType::i64 || type == StoredType::i32;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Larger elements first, so that each tensor starts at a multiple of its element size; then by name.
std::vector<const TensorView*> in_file_order(std::span<const TensorView> tensors) {
  std::vector<const TensorView*> order;
  for (const TensorView& t : tensors) order.push_back(&t);
  std::sort(order.begin(), order.end(), [](const TensorView* a, const TensorView* b) {
    const std::size_t size_a = info_of(a->type).bytes, size_b = info_of(b->type).bytes;
    return size_a != size_b ? size_a > size_b : a->name < b->name;
  });
  return order;
}

void check_names(const std::filesystem::path& path, std::span<const TensorView> tensors) {
  std::vector<std::string_view> names;
  for (const TensorView& t : tensors) names.push_back(t.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    bad_input("cannot write {}: two tensors are called '{}'; give each its own name", path.string(), *twice);
}

// -- reading

// Offsets as the header has them, from the start of the data; `what` names the tensor.
TensorExtent read_extent(const std::string& tensor_name, const Json& json, std::string_view file,
                         std::uint64_t data_bytes) {
  const std::string what = fmt::format("tensor '{}' in {}", tensor_name, file);
  TensorExtent extent;
  extent.name = tensor_name;
  const std::string& type_name = json.at("dtype", what).as_string(what + ": dtype");
  const auto type =
      std::find_if(types.begin(), types.end(), [&](const TypeInfo& t) { return t.name == type_name; });
  if (type == types.end())
    bad_input("{} has dtype {}, which is not read here; convert it to {}", what, type_name, read_whole);
  extent.type = type->type;
  for (const Json& n : json.at("shape", what).as_array(what + ": shape"))
    extent.shape.push_back(n.as_int(what + ": shape"));

  const Json::Array& offsets = json.at("data_offsets", what).as_array(what + ": data_offsets");
  if (offsets.size() != 2)
    bad_input("{} has {} data_offsets, not 2; write the file again", what, offsets.size());
  const std::int64_t begin = offsets[0].as_int(what + ": data_offsets"),
                     end = offsets[1].as_int(what + ": data_offsets");
  if (begin < 0 || end < begin || static_cast<std::uint64_t>(end) > data_bytes)
    bad_input("{} lies at bytes {} to {} of {}; the file is cut off or damaged, get it again", what, begin,
              end, data_bytes);
  extent.begin = static_cast<std::uint64_t>(begin);
  extent.end = static_cast<std::uint64_t>(end);
  if (stored_bytes(extent.type, extent.shape) != extent.end - extent.begin)
    bad_input("{} has {} bytes, which do not fit shape {} of {}; the file is damaged, get it again", what,
              extent.end - extent.begin, shape_text(extent.shape), type_name);
  return extent;
}

std::vector<TensorExtent> read_extents(const Json& header, std::string_view file, std::uint64_t data_bytes) {
  std::vector<TensorExtent> extents;
  for (const auto& [key, value] : header.as_object(file))
    if (key != metadata_key) extents.push_back(read_extent(key, value, file, data_bytes));
  std::sort(extents.begin(), extents.end(), [](const TensorExtent& a, const TensorExtent& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end != b.end ? a.end < b.end : a.name < b.name;
  });
  std::uint64_t at = 0;
  for (const TensorExtent& e : extents) {
    if (e.begin != at)
      bad_input(
          "tensor '{}' in {} starts at byte {} and not at {}, where the one before ends; the file is "
          "damaged, get it again",
          e.name, file, e.begin, at);
    at = e.end;
  }
  if (at != data_bytes)
    bad_input("{} has {} bytes of data, but its tensors have {}; the file is damaged, get it again", file,
              data_bytes, at);
  return extents;
}

// The length of the header of a file of `file_bytes` bytes that begins with `start`.
std::uint64_t header_length(std::string_view start, std::uint64_t file_bytes, std::string_view name) {
  if (file_bytes < length_bytes)
    bad_input("{} has {} bytes, too few for a safetensors file; check that it is the right file", name,
              file_bytes);
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i)
    length |= std::uint64_t{static_cast<unsigned char>(start[i])} << (8 * i);
  if (length > max_header_bytes || length > file_bytes - length_bytes)
    bad_input(
        "{} claims a header of {} bytes, but has {}; it is no safetensors file or is cut off, get it again",
        name, length, file_bytes);
  return length;
}

// Offsets from the start of the data.
TensorIndex parse_index(std::string_view header_text, std::string_view name, std::uint64_t data_bytes) {
  const Json header =
      Json::parse(header_text, fmt::format("the header of {}", name), max_header_depth, max_header_values);
  TensorIndex index;
  index.name = name;
  index.tensors = read_extents(header, name, data_bytes);
  if (const Json* meta = header.find(metadata_key)) {
    const std::string what = fmt::format("{} in {}", metadata_key, name);
    for (const auto& [key, value] : meta->as_object(what))
      index.metadata[key] = value.as_string(what + ": " + key);
  }
  return index;
}

}  // namespace

std::string_view stored_type_name(StoredType type) { return info_of(type).name; }

std::size_t stored_type_bytes(StoredType type) { return info_of(type).bytes; }

std::optional<std::uint64_t> stored_bytes(StoredType type, const std::vector<std::int64_t>& shape) {
  constexpr auto limit = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::uint64_t bytes = info_of(type).bytes;
  bool zero = false;
  for (const std::int64_t n : shape) {
    if (n < 0) return {};
    if (n == 0)
      zero = true;
    else if (bytes > limit / static_cast<std::uint64_t>(n))
      return {};
    else
      bytes *= static_cast<std::uint64_t>(n);
  }
  return zero ? 0 : bytes;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::vector<std::string> sizes;
  sizes.reserve(shape.size());
  for (const std::int64_t n : shape) sizes.push_back(std::to_string(n));
  return "[" + join(sizes) + "]";
}

void StoredTensor::require_type(StoredType wanted) const {
  if (type != wanted)
    bad_input("tensor '{}' is stored as {}, but {} is needed here; convert it or take another file", name,
              stored_type_name(type), stored_type_name(wanted));
}

const StoredTensor* TensorFile::find(std::string_view tensor) const {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const StoredTensor& t) { return t.name == tensor; });
  return found == tensors.end() ? nullptr : &*found;
}

const StoredTensor& TensorFile::at(std::string_view tensor) const {
  if (const StoredTensor* found = find(tensor)) return *found;
  std::vector<std::string> names;
  for (const StoredTensor& t : tensors) names.push_back(t.name);
  const auto nearest = nearest_name(tensor, names);
  bad_input(
      "{} has no tensor '{}'; {}", name, tensor,
      nearest ? fmt::format("did you mean '{}'?", *nearest) : std::string("check that it is the right file"));
}

void save_tensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                  const std::map<std::string, std::string>& metadata) {
  check_names(path, tensors);
  if (metadata.contains(std::string(digest_key)))
    bad_input("cannot write {}: the metadata key '{}' is the file's own; choose another", path.string(),
              digest_key);

  Sha256 digest;
  Json entries = Json::object();
  std::vector<std::string_view> pieces(2);
  std::uint64_t at = 0;
  for (const TensorView* t : in_file_order(tensors)) {
    if (t->name == metadata_key)
      bad_input("cannot write {}: no tensor may be called '{}'; choose another name", path.string(),
                metadata_key);
    if (stored_bytes(t->type, t->shape) != t->bytes.size())
      bad_input(
          "cannot write {}: tensor '{}' has {} bytes, which do not fit shape {} of {}; correct the shape",
          path.string(), t->name, t->bytes.size(), shape_text(t->shape), stored_type_name(t->type));
    const std::uint64_t end = at + t->bytes.size();
    Json entry = Json::object();
    entry.add_member("dtype", stored_type_name(t->type));
    entry.add_member("shape", t->shape);
    entry.add_member("data_offsets", Json::Array{at, end});
    entries.add_member(t->name, std::move(entry));
    digest.add(t->bytes);
    pieces.push_back(text_of(t->bytes));
    at = end;
  }

  std::map<std::string, std::string> all = metadata;
  all[std::string(digest_key)] = digest.hex();
  Json header = Json::object();
  Json& meta = header.add_member(std::string(metadata_key), Json::object());
  for (const auto& [key, value] : all) meta.add_member(key, value);
  for (const auto& [key, value] : entries.as_object("header")) header.add_member(key, value);

  std::string head = header.dump();
  head.append((8 - head.size() % 8) % 8, ' ');  // the data starts at a multiple of 8
  if (head.size() > max_header_bytes)
    bad_input(
        "cannot write {}: its header would have {} bytes, more than the format's {}; write fewer tensors a "
        "file",
        path.string(), head.size(), max_header_bytes);
  std::string length;
  for (std::size_t i = 0; i < length_bytes; ++i) length += static_cast<char>(head.size() >> (8 * i) & 0xff);
  pieces[0] = length;
  pieces[1] = head;
  write_file_atomic(path, pieces);
}

TensorIndex read_tensor_index(const FileReader& file) {
  const std::string start = file.read_text(0, std::min<std::uint64_t>(length_bytes, file.size()));
  const std::uint64_t length = header_length(start, file.size(), file.name());
  const std::uint64_t data = length_bytes + length;
  TensorIndex index = parse_index(file.read_text(length_bytes, length), file.name(), file.size() - data);
  for (TensorExtent& e : index.tensors) e.begin += data, e.end += data;
  return index;
}

TensorFile parse_tensors(std::string_view bytes, std::string_view name) {
  const std::uint64_t length = header_length(bytes, bytes.size(), name);
  const std::string_view data = bytes.substr(length_bytes + length);
  TensorIndex index = parse_index(bytes.substr(length_bytes, length), name, data.size());

  TensorFile file;
  file.name = name;
  file.metadata = std::move(index.metadata);
  for (const TensorExtent& e : index.tensors)
    if (!is_read_whole(e.type))
      bad_input("tensor '{}' in {} has dtype {}, which is not read here; convert it to {}", e.name, name,
                stored_type_name(e.type), read_whole);
  if (const auto digest = file.metadata.find(std::string(digest_key)); digest != file.metadata.end()) {
    if (sha256_hex(data) != digest->second)
      bad_input(
          "the tensors of {} do not have the SHA-256 that its metadata gives; the file is damaged, get it "
          "again",
          name);
    file.metadata.erase(digest);
  }
  for (TensorExtent& e : index.tensors) {
    StoredTensor tensor;
    tensor.name = std::move(e.name);
    tensor.type = e.type;
    tensor.shape = std::move(e.shape);
    tensor.bytes.resize(e.end - e.begin);
    if (!tensor.bytes.empty()) std::memcpy(tensor.bytes.data(), data.data() + e.begin, tensor.bytes.size());
    file.tensors.push_back(std::move(tensor));
  }
  return file;
}

TensorFile load_tensors(const std::filesystem::path& path) {
  return parse_tensors(read_file(path), path.string());
}

}  // namespace plumb
