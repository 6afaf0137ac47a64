#include "plumb/tensor/safetensors.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "plumb/base/files.h"
#include "plumb/base/sha256.h"
#include "tests/support/error_text.h"
#include "tests/support/temp_dir.h"

namespace plumb {
namespace {

using test::error_text;

// A file put together by hand from the format's description: length, header, data.
std::string file_of(const std::string& header, const std::string& data) {
  std::string bytes;
  for (std::size_t i = 0; i < 8; ++i) bytes += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return bytes + header + data;
}

const std::string two_floats("\0\0\x80\x3f\0\0\0\xc0", 8);  // 1.0f and -2.0f, IEEE 754 little endian

std::string refusal(const std::string& header, const std::string& data = two_floats) {
  return error_text([&] { parse_tensors(file_of(header, data), "x"); });
}

TEST(Safetensors, AreReadFromBytesWrittenByHand) {
  const TensorFile file = parse_tensors(
      file_of(R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}}   )",
              two_floats),
      "x");
  EXPECT_EQ(file.metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
  ASSERT_EQ(file.tensors.size(), 1U);
  const StoredTensor& w = file.at("w");
  EXPECT_EQ(w.shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(w.values<float>()[0], 1.0F);
  EXPECT_EQ(w.values<float>()[1], -2.0F);
}

TEST(Safetensors, AreWrittenAsTheFormatSays) {
  const test::TempDir dir;
  const std::vector<float> w{1.0F, -2.0F};
  const TensorView tensor = tensor_view<float>("w", {2}, w);
  save_tensors(dir / "x", std::span(&tensor, 1), {{"step", "3"}});
  std::string header = R"({"__metadata__":{"sha256":")" + sha256_hex(two_floats) +
                       R"(","step":"3"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(read_file(dir / "x"), file_of(header, two_floats));
}

TEST(Safetensors, ComeBackWithTheSameBytesWhateverTheOrderGiven) {
  const test::TempDir dir;
  const std::vector<std::int32_t> i{1, -2, 3};
  const std::vector<double> d{0.1, 0.2};
  const std::vector<std::int64_t> big{INT64_MIN};
  const std::vector<float> none;
  std::vector<TensorView> tensors{tensor_view<std::int32_t>("i", {3}, i), tensor_view<double>("d", {1, 2}, d),
                                  tensor_view<std::int64_t>("a.scalar", {}, big),
                                  tensor_view<float>("none", {0, 4}, none)};
  save_tensors(dir / "x", tensors);
  std::swap(tensors[0], tensors[3]);
  save_tensors(dir / "y", tensors);
  EXPECT_EQ(read_file(dir / "x"), read_file(dir / "y"));

  const TensorFile file = load_tensors(dir / "x");
  std::vector<std::string> names;
  for (const auto& t : file.tensors) names.push_back(t.name);
  EXPECT_EQ(names, (std::vector<std::string>{"a.scalar", "d", "i", "none"}));
  EXPECT_EQ(file.at("a.scalar").values<std::int64_t>()[0], INT64_MIN);
  EXPECT_EQ(file.at("d").values<double>()[1], 0.2);
  EXPECT_EQ(file.at("i").values<std::int32_t>()[1], -2);
  EXPECT_EQ(file.at("none").shape, (std::vector<std::int64_t>{0, 4}));
  EXPECT_TRUE(file.metadata.empty());
  EXPECT_EQ(error_text([&] { (void)file.at("i").values<float>(); }),
            "tensor 'i' is stored as I32, but F32 is needed here; convert it or take another file");
  EXPECT_EQ(error_text([&] { (void)file.at("nome"); }),
            (dir / "x").string() + " has no tensor 'nome'; did you mean 'none'?");
}

TEST(Safetensors, NoticeADamagedByte) {
  const test::TempDir dir;
  const std::vector<float> w{1.0F, -2.0F};
  const TensorView tensor = tensor_view<float>("w", {2}, w);
  save_tensors(dir / "x", std::span(&tensor, 1));
  std::string bytes = read_file(dir / "x");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  EXPECT_EQ(
      error_text([&] { parse_tensors(bytes, "x"); }),
      "the tensors of x do not have the SHA-256 that its metadata gives; the file is damaged, get it again");
  bytes.pop_back();
  EXPECT_EQ(error_text([&] { parse_tensors(bytes, "x"); }),
            "tensor 'w' in x lies at bytes 0 to 8 of 7; the file is cut off or damaged, get it again");
}

TEST(Safetensors, RefuseAWrongHeaderBeforeAllocating) {
  EXPECT_EQ(error_text([] { parse_tensors("abc", "x"); }),
            "x has 3 bytes, too few for a safetensors file; check that it is the right file");
  EXPECT_EQ(error_text([] { parse_tensors(std::string(8, '\xff') + "{}", "x"); }),
            "x claims a header of 18446744073709551615 bytes, but has 10; it is no safetensors file or is "
            "cut off, get it again");
  EXPECT_TRUE(refusal("{").starts_with("the header of x is not JSON: byte 1 ")) << refusal("{");
  EXPECT_EQ(refusal("[]"), "x must be an object, but is an array; correct it there");
}

TEST(Safetensors, RefuseShapesThatDoNotFit) {
  const auto entry = [](const std::string& shape, const std::string& offsets,
                        const std::string& dtype = "F32") {
    return R"({"w":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  EXPECT_EQ(
      refusal(entry("[3]", "[0,8]")),
      "tensor 'w' in x has 8 bytes, which do not fit shape [3] of F32; the file is damaged, get it again");
  EXPECT_EQ(refusal(entry("[-1,-2]", "[0,8]")),
            "tensor 'w' in x has 8 bytes, which do not fit shape [-1, -2] of F32; the file is damaged, get "
            "it again");
  EXPECT_EQ(refusal(entry("[4611686018427387904,4]", "[0,8]")),  // 2^62 * 4 * 4 bytes would wrap around to 0
            "tensor 'w' in x has 8 bytes, which do not fit shape [4611686018427387904, 4] of F32; the file "
            "is damaged, get it again");
  EXPECT_EQ(refusal(entry("[2]", "[0,800]")),
            "tensor 'w' in x lies at bytes 0 to 800 of 8; the file is cut off or damaged, get it again");
  EXPECT_EQ(refusal(entry("[2]", "[8,0]")),
            "tensor 'w' in x lies at bytes 8 to 0 of 8; the file is cut off or damaged, get it again");
  EXPECT_EQ(refusal(entry("[2]", "[0]")), "tensor 'w' in x has 1 data_offsets, not 2; write the file again");
  EXPECT_EQ(refusal(entry("[4]", "[0,8]", "F16")),
            "tensor 'w' in x has dtype F16, which is not read here; convert it to F32, F64, I32 or I64");
  EXPECT_EQ(refusal(R"({"w":{"dtype":"F32","shape":[2]}})"),
            "tensor 'w' in x has no key \"data_offsets\"; add it there");
}

TEST(Safetensors, RefuseGapsOverlapsAndLeftovers) {
  const std::string a = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_EQ(refusal(a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})"),
            "tensor 'b' in x starts at byte 0 and not at 4, where the one before ends; the file is damaged, "
            "get it again");
  EXPECT_EQ(refusal(a + "}"),
            "x has 8 bytes of data, but its tensors have 4; the file is damaged, get it again");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
            "tensor 'a' in x starts at byte 4 and not at 0, where the one before ends; the file is damaged, "
            "get it again");
  EXPECT_EQ(
      refusal(
          R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
      "the header of x has the key \"a\" twice in one object; leave one of them out");
}

// An index has every type of the format, with offsets into the file; nothing behind the header is read.
TEST(Safetensors, AnIndexSaysWhereTensorsLie) {
  const test::TempDir dir;
  const std::string header =
      R"({"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},"b":{"dtype":"F8_E4M3","shape":[5],"data_offsets":[12,17]}})";
  write_file_atomic(dir / "x", file_of(header, std::string(17, 'x')));
  const TensorIndex index = read_tensor_index(FileReader(dir / "x"));
  ASSERT_EQ(index.tensors.size(), 2U);
  EXPECT_EQ(index.tensors[0].begin, 8 + header.size());
  EXPECT_EQ(stored_type_name(index.tensors[0].type), "BF16");
  EXPECT_EQ(index.tensors[0].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(index.tensors[1].begin, 8 + header.size() + 12);
  EXPECT_EQ(index.tensors[1].end, 8 + header.size() + 17);
  EXPECT_EQ(stored_type_bytes(index.tensors[1].type), 1U);
}

TEST(Safetensors, RefuseToWriteWhatCannotBeRead) {
  const test::TempDir dir;
  const std::string x = (dir / "x").string();
  const std::vector<float> w{1.0F, -2.0F};
  const std::vector<TensorView> twice{tensor_view<float>("w", {2}, w), tensor_view<float>("w", {2}, w)};
  EXPECT_EQ(error_text([&] { save_tensors(x, twice); }),
            "cannot write " + x + ": two tensors are called 'w'; give each its own name");
  const TensorView odd = tensor_view<float>("w", {3}, w);
  EXPECT_EQ(
      error_text([&] { save_tensors(x, std::span(&odd, 1)); }),
      "cannot write " + x + ": tensor 'w' has 8 bytes, which do not fit shape [3] of F32; correct the shape");
  const TensorView good = tensor_view<float>("w", {2}, w);
  EXPECT_EQ(error_text([&] {
              save_tensors(x, std::span(&good, 1), {{"sha256", "0"}});
            }),
            "cannot write " + x + ": the metadata key 'sha256' is the file's own; choose another");
  EXPECT_FALSE(std::filesystem::exists(x));
}

}  // namespace
}  // namespace plumb
