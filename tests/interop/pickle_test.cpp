#include "plumb/interop/pickle.h"

#include <gtest/gtest.h>

#include "tests/support/error_text.h"

namespace plumb {
namespace {

using test::error_text;
using Kind = PickleValue::Kind;

// {"a": [1, -2, 300], "b": (True, None, 0.5), "a2": the same list}, as pickle.dumps(…, protocol=2) writes it.
const std::string small(
    "\x80\x02}q\0("
    "X\1\0\0\0aq\1]q\2(K\1J\xfe\xff\xff\xffM\x2c\1e"
    "X\1\0\0\0bq\3\x88NG\x3f\xe0\0\0\0\0\0\0\x87q\4"
    "X\2\0\0\0a2q\5h\2u.",
    64);

TEST(Pickle, IsReadIntoNumberedValues) {
  const Pickle p = parse_pickle(small, "x");
  const PickleValue& root = p[p.root];
  ASSERT_EQ(root.kind, Kind::dict);
  const PickleValue* a = p.find(root, "a");
  ASSERT_TRUE(a && a->kind == Kind::list);
  ASSERT_EQ(a->items.size(), 3U);
  EXPECT_EQ(p[a->items[0]].integer, 1);
  EXPECT_EQ(p[a->items[1]].integer, -2);
  EXPECT_EQ(p[a->items[2]].integer, 300);
  const PickleValue* b = p.find(root, "b");
  ASSERT_TRUE(b && b->kind == Kind::tuple);
  EXPECT_EQ(p[b->items[0]].kind, Kind::boolean);
  EXPECT_EQ(p[b->items[1]].kind, Kind::none);
  EXPECT_EQ(p[b->items[2]].real, 0.5);
  EXPECT_EQ(p.find(root, "a2"), a);  // the same value, not a copy
  EXPECT_EQ(p.find(root, "c"), nullptr);
}

TEST(Pickle, IntegersHaveTheirSign) {
  const auto integer = [](const std::string& bytes) {
    const Pickle p =
        parse_pickle("\x80\x02\x8a" + std::string(1, static_cast<char>(bytes.size())) + bytes + ".", "x");
    return p[p.root].integer;
  };
  EXPECT_EQ(integer(""), 0);
  EXPECT_EQ(integer("\xff"), -1);
  EXPECT_EQ(integer(std::string("\xff\0", 2)), 255);
  EXPECT_EQ(integer("\xff\xff\xff\xff\xff\xff\xff\x7f"), INT64_MAX);
}

TEST(Pickle, CallsAreNotedAndCodeIsRefused) {
  const Pickle p = parse_pickle(
      "\x80\x02"
      "ctorch._utils\n_rebuild_tensor_v2\n(NNNNtR.",
      "x");
  EXPECT_EQ(p[p.root].kind, Kind::tensor);
  EXPECT_EQ(p[p.root].items.size(), 4U);
  EXPECT_EQ(error_text([] {
              parse_pickle(
                  "\x80\x02"
                  "cos\nsystem\nX\4\0\0\0true\x85R.",
                  "x");
            }),
            "x wants to run os.system, which is no part of a checkpoint's tensors: nothing was run; get the "
            "weights as safetensors, or save the "
            "state dict alone");
}

TEST(Pickle, TensorsAreOfTheFormThatTheyWereSavedIn) {
  const auto saved = [](const std::string& call) { return parse_pickle("\x80\x02" + call + ".", "x"); };
  Pickle p = saved("ctorch._utils\n_rebuild_tensor_v3\n(NNNNNNNtR");
  EXPECT_EQ(p[p.root].kind, Kind::tensor);
  EXPECT_EQ(p[p.root].form, TensorForm::typed);
  p = saved("ctorch._utils\n_rebuild_sparse_tensor\n(NNtR");
  EXPECT_EQ(p[p.root].form, TensorForm::sparse);
  // torch.nn.Buffer: a plain tensor with attributes
  p = saved(
      "ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\nctorch\nTensor\n(NNNNt}tR");
  EXPECT_EQ(p[p.root].kind, Kind::tensor);
  EXPECT_EQ(p[p.root].items.size(), 4U);
  EXPECT_NE(error_text([&] { saved("ctorch._utils\n_rebuild_tensor_v3\n(NNNNtR"); }).find("4 arguments"),
            std::string::npos);
}

// What is read is a prefix of a good pickle: every one of them is refused, none reads past its end.
TEST(Pickle, EveryPrefixIsRefused) {
  for (std::size_t n = 0; n < small.size(); ++n)
    EXPECT_NE(error_text([&] { parse_pickle(std::string_view(small).substr(0, n), "x"); }), "(no error)")
        << n;
}

// One wrong byte: read or refused, but never anything else.
TEST(Pickle, AnyByteMayBeWrong) {
  for (std::size_t i = 0; i < small.size(); ++i)
    for (int b = 0; b < 256; ++b) {
      std::string bytes = small;
      bytes[i] = static_cast<char>(b);
      try {
        parse_pickle(bytes, "x");
      } catch (const Error& e) {
        EXPECT_EQ(e.exit_code, 2);
      }
    }
}

}  // namespace
}  // namespace plumb
