#include "plumb/interop/tensorboard.h"

#include <fmt/core.h>

#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <vector>

#include "plumb/base/error.h"
#include "plumb/trace/trace.h"

namespace plumb {
namespace {

// A record: length (8 bytes), masked CRC of the length, data, masked CRC of the data; all little-endian.
constexpr std::size_t header_bytes = 12, footer_bytes = 4;

template <class T>
T little(std::string_view bytes, std::size_t at) {
  static_assert(std::endian::native == std::endian::little);
  T v;
  std::memcpy(&v, bytes.data() + at, sizeof v);
  return v;
}

std::uint32_t masked_crc(std::string_view bytes) {
  const std::uint32_t c = crc32c(bytes);
  return ((c >> 15) | (c << 17)) + 0xa282ead8U;
}

/// The fields of a protocol-buffers message, one after the other.
class Fields {
 public:
  explicit Fields(std::string_view message) : rest_(message) {}
  std::uint32_t number = 0, wire = 0;
  std::uint64_t varint = 0;  // wire 0; 1 and 5: the bytes as they are
  std::string_view bytes;    // wire 2
  bool broken = false;

  /// The next field; false at the end, or where the message is broken.
  bool next() {
    std::uint64_t key = 0;
    if (rest_.empty() || !take_varint(key)) return false;
    number = static_cast<std::uint32_t>(key >> 3);
    wire = static_cast<std::uint32_t>(key & 7);
    if (wire == 0) return take_varint(varint);
    if (wire == 1 || wire == 5) return take_fixed(wire == 1 ? 8 : 4);
    std::uint64_t length = 0;
    if (wire != 2 || !take_varint(length) || length > rest_.size()) return fail();
    bytes = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return true;
  }
  double as_double() const { return std::bit_cast<double>(varint); }
  float as_float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(varint)); }

 private:
  bool fail() {
    broken = true;
    return false;
  }
  bool take_varint(std::uint64_t& v) {
    v = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      v |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return fail();
  }
  bool take_fixed(std::size_t n) {
    if (rest_.size() < n) return fail();
    varint = n == 8 ? little<std::uint64_t>(rest_, 0) : little<std::uint32_t>(rest_, 0);
    rest_.remove_prefix(n);
    return true;
  }
  std::string_view rest_;
};

constexpr std::uint64_t dt_float = 1, dt_double = 2;

// TensorProto: dtype 1, tensor_content 4, float_val 5, double_val 6 (packed or not). Its value when it is one
// float or double; false when the message is broken.
bool take_tensor(std::string_view tensor, std::optional<double>& value) {
  std::uint64_t dtype = 0;
  std::vector<double> values;
  std::string_view content;
  const auto take = [&]<class T>(std::string_view packed, T) {
    for (std::size_t at = 0; at + sizeof(T) <= packed.size(); at += sizeof(T))
      values.push_back(static_cast<double>(little<T>(packed, at)));
  };
  Fields f(tensor);
  while (f.next()) {
    if (f.number == 1 && f.wire == 0) dtype = f.varint;
    if (f.number == 4 && f.wire == 2) content = f.bytes;
    if (f.number == 5 && f.wire == 5) values.push_back(f.as_float());
    if (f.number == 5 && f.wire == 2) take(f.bytes, float{});
    if (f.number == 6 && f.wire == 1) values.push_back(f.as_double());
    if (f.number == 6 && f.wire == 2) take(f.bytes, double{});
  }
  if (dtype == dt_float) take(content, float{});
  if (dtype == dt_double) take(content, double{});
  if (values.size() == 1) value = values.front();
  return !f.broken;
}

// Summary.Value: tag 1, simple_value 2, tensor 8. False when the message is broken.
bool take_value(std::string_view message, std::int64_t step, ScalarLog& log) {
  std::string_view name;
  std::optional<double> value;
  Fields f(message);
  while (f.next()) {
    if (f.number == 1 && f.wire == 2) name = f.bytes;
    if (f.number == 2 && f.wire == 5) value = f.as_float();
    if (f.number == 8 && f.wire == 2 && !take_tensor(f.bytes, value)) return false;
  }
  if (value && !name.empty()) log.add(step, log.id(name), *value);
  return !f.broken;
}

// Event: step 2, summary 5. False when the message is broken.
bool take_event(std::string_view message, ScalarLog& log) {
  std::int64_t step = 0;
  std::vector<std::string_view> summaries;
  Fields f(message);
  while (f.next()) {
    if (f.number == 2 && f.wire == 0) step = static_cast<std::int64_t>(f.varint);
    if (f.number == 5 && f.wire == 2) summaries.push_back(f.bytes);
  }
  for (const std::string_view s : summaries) {
    Fields values(s);
    while (values.next())
      if (values.number == 1 && values.wire == 2 && !take_value(values.bytes, step, log)) return false;
    if (values.broken) return false;
  }
  return !f.broken;
}

}  // namespace

bool is_tensorboard(std::string_view bytes) {
  return bytes.size() >= header_bytes && little<std::uint32_t>(bytes, 8) == masked_crc(bytes.substr(0, 8));
}

void read_tensorboard(std::string_view bytes, std::string_view name, ScalarLog& log) {
  for (std::size_t at = 0; at < bytes.size();) {
    const auto damaged = [&](const char* what) {
      bad_input("{} is damaged: {} of the record at byte {}; get the file again", name, what, at);
    };
    const auto torn = [&] {
      log.warn(fmt::format("the last record of {} is cut off and was left out", name));
    };
    const std::size_t left = bytes.size() - at;
    if (left < header_bytes) return torn();
    if (little<std::uint32_t>(bytes, at + 8) != masked_crc(bytes.substr(at, 8)))
      damaged("the checksum of the length");
    const auto length = little<std::uint64_t>(bytes, at);
    if (length > left - header_bytes || left - header_bytes - length < footer_bytes) return torn();
    const std::string_view data = bytes.substr(at + header_bytes, length);
    if (little<std::uint32_t>(bytes, at + header_bytes + length) != masked_crc(data)) damaged("the checksum");
    if (!take_event(data, log)) damaged("the message");
    at += header_bytes + length + footer_bytes;
  }
}

}  // namespace plumb
