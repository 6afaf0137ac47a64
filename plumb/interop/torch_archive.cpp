#include "plumb/interop/torch_archive.h"

#include <algorithm>
#include <limits>

#include "plumb/base/error.h"
#include "plumb/interop/pickle.h"
#include "plumb/interop/zip_directory.h"

namespace plumb {
namespace {

using Kind = PickleValue::Kind;

constexpr std::uint64_t max_pickle_bytes = 64'000'000;

class Archive {
 public:
  explicit Archive(const std::filesystem::path& path)
      : file_(path),
        entries_(read_zip_directory(file_)),
        pickle_(parse_pickle(pickle_text(), "the pickle in " + file_.name())) {
    if (const ZipEntry* order = find_entry(entries_, prefix_ + "byteorder");
        order && order->bytes == 3 && text_of(*order) == "big")
      bad_input("{} was written by a big-endian machine; convert it to safetensors there", file_.name());
  }

  const Pickle& pickle() const { return pickle_; }
  const std::string& name() const { return file_.name(); }

  SourceTensor tensor(const std::string& name, const PickleValue& v, std::size_t file_number) const {
    const std::string what = fmt::format("tensor '{}' in {}", name.substr(0, 120), file_.name());
    const auto wrong = [&](std::string_view why) {
      bad_input("{} {}; the file is damaged, get it again", what, why);
    };
    const auto item = [&](const PickleValue& of, std::size_t i, Kind kind) -> const PickleValue& {
      if (i >= of.items.size() || pickle_[of.items[i]].kind != kind)
        wrong("is not described as torch.save does it");
      return pickle_[of.items[i]];
    };
    const PickleValue& id = item(item(v, 0, Kind::persistent), 0, Kind::tuple);
    const std::string_view storage = item(id, 1, Kind::global).text;
    const auto type = type_of_storage(storage.substr(storage.rfind('.') + 1));
    if (!type) wrong(fmt::format("has a storage of {}, whose element type is not known here", storage));
    const ZipEntry* entry = find_entry(entries_, prefix_ + "data/" + item(id, 2, Kind::text).text);
    if (!entry) wrong("refers to a storage that the file does not have");

    SourceTensor t;
    t.name = name;
    t.type = *type;
    t.file = file_number;
    const std::int64_t offset = item(v, 1, Kind::integer).integer;
    const PickleValue &sizes = item(v, 2, Kind::tuple), &strides = item(v, 3, Kind::tuple);
    if (sizes.items.size() != strides.items.size() || sizes.items.size() > 16)
      wrong("has sizes that do not fit its strides");
    for (std::size_t i = 0; i < sizes.items.size(); ++i)
      t.shape.push_back(item(sizes, i, Kind::integer).integer);
    const auto bytes = stored_bytes(t.type, t.shape);
    const std::uint64_t element = stored_type_bytes(t.type);
    const std::uint64_t room = entry->bytes / element;
    if (!bytes || offset < 0 || static_cast<std::uint64_t>(offset) > room ||
        *bytes / element > room - static_cast<std::uint64_t>(offset))
      wrong(fmt::format("with shape {} at {} does not fit its storage of {} bytes", shape_text(t.shape),
                        offset, entry->bytes));
    t.contiguous = is_contiguous(t.shape, strides);
    t.offset = zip_contents(file_, *entry) + static_cast<std::uint64_t>(offset) * element;
    return t;
  }

 private:
  std::string text_of(const ZipEntry& e) const { return file_.read_text(zip_contents(file_, e), e.bytes); }

  std::string pickle_text() {
    const auto found =
        std::ranges::find_if(entries_, [](const ZipEntry& e) { return e.name.ends_with("/data.pkl"); });
    if (found == entries_.end())
      bad_input("{} is a zip file without data.pkl, so not one that torch.save wrote; name a checkpoint",
                file_.name());
    if (found->bytes > max_pickle_bytes)
      bad_input("{} has a pickle of {} bytes, of which at most {} are read; check that it is the right file",
                file_.name(), found->bytes, max_pickle_bytes);
    prefix_ = found->name.substr(0, found->name.size() - std::string_view("data.pkl").size());
    return text_of(*found);
  }

  bool is_contiguous(const std::vector<std::int64_t>& shape, const PickleValue& strides) const {
    std::int64_t expected = 1;
    for (std::size_t i = shape.size(); i-- > 0;) {
      const PickleValue& stride = pickle_[strides.items[i]];
      if (stride.kind != Kind::integer || (shape[i] != 1 && stride.integer != expected)) return false;
      expected *= shape[i];  // stored_bytes has bounded the product
    }
    return true;
  }

  FileReader file_;
  std::vector<ZipEntry> entries_;
  std::string prefix_;
  Pickle pickle_;
};

bool has_tensors(const Pickle& p, const PickleValue& v) {
  return v.kind == Kind::dict &&
         std::ranges::any_of(v.items, [&](std::uint32_t i) { return p[i].kind == Kind::tensor; });
}

// A training checkpoint has single tensors beside its model (nanoGPT's best_val_loss), so the names of models
// come first.
const PickleValue* state_dict_of(const Pickle& p) {
  const PickleValue& root = p[p.root];
  for (const std::string_view key : {"model", "state_dict", "model_state_dict", "module"})
    if (const PickleValue* v = p.find(root, key); v && has_tensors(p, *v)) return v;
  return has_tensors(p, root) ? &root : nullptr;
}

// Numbers, booleans, texts and nulls of a dict; what else is in it is left out.
Json flat_json(const Pickle& p, const PickleValue& dict) {
  Json j = Json::object();
  for (std::size_t i = 0; i + 1 < dict.items.size() && i < 200; i += 2) {
    const PickleValue &key = p[dict.items[i]], &v = p[dict.items[i + 1]];
    if (key.kind != Kind::text) continue;
    if (v.kind == Kind::integer) j[key.text] = v.integer;
    if (v.kind == Kind::boolean) j[key.text] = v.integer != 0;
    if (v.kind == Kind::real) j[key.text] = v.real;
    if (v.kind == Kind::text) j[key.text] = v.text;
  }
  return j;
}

// llama2.c's train.py saves its model_args under the same key, and they are a Llama's.
bool is_nanogpt(const CheckpointSource& source) {
  const auto any = [&](std::string_view words) {
    return std::ranges::any_of(
        source.tensors, [&](const SourceTensor& t) { return t.name.find(words) != std::string::npos; });
  };
  return source.config.find("n_embd") != nullptr && any("transformer.wte.") && any(".attn.c_attn.");
}

}  // namespace

bool is_torch_file(std::string_view first_bytes) {
  return first_bytes.starts_with("PK\x03\x04") ||
         (first_bytes.size() > 1 && first_bytes[0] == '\x80' && first_bytes[1] >= 2 && first_bytes[1] <= 5);
}

void add_torch_archive(CheckpointSource& source, const std::filesystem::path& path, std::size_t number) {
  if (FileReader file(path); file.size() == 0 || file.read_text(0, 1) != "P")
    bad_input(
        "{} is a pickle without an archive, as PyTorch before 1.6 wrote it; load it there and save it again "
        "as safetensors",
        path.string());
  const Archive archive(path);
  const Pickle& p = archive.pickle();
  const PickleValue* state = state_dict_of(p);
  if (!state)
    bad_input(
        "{} holds no dict of tensors (nor under model, state_dict, model_state_dict or module); save "
        "model.state_dict()",
        archive.name());
  for (std::size_t i = 0; i + 1 < state->items.size(); i += 2) {
    const PickleValue &key = p[state->items[i]], &v = p[state->items[i + 1]];
    if (key.kind == Kind::text && v.kind == Kind::tensor)
      source.tensors.push_back(archive.tensor(key.text, v, number));
  }
  if (const PickleValue* args = p.find(p[p.root], "model_args"); args && args->kind == Kind::dict) {
    source.config = flat_json(p, *args);
    if (is_nanogpt(source)) source.config["model_type"] = "nanogpt";
    source.config_name = "model_args in " + archive.name();
  }
}

}  // namespace plumb
