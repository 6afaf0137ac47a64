// One token a character.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "plumb/base/json.h"

namespace plumb {

class CharTokenizer {
 public:
  static constexpr std::int32_t unknown_id = 0;

  /// The `vocab_size` - 1 most frequent code points of `text` (equals by code point) as ids 1, 2, …; id 0 is
  /// every other. The text may have fewer: vocab_size() then is smaller. bad_input when `vocab_size` < 2 or
  /// the text is empty.
  CharTokenizer(std::u32string_view text, std::int64_t vocab_size);

  /// Ids 0 … vocab_size() - 1.
  std::int64_t vocab_size() const { return static_cast<std::int64_t>(characters_.size()) + 1; }
  std::vector<std::int32_t> encode(std::u32string_view text) const;
  /// bad_input for bad UTF-8, naming "the prompt" or what `name` says.
  std::vector<std::int32_t> encode(std::string_view utf8, std::string_view name) const;
  /// UTF-8; id 0 is written U+FFFD. bad_input for an id outside the vocabulary.
  std::string decode(std::span<const std::int32_t> ids) const;
  /// The share of characters of `text` that have an id of their own, 0 … 1 (1 for an empty text).
  double coverage(std::u32string_view text) const;

  /// {"kind":"char","characters":"，。…"}
  Json to_json() const;
  static CharTokenizer from_json(const Json& json, std::string_view name);

 private:
  CharTokenizer() = default;
  void index();
  std::u32string characters_;  // characters_[i] has id i + 1
  std::unordered_map<char32_t, std::int32_t> ids_;
};

}  // namespace plumb
