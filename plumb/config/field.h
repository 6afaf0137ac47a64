// One row of a struct's field table: its key, how to read and write it, what it may hold, and a line of help.
// Parsing, `--set`, dumping, JSON and the documentation are all loops over such rows: one list.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "plumb/base/json.h"

namespace plumb {

/// A field's value; monostate is an optional that is not set.
using FieldValue =
    std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::string>>;

enum class FieldType : std::uint8_t { boolean = 1, integer, real, text, list };  // the index in FieldValue

/// What a field may hold. The bounds count only for numbers, the choices only for text.
struct FieldCheck {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false;  // the bound itself is not allowed
  std::vector<std::string> choices = {};     // empty: any
};

inline FieldCheck any() { return {}; }
inline FieldCheck at_least(double low) { return {.low = low}; }
inline FieldCheck more_than(double low) { return {.low = low, .low_open = true}; }
// [low, high]
inline FieldCheck between(double low, double high) { return {.low = low, .high = high}; }
// (low, high)
inline FieldCheck inside(double low, double high) {
  return {.low = low, .high = high, .low_open = true, .high_open = true};
}
// [low, high)
inline FieldCheck half_open(double low, double high) { return {.low = low, .high = high, .high_open = true}; }
inline FieldCheck one_of(std::vector<std::string> choices) { return {.choices = std::move(choices)}; }

template <class Owner>
struct Field {
  std::string section;  // "model.attention"; empty at the top
  std::string key;      // "scale"
  FieldType type;
  bool optional;  // may be left unset: its value then follows from others, as `help` says
  FieldCheck check;
  std::string help;
  std::function<FieldValue(const Owner&)> get;
  // The value has the field's type (checked before), or is monostate.
  std::function<void(Owner&, FieldValue)> set;

  std::string path() const { return section.empty() ? key : section + "." + key; }
};

namespace detail {
template <class T>
struct FieldTraits {
  using Bare = T;
  static constexpr bool optional = false;
};
template <class T>
struct FieldTraits<std::optional<T>> {
  using Bare = T;
  static constexpr bool optional = true;
};
template <class Owner, class Get>
Field<Owner> make_field(std::string section, std::string key, FieldCheck check, std::string help,
                        Get member) {
  using T = std::remove_cvref_t<decltype(member(std::declval<Owner&>()))>;
  using Bare = typename FieldTraits<T>::Bare;
  constexpr auto type = static_cast<FieldType>(FieldValue(std::in_place_type<Bare>).index());
  return {std::move(section),
          std::move(key),
          type,
          FieldTraits<T>::optional,
          std::move(check),
          std::move(help),
          [member](const Owner& o) -> FieldValue {
            const T& v = member(o);
            if constexpr (FieldTraits<T>::optional) {
              if (!v) return {};
              return FieldValue(std::in_place_type<Bare>, *v);
            } else {
              return FieldValue(std::in_place_type<Bare>, v);
            }
          },
          [member](Owner& o, FieldValue v) {
            if constexpr (FieldTraits<T>::optional) {
              if (v.index() == 0) {
                member(o).reset();
                return;
              }
            }
            member(o) = std::get<Bare>(std::move(v));
          }};
}
}  // namespace detail

/// A row for a member of a section of Owner: field<&Config::train>("train", "lr", &Train::lr, …).
template <auto Section, class Owner, class S, class T>
Field<Owner> field_in(std::string section, std::string key, T S::*member, FieldCheck check,
                      std::string help) {
  return detail::make_field<Owner>(
      std::move(section), std::move(key), std::move(check),
      std::move(help), [member](auto& o) -> auto& { return o.*Section.*member; });
}

/// A row for a member of Owner itself.
template <class Owner, class T>
Field<Owner> field_of(std::string key, T Owner::*member, FieldCheck check, std::string help) {
  return detail::make_field<Owner>(
      "", std::move(key), std::move(check),
      std::move(help), [member](auto& o) -> auto& { return o.*member; });
}

/// "a whole number", "a number", "true or false", "a string", "a list of strings".
std::string_view field_type_name(FieldType type);

/// The value as TOML writes it: 3, 0.003, true, "gelu", ["a", "b"]; empty when unset.
std::string field_text(const FieldValue& value);

/// Why `value` is not allowed ("must be at least 1, but is 0"), or empty. The type is checked too; a whole
/// number is fine where a real one is expected, and a string where a list is (and is converted in `value`).
/// `value` is not monostate.
std::string field_refusal(FieldType type, const FieldCheck& check, FieldValue& value);

/// What is allowed, for documentation: "at least 1", "constant, cosine, linear"; empty when anything of the
/// type is.
std::string field_allowed(const FieldCheck& check);

/// A JSON value of a field's value (null when unset), and back: bad_input naming `what` when the type is
/// wrong.
Json field_to_json(const FieldValue& value);
FieldValue field_from_json(FieldType type, const Json& json, std::string_view what);

}  // namespace plumb
