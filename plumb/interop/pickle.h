// Reads the pickles that torch.save writes without running them. A pickle is a program for a small stack
// machine, and two of its instructions import and call whatever they name; here a name is looked up in a list
// of harmless ones, its "call" only notes the arguments, and every other name is refused.
// Opcodes of protocols 2 to 5, https://github.com/python/cpython/blob/3.11/Lib/pickletools.py.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/interop/torch_names.h"

namespace plumb {

/// One value. Values are numbered, and containers hold numbers: the same value may be in many places, and
/// nothing recurses over what a file nests.
struct PickleValue {
  enum class Kind : std::uint8_t {
    none,
    boolean,
    integer,
    real,
    text,
    list,
    tuple,
    dict,        // items: key, value, key, value …
    global,      // text: "torch.FloatStorage"
    persistent,  // items: the one value that identifies it
    tensor       // items: the arguments, by `form`
  };
  Kind kind = Kind::none;
  TensorForm form = TensorForm::plain;
  std::uint16_t depth = 0;  // of the containers in it
  union {
    std::int64_t integer = 0;
    double real;
  };
  std::string text;
  std::vector<std::uint32_t> items;
};

struct Pickle {
  std::string name;
  std::vector<PickleValue> values;
  std::uint32_t root = 0;

  const PickleValue& operator[](std::uint32_t i) const { return values[i]; }
  /// The value of `key` in a dict, or nullptr.
  const PickleValue* find(const PickleValue& dict, std::string_view key) const;
};

/// bad_input, in one sentence that calls the pickle `name`: a global that is not on the list (it is named;
/// nothing was called), an opcode that torch.save does not write, a pickle that is cut off, more than two
/// million instructions, containers nested deeper than a thousand levels, integers of more than 64 bits.
Pickle parse_pickle(std::string_view bytes, std::string_view name);

}  // namespace plumb
