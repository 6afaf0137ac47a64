// A small JSON value whose objects keep their order and whose numbers survive: integers stay integers,
// doubles are written shortest-round-trip, and NaN and the infinities are written as strings instead of the
// null that would erase them.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace plumb {

class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;

  Json() = default;  // null
  Json(std::nullptr_t) {}
  Json(std::same_as<bool> auto b) : v_(b) {}
  template <std::integral I>
  requires(!std::same_as<I, bool>) Json(I i) : v_(static_cast<std::int64_t>(i)) {}
  Json(double d) : v_(d) {}
  /// The double that prints as `f` does at its shortest: 0.1f is written 0.1, and reading it back as a float
  /// gives `f`.
  Json(float f);
  Json(std::string s) : v_(std::move(s)) {}
  Json(std::string_view s) : v_(std::string(s)) {}
  Json(const char* s) : v_(std::string(s)) {}
  Json(Array a) : v_(std::move(a)) {}
  Json(Object o) : v_(std::move(o)) {}
  template <class T>
  requires std::constructible_from<Json, T> Json(const std::vector<T>& items)
      : v_(Array(items.begin(), items.end())) {}

  static Json array() { return Json(Array{}); }
  static Json object() { return Json(Object{}); }

  bool is_null() const { return v_.index() == 0; }
  bool is_bool() const { return v_.index() == 1; }
  bool is_int() const { return v_.index() == 2; }
  bool is_number() const { return v_.index() == 2 || v_.index() == 3; }
  bool is_string() const { return v_.index() == 4; }
  bool is_array() const { return v_.index() == 5; }
  bool is_object() const { return v_.index() == 6; }
  /// "null", "a boolean", "an integer", "a number", "a string", "an array" or "an object".
  std::string_view kind() const;

  /// The value, or bad_input("{what} must be an integer, but is a string; correct it there"). `what` names
  /// the place for the reader.
  bool as_bool(std::string_view what) const;
  std::int64_t as_int(std::string_view what) const;
  /// Also takes integers and the strings "NaN", "Infinity" and "-Infinity".
  double as_double(std::string_view what) const;
  const std::string& as_string(std::string_view what) const;
  const Array& as_array(std::string_view what) const;
  const Object& as_object(std::string_view what) const;

  /// The member called `key`, or nullptr (also when this is no object). Linear in the number of members.
  const Json* find(std::string_view key) const;
  /// The member called `key`, or bad_input naming `what` and the key.
  const Json& at(std::string_view key, std::string_view what) const;
  /// The member called `key`, added as null when missing; null turns into an object, anything else is
  /// bad_input.
  Json& operator[](std::string_view key);
  /// Adds a member without looking for one of the same key; this must be an object. Returns the new value.
  Json& add_member(std::string key, Json value);
  /// Appends; null turns into an array, anything else is bad_input.
  void push_back(Json item);
  /// Number of items or members; 0 for anything else.
  std::size_t size() const;

  bool operator==(const Json&) const = default;

  /// One line when `indent` is negative, else that many spaces a level. A byte that is not UTF-8 is written
  /// as U+FFFD.
  std::string dump(int indent = -1) const;

  /// Reads one JSON text. `name` is what errors call it (a path). bad_input with the byte offset on a syntax
  /// error, bad UTF-8, a key that appears twice in one object, nesting deeper than `max_depth`, or more than
  /// `max_values` values (a value takes some forty bytes here and may take two in the text). Integers outside
  /// int64 become doubles.
  static Json parse(std::string_view text, std::string_view name, std::size_t max_depth = 64,
                    std::size_t max_values = SIZE_MAX);

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> v_;
};

}  // namespace plumb
