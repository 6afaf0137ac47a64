#include "plumb/base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "plumb/base/error.h"
#include "plumb/base/text.h"

namespace plumb {
namespace {

constexpr std::string_view nan_text = "NaN", infinity_text = "Infinity", minus_infinity_text = "-Infinity";

[[noreturn]] void wrong_kind(std::string_view what, std::string_view wanted, const Json& is) {
  bad_input("{} must be {}, but is {}; correct it there", what, wanted, is.kind());
}

void write_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const auto bad = bad_utf8_offset(text);
    for (const char c : text.substr(0, bad.value_or(text.size()))) {
      switch (c) {
        case '"':
          out += "\\\"";
          break;
        case '\\':
          out += "\\\\";
          break;
        case '\n':
          out += "\\n";
          break;
        case '\r':
          out += "\\r";
          break;
        case '\t':
          out += "\\t";
          break;
        default:
          if (static_cast<unsigned char>(c) < 0x20) {
            out += fmt::format("\\u{:04x}", c);
          } else {
            out += c;
          }
      }
    }
    if (!bad) break;
    out += "\xef\xbf\xbd";
    text.remove_prefix(*bad + 1);
  }
  out += '"';
}

void write_double(std::string& out, double d) {
  if (std::isnan(d)) {
    write_string(out, nan_text);
  } else if (std::isinf(d)) {
    write_string(out, d > 0 ? infinity_text : minus_infinity_text);
  } else {
    std::string digits = fmt::format("{}", d);
    // Without these a reader would take 1 for an integer.
    if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
    out += digits;
  }
}

struct Writer {
  std::string& out;
  int indent;

  void line(int depth) const {
    if (indent < 0) return;
    out += '\n';
    out.append(static_cast<std::size_t>(indent * depth), ' ');
  }
  void write(const Json& json, int depth) const {
    if (json.is_null()) {
      out += "null";
    } else if (json.is_bool()) {
      out += json.as_bool("") ? "true" : "false";
    } else if (json.is_int()) {
      out += fmt::format("{}", json.as_int(""));
    } else if (json.is_number()) {
      write_double(out, json.as_double(""));
    } else if (json.is_string()) {
      write_string(out, json.as_string(""));
    } else if (json.is_array()) {
      write_items(json.as_array(""), '[', ']', depth, [&](const Json& item) { write(item, depth + 1); });
    } else {
      write_items(json.as_object(""), '{', '}', depth, [&](const Json::Member& member) {
        write_string(out, member.first);
        out += indent < 0 ? ":" : ": ";
        write(member.second, depth + 1);
      });
    }
  }
  template <class Items, class One>
  void write_items(const Items& items, char open, char close, int depth, One one) const {
    out += open;
    bool first = true;
    for (const auto& item : items) {
      if (!first) out += ',';
      first = false;
      line(depth + 1);
      one(item);
    }
    if (!first) line(depth);
    out += close;
  }
};

// Builds our value from nlohmann's events, which come without recursion: deep input cannot exhaust the stack.
class Reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  Reader(std::string_view name, std::size_t max_depth, std::size_t max_values)
      : name_(name), max_depth_(max_depth), max_values_(max_values) {}

  Json result() { return std::move(root_); }

  bool null() override { return add(Json()); }
  bool boolean(bool b) override { return add(Json(b)); }
  bool number_integer(number_integer_t i) override { return add(Json(i)); }
  bool number_unsigned(number_unsigned_t u) override {
    if (u > static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max()))
      return add(Json(static_cast<double>(u)));
    return add(Json(static_cast<std::int64_t>(u)));
  }
  bool number_float(number_float_t d, const string_t&) override { return add(Json(d)); }
  bool string(string_t& s) override { return add(Json(std::move(s))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override {
    std::vector<std::string_view> keys;
    for (const auto& [key, value] : open_.back().as_object("")) keys.push_back(key);
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end())
      bad_input("{} has the key \"{}\" twice in one object; leave one of them out", name_, *twice);
    return shut();
  }
  bool end_array() override { return shut(); }
  bool key(string_t& s) override {
    keys_.back() = std::move(s);
    return true;
  }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception&) override {
    // The position counts from 1 and is where the token was found wrong, after its last byte.
    const std::size_t offset = position == 0 ? 0 : position - 1;
    std::string near;
    write_string(near, std::string_view(token).substr(0, 40));
    bad_input("{} is not JSON: byte {} (near {}) does not fit; correct the text there", name_, offset, near);
  }

 private:
  bool open(Json container) {
    if (open_.size() >= max_depth_)
      bad_input("{} is nested deeper than {} levels; flatten the JSON", name_, max_depth_);
    open_.push_back(std::move(container));
    keys_.emplace_back();
    return true;
  }
  bool shut() {
    Json done = std::move(open_.back());
    open_.pop_back();
    keys_.pop_back();
    return add(std::move(done));
  }
  bool add(Json value) {
    if (++values_ > max_values_)
      bad_input("{} has more than {} values, which is the most that is read here; check that it is the right file",
                name_, max_values_);
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().is_array()) {
      open_.back().push_back(std::move(value));
    } else {
      open_.back().add_member(std::move(keys_.back()), std::move(value));
    }
    return true;
  }

  std::string_view name_;
  std::size_t max_depth_, max_values_, values_ = 0;
  Json root_;
  std::vector<Json> open_;         // containers not finished yet, outermost first
  std::vector<std::string> keys_;  // the last key of each
};

}  // namespace

Json::Json(float f) {
  double d = f;
  if (std::isfinite(f)) {
    const std::string digits = fmt::format("{}", f);
    std::from_chars(digits.data(), digits.data() + digits.size(), d);
  }
  v_ = d;
}

std::string_view Json::kind() const {
  static constexpr std::string_view names[] = {"null",     "a boolean", "an integer", "a number",
                                               "a string", "an array",  "an object"};
  return names[v_.index()];
}

bool Json::as_bool(std::string_view what) const {
  if (const auto* b = std::get_if<bool>(&v_)) return *b;
  wrong_kind(what, "true or false", *this);
}

std::int64_t Json::as_int(std::string_view what) const {
  if (const auto* i = std::get_if<std::int64_t>(&v_)) return *i;
  wrong_kind(what, "an integer", *this);
}

double Json::as_double(std::string_view what) const {
  if (const auto* d = std::get_if<double>(&v_)) return *d;
  if (const auto* i = std::get_if<std::int64_t>(&v_)) return static_cast<double>(*i);
  if (const auto* s = std::get_if<std::string>(&v_)) {
    if (*s == nan_text) return std::numeric_limits<double>::quiet_NaN();
    if (*s == infinity_text) return std::numeric_limits<double>::infinity();
    if (*s == minus_infinity_text) return -std::numeric_limits<double>::infinity();
  }
  wrong_kind(what, "a number", *this);
}

const std::string& Json::as_string(std::string_view what) const {
  if (const auto* s = std::get_if<std::string>(&v_)) return *s;
  wrong_kind(what, "a string", *this);
}

const Json::Array& Json::as_array(std::string_view what) const {
  if (const auto* a = std::get_if<Array>(&v_)) return *a;
  wrong_kind(what, "an array", *this);
}

const Json::Object& Json::as_object(std::string_view what) const {
  if (const auto* o = std::get_if<Object>(&v_)) return *o;
  wrong_kind(what, "an object", *this);
}

const Json* Json::find(std::string_view key) const {
  const auto* members = std::get_if<Object>(&v_);
  if (members == nullptr) return nullptr;
  const auto found =
      std::find_if(members->begin(), members->end(), [&](const Member& m) { return m.first == key; });
  return found == members->end() ? nullptr : &found->second;
}

const Json& Json::at(std::string_view key, std::string_view what) const {
  as_object(what);
  if (const Json* found = find(key)) return *found;
  bad_input("{} has no key \"{}\"; add it there", what, key);
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) v_ = Object{};
  if (Json* found = const_cast<Json*>(find(key))) return *found;
  if (!is_object()) wrong_kind("a JSON value with keys", "an object", *this);
  return add_member(std::string(key), Json());
}

Json& Json::add_member(std::string key, Json value) {
  auto& members = std::get<Object>(v_);
  members.emplace_back(std::move(key), std::move(value));
  return members.back().second;
}

void Json::push_back(Json item) {
  if (is_null()) v_ = Array{};
  if (!is_array()) wrong_kind("a JSON value with items", "an array", *this);
  std::get<Array>(v_).push_back(std::move(item));
}

std::size_t Json::size() const {
  if (const auto* a = std::get_if<Array>(&v_)) return a->size();
  if (const auto* o = std::get_if<Object>(&v_)) return o->size();
  return 0;
}

std::string Json::dump(int indent) const {
  std::string out;
  Writer{out, indent}.write(*this, 0);
  return out;
}

Json Json::parse(std::string_view text, std::string_view name, std::size_t max_depth,
                 std::size_t max_values) {
  Reader reader(name, max_depth, max_values);
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  return reader.result();
}

}  // namespace plumb
