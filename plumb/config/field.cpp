#include "plumb/config/field.h"

#include <algorithm>
#include <cmath>

#include "plumb/base/error.h"
#include "plumb/base/text.h"

namespace plumb {
namespace {

std::string number_text(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d > 0 ? "inf" : "-inf";
  std::string digits = fmt::format("{}", d);
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";  // TOML would read 1 as a whole number
  return digits;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

// A bound without the ".0" that a whole one would get.
std::string bound_text(double d) { return fmt::format("{}", d); }

// "at least 1 and below 2"; empty without bounds.
std::string bounds(const FieldCheck& check) {
  std::vector<std::string> parts;
  if (std::isfinite(check.low))
    parts.push_back((check.low_open ? "above " : "at least ") + bound_text(check.low));
  if (std::isfinite(check.high))
    parts.push_back((check.high_open ? "below " : "at most ") + bound_text(check.high));
  return join(parts, " and ");
}

bool in_bounds(const FieldCheck& check, double d) {
  const bool low = check.low_open ? d > check.low : d >= check.low;
  const bool high = check.high_open ? d < check.high : d <= check.high;
  return low && high;
}

}  // namespace

std::string_view field_type_name(FieldType type) {
  switch (type) {
    case FieldType::boolean:
      return "true or false";
    case FieldType::integer:
      return "a whole number";
    case FieldType::real:
      return "a number";
    case FieldType::text:
      return "a string";
    case FieldType::list:
      return "a list of strings";
  }
  return "";
}

std::string field_text(const FieldValue& value) {
  if (const auto* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
  if (const auto* i = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *i);
  if (const auto* d = std::get_if<double>(&value)) return number_text(*d);
  if (const auto* s = std::get_if<std::string>(&value)) return quoted(*s);
  if (const auto* all = std::get_if<std::vector<std::string>>(&value)) {
    std::vector<std::string> each;
    for (const std::string& s : *all) each.push_back(quoted(s));
    return "[" + join(each) + "]";
  }
  return "";
}

std::string field_refusal(FieldType type, const FieldCheck& check, FieldValue& value) {
  if (type == FieldType::real)
    if (const auto* i = std::get_if<std::int64_t>(&value)) value = static_cast<double>(*i);
  if (type == FieldType::text)  // true and false among names: bias = false | true | "qkv"
    if (const auto* b = std::get_if<bool>(&value);
        b && std::ranges::find(check.choices, *b ? "true" : "false") != check.choices.end())
      value = std::string(*b ? "true" : "false");
  if (type == FieldType::list)
    if (const auto* s = std::get_if<std::string>(&value)) value = std::vector<std::string>{*s};
  if (value.index() != static_cast<std::size_t>(type))
    return fmt::format("must be {}, but is {}", field_type_name(type), field_text(value));

  if (const auto* s = std::get_if<std::string>(&value)) {
    if (check.choices.empty() ||
        std::find(check.choices.begin(), check.choices.end(), *s) != check.choices.end())
      return "";
    const auto nearest = nearest_name(*s, check.choices);
    return fmt::format("must be one of {}, but is '{}'{}", join(check.choices), *s,
                       nearest ? fmt::format(" (did you mean '{}'?)", *nearest) : std::string());
  }
  const auto* d = std::get_if<double>(&value);
  const auto* i = std::get_if<std::int64_t>(&value);
  if (d != nullptr && !std::isfinite(*d)) return fmt::format("must be finite, but is {}", field_text(value));
  if ((d != nullptr && !in_bounds(check, *d)) || (i != nullptr && !in_bounds(check, static_cast<double>(*i))))
    return fmt::format("must be {}, but is {}", bounds(check), field_text(value));
  return "";
}

std::string field_allowed(const FieldCheck& check) {
  return check.choices.empty() ? bounds(check) : join(check.choices);
}

Json field_to_json(const FieldValue& value) {
  return std::visit(
      [](const auto& v) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(v)>, std::monostate>) {
          return Json();
        } else {
          return Json(v);
        }
      },
      value);
}

FieldValue field_from_json(FieldType type, const Json& json, std::string_view what) {
  switch (type) {
    case FieldType::boolean:
      return json.as_bool(what);
    case FieldType::integer:
      return json.as_int(what);
    case FieldType::real:
      return json.as_double(what);
    case FieldType::text:  // a setting that was true or false before it had a third value
      if (json.is_bool()) return std::string(json.as_bool(what) ? "true" : "false");
      return json.as_string(what);
    case FieldType::list: {
      std::vector<std::string> all;
      for (const Json& s : json.as_array(what)) all.push_back(s.as_string(what));
      return all;
    }
  }
  return {};
}

}  // namespace plumb
