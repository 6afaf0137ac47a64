#include "plumb/interop/pickle.h"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <utility>

#include "plumb/base/error.h"
#include "plumb/interop/torch_names.h"

namespace plumb {
namespace {

using Kind = PickleValue::Kind;

// Two million instructions are eighty thousand tensors; the values that they can make take about 300 MB.
constexpr std::size_t max_steps = 2'000'000;
constexpr std::uint16_t max_depth = 1000;
constexpr std::size_t max_arguments = 16;

enum Opcode : unsigned char {
  mark = '(',
  stop = '.',
  pop = '0',
  pop_mark = '1',
  dup = '2',
  bin_float = 'G',
  bin_int = 'J',
  bin_int1 = 'K',
  bin_int2 = 'M',
  none = 'N',
  bin_persid = 'Q',
  reduce = 'R',
  bin_string = 'T',
  short_bin_string = 'U',
  bin_unicode = 'X',
  append = 'a',
  build = 'b',
  global = 'c',
  empty_dict = '}',
  appends = 'e',
  bin_get = 'h',
  long_bin_get = 'j',
  empty_list = ']',
  bin_put = 'q',
  long_bin_put = 'r',
  set_item = 's',
  tuple = 't',
  empty_tuple = ')',
  set_items = 'u',
  list = 'l',
  dict = 'd',
  proto = 0x80,
  tuple1 = 0x85,
  tuple2,
  tuple3,
  new_true,
  new_false,
  long1,
  long4,
  bin_bytes = 'B',
  short_bin_bytes = 'C',
  short_bin_unicode = 0x8c,
  bin_unicode8,
  bin_bytes8,
  stack_global = 0x93,
  memoize,
  frame
};

class Machine {
 public:
  Machine(std::string_view bytes, std::string_view name) : bytes_(bytes) { p_.name = name; }

  Pickle run() {
    for (std::size_t steps = 0;; ++steps) {
      if (steps == max_steps)
        bad_input(
            "{} has more than {} instructions, which is the most that is read here; check that it is the "
            "right file",
            p_.name, max_steps);
      const auto op = static_cast<unsigned char>(take(1)[0]);
      if (op == stop) break;
      step(op);
    }
    p_.root = pop_value();
    return std::move(p_);
  }

 private:
  [[noreturn]] void damaged(std::string_view why) const {
    bad_input("{} is damaged at byte {}: {}; get it again", p_.name, at_, why);
  }

  // -- bytes
  std::string_view take(std::uint64_t n) {
    if (n > bytes_.size() - at_)
      damaged(fmt::format("{} bytes should follow, but there are {}", n, bytes_.size() - at_));
    const std::string_view piece = bytes_.substr(at_, n);
    at_ += n;
    return piece;
  }
  std::uint64_t number(std::size_t n_bytes) {
    std::uint64_t v = 0;
    const std::string_view b = take(n_bytes);
    for (std::size_t i = 0; i < n_bytes; ++i) v |= std::uint64_t{static_cast<unsigned char>(b[i])} << (8 * i);
    return v;
  }
  std::string_view line() {
    const auto end = bytes_.find('\n', at_);
    if (end == std::string_view::npos || end - at_ > 256) damaged("a name does not end");
    const std::string_view text = take(end - at_);
    take(1);
    return text;
  }

  // -- values
  std::uint32_t add(PickleValue v) {
    p_.values.push_back(std::move(v));
    return static_cast<std::uint32_t>(p_.values.size() - 1);
  }
  void push(std::uint32_t i) { stack_.push_back(i); }
  void push_new(Kind kind, std::string text = {}) {
    PickleValue v;
    v.kind = kind;
    v.text = std::move(text);
    push(add(std::move(v)));
  }
  void push_int(std::int64_t i, Kind kind = Kind::integer) {
    PickleValue v;
    v.kind = kind;
    v.integer = i;
    push(add(std::move(v)));
  }
  void push_items(Kind kind, std::vector<std::uint32_t> items) {
    PickleValue v;
    v.kind = kind;
    push(add(std::move(v)));
    fill(stack_.back(), items);
  }
  void fill(std::uint32_t container, const std::vector<std::uint32_t>& items) {
    PickleValue& c = p_.values[container];
    for (const std::uint32_t i : items) {
      const auto depth = static_cast<std::uint16_t>(p_.values[i].depth + 1);
      if (depth > max_depth)
        bad_input("{} is nested deeper than {} levels; check that it is the right file", p_.name, max_depth);
      c.depth = std::max(c.depth, depth);
      c.items.push_back(i);
    }
  }
  std::uint32_t top() const {
    if (stack_.size() <= floor()) damaged("a value is missing");
    return stack_.back();
  }
  std::uint32_t pop_value() {
    const std::uint32_t i = top();
    stack_.pop_back();
    return i;
  }
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  std::vector<std::uint32_t> pop_to_mark() {
    if (marks_.empty()) damaged("a mark is missing");
    std::vector<std::uint32_t> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()),
                                     stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  std::vector<std::uint32_t> pop_some(std::size_t n) {
    std::vector<std::uint32_t> items(n);
    for (std::size_t i = n; i-- > 0;) items[i] = pop_value();
    return items;
  }
  std::uint32_t top_of(Kind kind) const {
    const std::uint32_t i = top();
    if (p_.values[i].kind != kind) damaged("a container of another kind should be here");
    return i;
  }
  std::uint32_t memo(std::uint64_t key) const {
    const auto found = memo_.find(key);
    if (found == memo_.end()) damaged("it refers to a value that was not kept");
    return found->second;
  }

  void push_integer(std::string_view b) {
    if (b.size() > 8)
      bad_input(
          "{} has an integer of {} bytes; torch.save writes none of more than 8: check that it is the right "
          "file",
          p_.name, b.size());
    std::uint64_t v = !b.empty() && static_cast<unsigned char>(b.back()) >= 0x80 ? ~std::uint64_t{0} : 0;
    for (std::size_t i = b.size(); i-- > 0;) v = v << 8 | static_cast<unsigned char>(b[i]);
    push_int(static_cast<std::int64_t>(v));
  }
  void push_global(std::string_view module, std::string_view name) {
    if (!is_allowed_name(module, name))
      bad_input(
          "{} wants to run {}.{}, which is no part of a checkpoint's tensors: nothing was run; get the "
          "weights as "
          "safetensors, or save the state dict alone",
          p_.name, module.substr(0, 80), name.substr(0, 80));
    push_new(Kind::global, std::string(module) + "." + std::string(name));
  }

  // The call of a global, noted.
  void reduce_top() {
    const std::uint32_t arguments = pop_value(), callee = pop_value();
    if (p_.values[callee].kind != Kind::global || p_.values[arguments].kind != Kind::tuple)
      damaged("a call of no global");
    note_call(p_.values[callee].text, p_.values[arguments].items);
  }

  // `items` by value: what is noted makes the list of values grow.
  void note_call(const std::string& function, std::vector<std::uint32_t> items) {
    // A bound on what one instruction copies: a long tuple "called" over and over would be a bomb.
    if (items.size() > max_arguments) damaged(fmt::format("a call with {} arguments", items.size()));
    const TorchCallable* known = find_torch_callable(function);
    if (!known) damaged("a call of " + function);
    if (known->call == TorchCall::tensor_of_type && items.size() >= known->least) {
      // A plain tensor (or a parameter) with attributes of its own, as torch.nn.Buffer has.
      const PickleValue &inner = p_.values[items[0]], &type = p_.values[items[1]],
                        &arguments = p_.values[items[2]];
      const TorchCallable* tensor = inner.kind == Kind::global ? find_torch_callable(inner.text) : nullptr;
      if (!tensor || tensor->call != TorchCall::tensor || arguments.kind != Kind::tuple ||
          type.kind != Kind::global ||
          (type.text != "torch.Tensor" && type.text != "torch.nn.parameter.Parameter"))
        damaged("a tensor of a type that is not plain");
      known = tensor;
      items = std::vector(arguments.items);
      if (items.size() > max_arguments) damaged(fmt::format("a call with {} arguments", items.size()));
    }
    if (items.size() < known->least)
      damaged(fmt::format("a call of {} with {} arguments", known->name, items.size()));
    if (known->call == TorchCall::dict) {
      if (!items.empty()) damaged("an OrderedDict with arguments");
      push_items(Kind::dict, {});
    } else if (known->call == TorchCall::first) {
      push(items[0]);
    } else {
      push_items(Kind::tensor, items);
      p_.values[stack_.back()].form = known->form;
    }
  }

  void step(unsigned char op);
  void step_of_containers(unsigned char op);

  std::string_view bytes_;
  std::size_t at_ = 0;
  Pickle p_;
  std::vector<std::uint32_t> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, std::uint32_t> memo_;
};

void Machine::step(unsigned char op) {
  switch (op) {
    case proto: {
      const std::uint64_t version = number(1);
      if (version < 2 || version > 5) damaged(fmt::format("protocol {} is none of 2 to 5", version));
      return;
    }
    case frame:
      take(8);
      return;
    case none:
      return push_new(Kind::none);
    case new_true:
      return push_int(1, Kind::boolean);
    case new_false:
      return push_int(0, Kind::boolean);
    case bin_int:
      return push_int(static_cast<std::int32_t>(number(4)));
    case bin_int1:
      return push_int(static_cast<std::int64_t>(number(1)));
    case bin_int2:
      return push_int(static_cast<std::int64_t>(number(2)));
    case long1:
      return push_integer(take(number(1)));
    case long4:
      return push_integer(take(number(4)));
    case bin_float: {
      std::uint64_t bits = 0;  // big endian, unlike everything else
      for (const char c : take(8)) bits = bits << 8 | static_cast<unsigned char>(c);
      PickleValue v;
      v.kind = Kind::real;
      v.real = std::bit_cast<double>(bits);
      return push(add(std::move(v)));
    }
    case short_bin_unicode:
    case short_bin_string:
    case short_bin_bytes:
      return push_new(Kind::text, std::string(take(number(1))));
    case bin_unicode:
    case bin_string:
    case bin_bytes:
      return push_new(Kind::text, std::string(take(number(4))));
    case bin_unicode8:
    case bin_bytes8:
      return push_new(Kind::text, std::string(take(number(8))));
    case global: {
      const std::string_view module = line(), name = line();
      return push_global(module, name);
    }
    case stack_global: {
      const std::uint32_t name = pop_value(), module = pop_value();
      return push_global(std::string(p_.values[module].text), std::string(p_.values[name].text));
    }
    case bin_persid:
      return push_items(Kind::persistent, {pop_value()});
    case reduce:
      return reduce_top();
    case build: {
      // The only state in a checkpoint is what a state dict keeps beside its tensors (the version of each
      // module).
      pop_value();
      top_of(Kind::dict);
      return;
    }
    case bin_put:
      memo_[number(1)] = top();
      return;
    case long_bin_put:
      memo_[number(4)] = top();
      return;
    case memoize:
      memo_[memo_.size()] = top();
      return;
    case bin_get:
      return push(memo(number(1)));
    case long_bin_get:
      return push(memo(number(4)));
    default:
      return step_of_containers(op);
  }
}

void Machine::step_of_containers(unsigned char op) {
  switch (op) {
    case mark:
      marks_.push_back(stack_.size());
      return;
    case pop:
      pop_value();
      return;
    case pop_mark:
      pop_to_mark();
      return;
    case dup:
      return push(top());
    case empty_list:
      return push_items(Kind::list, {});
    case empty_tuple:
      return push_items(Kind::tuple, {});
    case empty_dict:
      return push_items(Kind::dict, {});
    case tuple1:
      return push_items(Kind::tuple, pop_some(1));
    case tuple2:
      return push_items(Kind::tuple, pop_some(2));
    case tuple3:
      return push_items(Kind::tuple, pop_some(3));
    case tuple:
      return push_items(Kind::tuple, pop_to_mark());
    case list:
      return push_items(Kind::list, pop_to_mark());
    case append: {
      const std::uint32_t item = pop_value();
      return fill(top_of(Kind::list), {item});
    }
    case appends: {
      const std::vector<std::uint32_t> items = pop_to_mark();
      return fill(top_of(Kind::list), items);
    }
    case set_item: {
      const std::vector<std::uint32_t> pair = pop_some(2);
      return fill(top_of(Kind::dict), pair);
    }
    case set_items:
    case dict: {
      const std::vector<std::uint32_t> pairs = pop_to_mark();
      if (pairs.size() % 2 != 0) damaged("a key without a value");
      if (op == dict) return push_items(Kind::dict, pairs);
      return fill(top_of(Kind::dict), pairs);
    }
    default:
      bad_input(
          "{} uses the pickle opcode 0x{:02x} at byte {}, which torch.save does not write: nothing was run; "
          "save the state dict alone",
          p_.name, op, at_ - 1);
  }
}

}  // namespace

const PickleValue* Pickle::find(const PickleValue& dict, std::string_view key) const {
  if (dict.kind != Kind::dict) return nullptr;
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue& k = values[dict.items[i]];
    if (k.kind == Kind::text && k.text == key) return &values[dict.items[i + 1]];
  }
  return nullptr;
}

Pickle parse_pickle(std::string_view bytes, std::string_view name) { return Machine(bytes, name).run(); }

}  // namespace plumb
