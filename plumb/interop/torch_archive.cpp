#include "plumb/interop/torch_archive.h"

#include <algorithm>

#include "plumb/base/error.h"
#include "plumb/interop/pickle.h"
#include "plumb/interop/zip_directory.h"

namespace plumb {
namespace {

using Kind = PickleValue::Kind;

constexpr std::uint64_t max_pickle_bytes = 64'000'000;
constexpr std::size_t max_dims = 16;

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
    SourceTensor t;
    t.name = name;
    t.file = file_number;
    switch (v.form) {
      case TensorForm::plain:
      case TensorForm::typed:
        place(t, v);
        break;
      case TensorForm::sparse: {
        // (indices, values, sizes, is it coalesced) or (two indices, values, sizes)
        t.unread = "sparse";
        const PickleValue& parts = item(t, v, 1, Kind::tuple);
        for (const std::uint32_t i : parts.items)
          if (pickle_[i].kind == Kind::tuple) t.shape = numbers(t, pickle_[i]);
        break;
      }
      case TensorForm::quantised:
        t.unread = "quantised";
        t.shape = numbers(t, item(t, v, 2, Kind::tuple));
        break;
      case TensorForm::nested:
        t.unread = "nested";
        break;
      case TensorForm::meta:
        t.unread = "on the meta device, without values";
        t.shape = numbers(t, item(t, v, 1, Kind::tuple));
        break;
    }
    return t;
  }

 private:
  [[noreturn]] void wrong(const SourceTensor& t, std::string_view why) const {
    bad_input("tensor '{}' in {} {}; the file is damaged, get it again", t.name.substr(0, 120), file_.name(),
              why);
  }

  const PickleValue& item(const SourceTensor& t, const PickleValue& of, std::size_t i, Kind kind) const {
    if (i >= of.items.size() || pickle_[of.items[i]].kind != kind)
      wrong(t, "is not described as torch.save does it");
    return pickle_[of.items[i]];
  }

  std::vector<std::int64_t> numbers(const SourceTensor& t, const PickleValue& tuple) const {
    if (tuple.items.size() > max_dims) wrong(t, fmt::format("has {} dimensions", tuple.items.size()));
    std::vector<std::int64_t> all;
    for (std::size_t i = 0; i < tuple.items.size(); ++i)
      all.push_back(item(t, tuple, i, Kind::integer).integer);
    return all;
  }

  // Where a tensor with a storage lies, or why it is not read.
  void place(SourceTensor& t, const PickleValue& v) const {
    const PickleValue& id = item(t, item(t, v, 0, Kind::persistent), 0, Kind::tuple);
    const std::string_view storage = item(t, id, 1, Kind::global).text;
    std::string_view of = storage;
    if (v.form == TensorForm::typed) of = item(t, v, 6, Kind::global).text;
    const std::string_view element_name = of.substr(of.rfind('.') + 1);
    const auto type =
        v.form == TensorForm::typed ? type_of_dtype(element_name) : type_of_storage(element_name);
    StridedView view{numbers(t, item(t, v, 2, Kind::tuple)), numbers(t, item(t, v, 3, Kind::tuple))};
    if (view.sizes.size() != view.strides.size()) wrong(t, "has sizes that do not fit its strides");
    t.shape = view.sizes;
    if (!type) {
      t.unread = v.form == TensorForm::typed ? element_name : unread_storage(element_name);
      if (t.unread.empty())
        wrong(t, fmt::format("has a storage of {}, whose element type is not known here", storage));
      return;
    }
    t.type = *type;
    const ZipEntry* entry = find_entry(entries_, prefix_ + "data/" + item(t, id, 2, Kind::text).text);
    if (!entry) wrong(t, "refers to a storage that the file does not have");
    const std::int64_t offset = item(t, v, 1, Kind::integer).integer;
    const std::uint64_t element = stored_type_bytes(t.type), room = entry->bytes / element;
    const auto negative = [](std::int64_t n) { return n < 0; };
    if (!stored_bytes(t.type, t.shape) || offset < 0 || static_cast<std::uint64_t>(offset) > room ||
        std::ranges::any_of(view.strides, negative) ||
        !view.extent(room - static_cast<std::uint64_t>(offset)))
      wrong(t, fmt::format("with shape {} and strides {} at {} does not fit its storage of {} bytes",
                           shape_text(t.shape), shape_text(view.strides), offset, entry->bytes));
    t.offset = zip_contents(file_, *entry) + static_cast<std::uint64_t>(offset) * element;
    const std::size_t more = v.form == TensorForm::typed ? 7 : 6;
    for (const std::string_view flag : {"neg", "conj"})
      if (const PickleValue* set =
              more < v.items.size() ? pickle_.find(pickle_[v.items[more]], flag) : nullptr;
          set && set->kind == Kind::boolean && set->integer != 0)
        t.unread = "negated or conjugated";
    if (view.is_contiguous()) return;
    if (!view.is_affordable(room)) t.unread = "a view with many more elements than its storage";
    t.strides = std::move(view.strides);
  }

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
