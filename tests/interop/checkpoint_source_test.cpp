#include "plumb/interop/checkpoint_source.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
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

// Element (i, j, k) of a view of the numbers 0, 1, 2 … is i, j and k times the strides.
TEST(StridedView, IsReadByItsStrides) {
  const test::TempDir dir;
  std::string data = "***";
  for (int i = 0; i < 5000; ++i) data += little_endian(static_cast<std::uint64_t>(i), 2);
  write_file_atomic(dir / "x", data);
  const FileReader file(dir / "x");
  for (const StridedView& v :
       {StridedView{{7, 9}, {9, 1}}, StridedView{{7, 9}, {1, 7}}, StridedView{{7, 9}, {0, 0}},
        StridedView{{7, 9}, {20, 2}}, StridedView{{7}, {600}}, StridedView{{3, 4, 5}, {20, 5, 1}},
        StridedView{{3, 4, 5}, {1, 1, 3}}, StridedView{{3, 1, 5}, {5, 999, 1}}, StridedView{{1, 1}, {4, 4}},
        StridedView{{2, 3, 4}, {12, 4, 0}}, StridedView{{}, {}}}) {
    std::vector<std::uint64_t> expected{0};
    for (std::size_t d = 0; d < v.sizes.size(); ++d) {
      std::vector<std::uint64_t> next;
      for (const std::uint64_t at : expected)
        for (std::int64_t i = 0; i < v.sizes[d]; ++i)
          next.push_back(at + static_cast<std::uint64_t>(i * v.strides[d]));
      expected = next;
    }
    const std::string name = shape_text(v.sizes) + shape_text(v.strides);
    EXPECT_EQ(v.elements(), expected.size()) << name;
    EXPECT_EQ(v.extent(5000), *std::ranges::max_element(expected) + 1) << name;
    std::vector<std::uint64_t> ascending(expected.size());
    for (std::size_t i = 0; i < ascending.size(); ++i) ascending[i] = i;
    EXPECT_EQ(v.is_contiguous(), expected == ascending) << name;
    std::vector<std::byte> window;
    for (std::size_t first = 0; first < expected.size(); ++first)
      for (const std::size_t n :
           {std::size_t{1}, (expected.size() - first + 1) / 2, expected.size() - first}) {
        std::vector<std::uint16_t> out(n);
        read_view(file, 3, v, 2, first, std::as_writable_bytes(std::span(out)), window);
        for (std::size_t i = 0; i < n; ++i)
          ASSERT_EQ(out[i], expected[first + i]) << name << " " << first << "+" << i;
      }
  }
}

TEST(StridedView, SaysHowFarItReaches) {
  const std::int64_t most = INT64_MAX;
  EXPECT_EQ((StridedView{{2, 2}, {2, 1}}.extent(4)), 4U);
  EXPECT_EQ((StridedView{{2, 2}, {2, 1}}.extent(3)), std::nullopt);
  EXPECT_EQ((StridedView{{2, 2}, {most, most}}.extent(UINT64_MAX)), UINT64_MAX);
  EXPECT_EQ((StridedView{{3, 2}, {most, most}}.extent(UINT64_MAX)), std::nullopt);
  EXPECT_EQ((StridedView{{most, most}, {0, 0}}.extent(1)), 1U);
  EXPECT_EQ((StridedView{{1}, {1}}.extent(0)), std::nullopt);
  EXPECT_EQ((StridedView{{0, most}, {most, 1}}.extent(0)), 0U);
  EXPECT_EQ((StridedView{{most, 2}, {0, 0}}.elements()), std::nullopt);
  EXPECT_EQ((StridedView{{most, most, 0}, {0, 0, 0}}.elements()), std::nullopt);
  EXPECT_EQ((StridedView{{0, most, most}, {0, 0, 0}}.elements()), 0U);
  EXPECT_TRUE((StridedView{{4096, 4096}, {0, 0}}.is_affordable(1)));
  EXPECT_FALSE((StridedView{{4096, 4097}, {0, 0}}.is_affordable(1)));
  EXPECT_TRUE(
      (StridedView{{100'000, 50'000}, {1, 100'000}}.is_affordable(5'000'000'000)));  // a transposed matrix
  EXPECT_FALSE(
      (StridedView{{100'000, 50'000}, {1, 1}}.is_affordable(150'000)));  // a row that is read over and over
  EXPECT_FALSE((StridedView{{most, 1}, {0, 1}}.is_affordable(1)));
}

}  // namespace
}  // namespace plumb
