// How a component introduces itself. Tables of entries are generated from file names, and are values: a
// program outside the tree appends its own to its own copy.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/base/error.h"
#include "plumb/base/text.h"
#include "plumb/spec/spec.h"

namespace plumb {

struct Entry {
  std::string_view name;
  std::string_view purpose = {};  // what it is for, in a sentence
  std::string_view formula, paper, pitfalls;
  std::string_view fields =
      {};  // config keys of its own, not the model's sizes: "model.norm_eps, model.norm_affine"
  /// Why it cannot be part of this model, in one sentence; empty: it can.
  std::string (*refuses)(const DecoderSpec&) = nullptr;
};

/// An entry of the family whose interface is Base<R>.
template <template <class> class Base>
struct FamilyEntry : Entry {
  std::unique_ptr<Base<float>> (*make_f32)(const DecoderSpec&);
  std::unique_ptr<Base<double>> (*make_f64)(const DecoderSpec&);

  template <class R>
  std::unique_ptr<Base<R>> make(const DecoderSpec& s) const {
    if constexpr (std::is_same_v<R, float>)
      return make_f32(s);
    else
      return make_f64(s);
  }
};

/// The entry of component T<R>, which is constructed from the spec.
template <template <class> class Base, template <class> class T>
constexpr FamilyEntry<Base> make_entry(const Entry& e) {
  return {
      e, [](const DecoderSpec& s) -> std::unique_ptr<Base<float>> { return std::make_unique<T<float>>(s); },
      [](const DecoderSpec& s) -> std::unique_ptr<Base<double>> { return std::make_unique<T<double>>(s); }};
}

/// The entry called `name`, after it agreed to the spec; otherwise one sentence that names the nearest known.
template <class E>
const E& choose(const std::vector<E>& table, std::string_view family, std::string_view name,
                const DecoderSpec& spec) {
  for (const E& e : table) {
    if (e.name != name) continue;
    const std::string why = e.refuses ? e.refuses(spec) : std::string();
    if (!why.empty()) bad_input("{} = '{}': {}", family, name, why);
    return e;
  }
  std::vector<std::string> known;
  for (const E& e : table) known.emplace_back(e.name);
  bad_input("{}", unknown_name(family, name, known));
}

}  // namespace plumb
