#include "plumb/trace/trace.h"

#include <algorithm>

namespace plumb {
namespace {

// `polynomial`: bit-reversed.
constexpr std::array<std::uint32_t, 256> make_crc_table(std::uint32_t polynomial) {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c & 1U) != 0 ? polynomial ^ (c >> 1) : c >> 1;
    table[i] = c;
  }
  return table;
}

std::uint32_t crc(const std::array<std::uint32_t, 256>& table, std::string_view bytes) {
  std::uint32_t c = 0xffffffffU;
  for (const char byte : bytes) c = table[(c ^ static_cast<unsigned char>(byte)) & 0xffU] ^ (c >> 8);
  return ~c;
}

template <class Pairs>
auto* find_in(Pairs& pairs, std::string_view name) {
  const auto found = std::find_if(pairs.begin(), pairs.end(), [&](const auto& p) { return p.first == name; });
  return found == pairs.end() ? nullptr : &found->second;
}

}  // namespace

const double* StepRow::find(std::string_view name) const { return find_in(values, name); }
const std::vector<double>* StepRow::find_layers(std::string_view name) const { return find_in(layers, name); }

std::uint32_t crc32(std::string_view bytes) noexcept {
  static constexpr auto table = make_crc_table(0xedb88320U);
  return crc(table, bytes);
}

std::uint32_t crc32c(std::string_view bytes) noexcept {
  static constexpr auto table = make_crc_table(0x82f63b78U);
  return crc(table, bytes);
}

}  // namespace plumb
