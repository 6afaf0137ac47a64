#include "plumb/interop/checkpoint_source.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <set>

#include "plumb/base/error.h"
#include "plumb/base/text.h"
#include "plumb/interop/torch_archive.h"

namespace plumb {
namespace fs = std::filesystem;
namespace {

// A config has some hundred values and an index two per tensor: these leave room and bound what a hostile
// file costs.
constexpr std::uint64_t max_config_bytes = 16'000'000, max_index_bytes = 64'000'000;
constexpr std::size_t max_config_values = 500'000, max_index_values = 1'000'000, max_shards = 10'000;

// All shards together: a mixture of a trillion parameters with its scales has some 150,000 tensors.
constexpr std::size_t max_tensors = 500'000;
constexpr std::size_t max_named = 5, max_name = 120;

bool is_there(const fs::path& p) {
  std::error_code ignored;
  return fs::exists(p, ignored);
}

Json read_json(const fs::path& path, std::uint64_t max_bytes, std::size_t max_values) {
  const FileReader file(path);
  if (file.size() > max_bytes)
    bad_input("{} has {} bytes, of which at most {} are read; check that it is the right file", file.name(),
              file.size(), max_bytes);
  Json j = Json::parse(file.read_text(0, file.size()), file.name(), 64, max_values);
  if (!j.is_object())
    bad_input("{} holds {} and no JSON object; check that it is the right file", file.name(), j.kind());
  return j;
}

void add_safetensors(CheckpointSource& source, const fs::path& path, std::size_t number) {
  TensorIndex index = read_tensor_index(FileReader(path));
  for (TensorExtent& e : index.tensors)
    source.tensors.push_back({std::move(e.name), e.type, std::move(e.shape), number, e.begin, {}, {}});
  source.metadata.merge(index.metadata);
}

// A file of safetensors begins with its header's length, whose bytes may be a pickle's (640 is 80 02 hex), so
// the header is looked for before anything else. No pickle and no archive has a '{' behind a length that
// fits.
bool has_safetensors_header(const FileReader& file) {
  if (file.size() < 9) return false;
  const std::string start = file.read_text(0, 9);
  std::uint64_t length = 0;
  std::memcpy(&length, start.data(), sizeof length);
  return length <= file.size() - 8 && start[8] == '{';
}

void add_file(CheckpointSource& source, const fs::path& path) {
  const FileReader file(path);
  const std::string start = file.read_text(0, std::min<std::uint64_t>(file.size(), 8));
  const std::size_t number = source.files.size();
  source.files.push_back(path);
  if (!has_safetensors_header(file) && is_torch_file(start)) {
    source.format = "torch";
    add_torch_archive(source, path, number);
  } else {
    source.format = "safetensors";
    add_safetensors(source, path, number);
  }
  if (source.tensors.size() > max_tensors)
    bad_input("{} has more than {} tensors, which is the most that is read; check that it is the right file",
              source.name, max_tensors);
}

// model.safetensors.index.json: {"weight_map": {tensor: file}}.
void add_shards(CheckpointSource& source, const fs::path& path, const Json& index) {
  const std::string name = path.string();
  std::map<std::string, std::set<std::string>> listed;  // file → tensors
  for (const auto& [tensor, file] : index.at("weight_map", name).as_object(name + ": weight_map")) {
    const std::string& shard = file.as_string(name + ": weight_map: " + tensor.substr(0, 120));
    if (shard.find_first_of("/\\") != std::string::npos || shard == "." || shard == "..")
      bad_input("{} places '{}' in '{}', which is not a plain file name; shards lie beside their index", name,
                tensor.substr(0, 120), shard.substr(0, 200));
    if (shard.ends_with(".json"))
      bad_input("{} names '{}' as a shard, which is no file of tensors; write the index again", name,
                shard.substr(0, 200));
    listed[shard].insert(tensor);
  }
  if (listed.empty()) bad_input("{} lists no tensors; write the index again", name);
  if (listed.size() > max_shards)
    bad_input("{} lists {} shards, of which at most {} are read; check that it is the right file", name,
              listed.size(), max_shards);
  for (const auto& [shard, tensors] : listed) {
    const fs::path file = path.parent_path() / shard;
    if (!is_there(file))
      bad_input("{} lists the shard {}, which is not there; get the file", name, file.string());
    const std::size_t before = source.tensors.size();
    add_file(source, file);
    std::set<std::string, std::less<>> found;
    for (std::size_t i = before; i < source.tensors.size(); ++i) found.insert(source.tensors[i].name);
    for (const std::string& tensor : tensors)
      if (!found.contains(tensor))
        bad_input("{} places '{}' in {}, which does not have it; get both files again", name,
                  tensor.substr(0, 120), shard);
    std::vector<std::string> unlisted;
    std::ranges::set_difference(found, tensors, std::back_inserter(unlisted));
    if (!unlisted.empty())
      source.notes.push_back(fmt::format("{} holds {} tensors that the index does not place there: {}.",
                                         shard.substr(0, max_name), unlisted.size(), some_of(unlisted)));
  }
}

void add_what(CheckpointSource& source, const fs::path& path) {
  if (path.extension() != ".json") {
    add_file(source, path);
    return;
  }
  Json j = read_json(path, max_index_bytes, max_index_values);
  if (j.find("weight_map") != nullptr) {
    add_shards(source, path, j);
  } else {
    source.format = "config";
    source.config = std::move(j);
    source.config_name = path.string();
  }
}

// The newest checkpoint of a run of ours, if the folder is one.
fs::path newest_of_run(const fs::path& folder) {
  fs::path newest;
  std::int64_t most = -1;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::int64_t step = 0;
    if (!name.starts_with("checkpoint-")) continue;
    const auto [stop, bad] = std::from_chars(name.data() + 11, name.data() + name.size(), step);
    if (bad == std::errc() && std::string_view(stop) == ".safetensors" && step > most)
      most = step, newest = it->path();
  }
  return newest;
}

// What to open in a folder, in the order in which transformers looks.
fs::path file_in(const fs::path& folder) {
  for (const char* name : {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                           "pytorch_model.bin.index.json"})
    if (is_there(folder / name)) return folder / name;
  if (fs::path run = newest_of_run(folder); !run.empty()) return run;
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    for (const std::string_view ending : {".safetensors", ".safetensors.index.json", ".pt", ".pth", ".bin"})
      if (name.ends_with(ending)) found.push_back(name);
  }
  std::ranges::sort(found);
  std::vector<std::string> indices;
  std::ranges::copy_if(found, std::back_inserter(indices),
                       [](const std::string& n) { return n.ends_with(".json"); });
  if (indices.size() == 1) return folder / indices.front();
  if (found.size() == 1) return folder / found.front();
  if (found.size() > 1) {
    if (found.size() > 5) found.resize(5);
    bad_input("{} holds several checkpoints ({}, …); name one", folder.string(), join(found));
  }
  if (is_there(folder / "config.json")) return folder / "config.json";
  bad_input(
      "{} holds no checkpoint (model.safetensors, pytorch_model.bin, an index, *.pt) and no config.json",
      folder.string());
}

// "model-00002-of-00003.safetensors"
bool is_shard_name(const std::string& name) {
  const auto of = name.rfind("-of-");
  const auto digits = [&](std::size_t at) {
    return at + 5 <= name.size() && std::all_of(name.begin() + static_cast<std::ptrdiff_t>(at),
                                                name.begin() + static_cast<std::ptrdiff_t>(at) + 5,
                                                [](char c) { return c >= '0' && c <= '9'; });
  };
  return of != std::string::npos && of >= 5 && digits(of - 5) && digits(of + 4) &&
         name.substr(of - 5, 14) != "00001-of-00001";
}

void refuse_duplicates(const CheckpointSource& source) {
  const auto twice = std::ranges::adjacent_find(source.tensors, {}, &SourceTensor::name);
  if (twice != source.tensors.end())
    bad_input("{} has two tensors called '{}'; get the file again", source.name, twice->name.substr(0, 120));
}

// IEEE 754 binary16. The exponent is moved by multiplying, which also makes subnormals right; infinities and
// NaNs are not numbers and keep their own exponent.
float float_of_half(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half & 0x8000U} << 16, rest = std::uint32_t{half & 0x7fffU} << 13;
  const std::uint32_t magnitude = rest >= 0x0f800000U
                                      ? rest | 0x7f800000U
                                      : std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest) * 0x1p112F);
  return std::bit_cast<float>(sign | magnitude);
}

float as_float(StoredType type, const std::byte* at) {
  const auto get = [&]<class T>(T v) {
    std::memcpy(&v, at, sizeof v);
    return v;
  };
  switch (type) {
    case StoredType::f64:
      return static_cast<float>(get(double{}));
    case StoredType::f32:
      return get(float{});
    case StoredType::f16:
      return float_of_half(get(std::uint16_t{}));
    case StoredType::bf16:
      return std::bit_cast<float>(std::uint32_t{get(std::uint16_t{})} << 16);
    case StoredType::i64:
      return static_cast<float>(get(std::int64_t{}));
    case StoredType::i32:
      return static_cast<float>(get(std::int32_t{}));
    case StoredType::i16:
      return get(std::int16_t{});
    case StoredType::i8:
      return get(std::int8_t{});
    case StoredType::u64:
      return static_cast<float>(get(std::uint64_t{}));
    case StoredType::u32:
      return static_cast<float>(get(std::uint32_t{}));
    case StoredType::u16:
      return get(std::uint16_t{});
    case StoredType::u8:
    case StoredType::boolean:
      return get(std::uint8_t{});
    default:
      return 0;  // is_readable has said no
  }
}

}  // namespace

std::uint64_t SourceTensor::size() const { return bytes() / stored_type_bytes(type); }

std::uint64_t SourceTensor::bytes() const { return stored_bytes(type, shape).value_or(0); }

bool is_stored_transposed(const SourceTensor& t) { return !t.strides.empty() && t.view().is_transposed(); }

SourceTensor in_stored_order(const SourceTensor& t) {
  SourceTensor stored = t;
  if (!is_stored_transposed(t)) return stored;
  StridedView view = t.view().transposed();
  if (view.is_contiguous()) view.strides.clear();
  stored.shape = std::move(view.sizes);
  stored.strides = std::move(view.strides);
  return stored;
}

const SourceTensor* CheckpointSource::find(std::string_view tensor) const {
  const auto found = std::ranges::lower_bound(tensors, tensor, {},
                                              [](const SourceTensor& t) { return std::string_view(t.name); });
  return found != tensors.end() && found->name == tensor ? &*found : nullptr;
}

bool CheckpointSource::is_readable(const SourceTensor& t) {
  return t.unread.empty() && t.type != StoredType::f8_e4m3 && t.type != StoredType::f8_e5m2 &&
         t.type != StoredType::f8_e8m0;
}

std::string some_of(const std::vector<std::string>& names) {
  std::vector<std::string> first;
  for (const std::string& name : names)
    if (first.size() < max_named) first.push_back(name.substr(0, max_name));
  return join(first) +
         (names.size() > max_named ? fmt::format(" and {} more", names.size() - max_named) : "");
}

CheckpointSource open_checkpoint_source(const fs::path& what, const fs::path& config) {
  std::error_code error;
  const fs::file_status status = fs::status(what, error);
  if (status.type() == fs::file_type::not_found) bad_input("there is no {}; check the path", what.string());
  CheckpointSource source;
  source.name = what.string();
  const fs::path file = fs::is_directory(status) ? file_in(what) : what;
  add_what(source, file);
  std::ranges::sort(source.tensors, {}, &SourceTensor::name);
  refuse_duplicates(source);

  if (source.files.size() == 1 && source.files[0] == file && is_shard_name(file.filename().string())) {
    source.is_shard = true;
    source.notes.push_back(
        fmt::format("{} is one shard of several: what is not in it may be in another; name the index or the "
                    "folder for all.",
                    file.filename().string()));
  }
  const fs::path beside = file.parent_path() / "config.json";
  if (!config.empty()) {
    source.config = read_json(config, max_config_bytes, max_config_values);
    source.config_name = config.string();
  } else if (source.config.is_null() && is_there(beside)) {
    source.config = read_json(beside, max_config_bytes, max_config_values);
    source.config_name = beside.string();
  }
  return source;
}

const FileReader& TensorReader::file_of(const SourceTensor& tensor) {
  if (!file_ || open_file_ != tensor.file) {
    file_.emplace(source_.files.at(tensor.file));
    open_file_ = tensor.file;
  }
  return *file_;
}

void TensorReader::read(const SourceTensor& tensor, std::uint64_t first, std::span<float> out) {
  const std::size_t element = stored_type_bytes(tensor.type);
  buffer_.resize(out.size() * element);
  read_bytes(tensor, first * element, buffer_);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = as_float(tensor.type, buffer_.data() + i * element);
}

void TensorReader::read_bytes(const SourceTensor& tensor, std::uint64_t first, std::span<std::byte> out) {
  const FileReader& file = file_of(tensor);
  const std::size_t element = stored_type_bytes(tensor.type);
  if (tensor.strides.empty())
    file.read(tensor.offset + first, out);
  else
    read_view(file, tensor.offset, tensor.view(), element, first / element, out, window_);
}

}  // namespace plumb
