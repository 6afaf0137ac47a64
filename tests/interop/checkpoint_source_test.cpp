#include "plumb/interop/checkpoint_source.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tests/support/temp_dir.h"

namespace plumb {
namespace {

std::string little_endian(std::uint64_t v, std::size_t n) {
  std::string bytes;
  for (std::size_t i = 0; i < n; ++i) bytes += static_cast<char>(v >> (8 * i) & 0xff);
  return bytes;
}

std::vector<float> read(std::string_view dtype, std::size_t element_bytes,
                        const std::vector<std::uint64_t>& values) {
  const test::TempDir dir;
  std::string data;
  for (const std::uint64_t v : values) data += little_endian(v, element_bytes);
  const std::string header = fmt::format(R"({{"w":{{"dtype":"{}","shape":[{}],"data_offsets":[0,{}]}}}})",
                                         dtype, values.size(), data.size());
  write_file_atomic(dir / "m.safetensors", little_endian(header.size(), 8) + header + data);
  const CheckpointSource source = open_checkpoint_source(dir / "m.safetensors");
  std::vector<float> floats(values.size() - 1);
  TensorReader(source).read(*source.find("w"), 1, floats);  // from the second on
  return floats;
}

// The values are those of IEEE 754's binary16 encoding: smallest subnormal 2^-24, largest 65504.
TEST(CheckpointSource, ReadsEveryTypeAsFloats) {
  const auto half =
      read("F16", 2, {0, 0x3c00, 0xc000, 0x0001, 0x03ff, 0x0400, 0x7bff, 0x8000, 0x7c00, 0xfc00, 0x7e00});
  const std::vector<float> expected{1,     -2,    0x1p-24F, 1023 * 0x1p-24F, 0x1p-14F,
                                    65504, -0.0F, INFINITY, -INFINITY};
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(std::bit_cast<std::uint32_t>(half[i]), std::bit_cast<std::uint32_t>(expected[i])) << i;
  EXPECT_TRUE(std::isnan(half.back()));
  EXPECT_EQ(read("BF16", 2, {0, 0x3f80, 0xc000}), (std::vector<float>{1, -2}));
  EXPECT_EQ(read("F64", 8, {0, 0x3ff0000000000000}), (std::vector<float>{1}));
  EXPECT_EQ(read("I64", 8, {0, ~std::uint64_t{0}}), (std::vector<float>{-1}));
  EXPECT_EQ(read("I16", 2, {0, 0xffff}), (std::vector<float>{-1}));
  EXPECT_EQ(read("U16", 2, {0, 0xffff}), (std::vector<float>{65535}));
  EXPECT_EQ(read("I8", 1, {0, 0xff}), (std::vector<float>{-1}));
  EXPECT_EQ(read("U8", 1, {0, 0xff}), (std::vector<float>{255}));
  EXPECT_EQ(read("BOOL", 1, {0, 1}), (std::vector<float>{1}));
}

}  // namespace
}  // namespace plumb
