#include "plumb/data/tokenizer.h"

#include <algorithm>
#include <limits>

#include "plumb/base/error.h"
#include "plumb/base/text.h"

namespace plumb {
namespace {

constexpr char32_t replacement = 0xfffd;

}  // namespace

CharTokenizer::CharTokenizer(std::u32string_view text, std::int64_t vocab_size) {
  if (vocab_size < 2 || vocab_size > std::numeric_limits<std::int32_t>::max())
    bad_input("a character tokenizer cannot have {} tokens; set data.vocab_size to 2 or more", vocab_size);
  if (text.empty()) bad_input("a character tokenizer cannot be made from an empty text; check data.corpus");

  std::unordered_map<char32_t, std::int64_t> counts;
  for (const char32_t c : text) ++counts[c];
  std::vector<std::pair<char32_t, std::int64_t>> order(counts.begin(), counts.end());
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  order.resize(std::min(order.size(), static_cast<std::size_t>(vocab_size - 1)));
  for (const auto& [c, count] : order) characters_ += c;
  index();
}

void CharTokenizer::index() {
  ids_.reserve(characters_.size());
  for (std::size_t i = 0; i < characters_.size(); ++i)
    ids_.emplace(characters_[i], static_cast<std::int32_t>(i + 1));
}

std::vector<std::int32_t> CharTokenizer::encode(std::u32string_view text) const {
  std::vector<std::int32_t> ids;
  ids.reserve(text.size());
  for (const char32_t c : text) {
    const auto found = ids_.find(c);
    ids.push_back(found == ids_.end() ? unknown_id : found->second);
  }
  return ids;
}

std::vector<std::int32_t> CharTokenizer::encode(std::string_view utf8, std::string_view name) const {
  return encode(utf8_decode(utf8, name));
}

std::string CharTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::u32string text;
  text.reserve(ids.size());
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocab_size())
      bad_input("token {} is outside of the vocabulary 0 … {}; check that text and tokenizer belong together",
                id, vocab_size() - 1);
    text += id == unknown_id ? replacement : characters_[static_cast<std::size_t>(id) - 1];
  }
  return utf8_encode(text);
}

double CharTokenizer::coverage(std::u32string_view text) const {
  if (text.empty()) return 1;
  const auto known = std::count_if(text.begin(), text.end(), [&](char32_t c) { return ids_.contains(c); });
  return static_cast<double>(known) / static_cast<double>(text.size());
}

Json CharTokenizer::to_json() const {
  Json json = Json::object();
  json.add_member("kind", "char");
  json.add_member("characters", utf8_encode(characters_));
  return json;
}

CharTokenizer CharTokenizer::from_json(const Json& json, std::string_view name) {
  const std::string& kind = json.at("kind", name).as_string(fmt::format("{}: kind", name));
  if (kind != "char")
    bad_input(
        "{} has a tokenizer of kind \"{}\", but \"char\" is read here; use the matching version of plumb",
        name, kind);
  CharTokenizer tokenizer;
  const std::string what = fmt::format("{}: characters", name);
  tokenizer.characters_ = utf8_decode(json.at("characters", name).as_string(what), what);
  tokenizer.index();
  if (tokenizer.characters_.empty() || tokenizer.ids_.size() != tokenizer.characters_.size())
    bad_input("{} must have one or more characters, each once; get the file again", what);
  return tokenizer;
}

}  // namespace plumb
