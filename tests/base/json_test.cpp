#include "plumb/base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/error_text.h"

namespace plumb {
namespace {

using test::error_text;

TEST(Json, WritesObjectsInOrderOfInsertion) {
  Json json;
  json["zeta"] = 1;
  json["alpha"] = Json::Array{true, nullptr, "x", 2.5};
  json["empty"] = Json::object();
  json["zeta"] = 2;
  EXPECT_EQ(json.dump(), R"({"zeta":2,"alpha":[true,null,"x",2.5],"empty":{}})");
  EXPECT_EQ(json.dump(2),
            "{\n  \"zeta\": 2,\n  \"alpha\": [\n    true,\n    null,\n    \"x\",\n    2.5\n  ],\n  "
            "\"empty\": {}\n}");
}

TEST(Json, WritesNonFiniteNumbersAsStringsAndReadsThemBack) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Json json = Json::Array{std::nan(""), infinity, -infinity};
  EXPECT_EQ(json.dump(), R"(["NaN","Infinity","-Infinity"])");
  const Json back = Json::parse(json.dump(), "x");
  EXPECT_TRUE(std::isnan(back.as_array("x")[0].as_double("x")));
  EXPECT_EQ(back.as_array("x")[1].as_double("x"), infinity);
  EXPECT_EQ(back.as_array("x")[2].as_double("x"), -infinity);
}

TEST(Json, KeepsEveryBitOfADoubleAndTellsItFromAnInteger) {
  for (const double d : {0.1, 1.0, -0.0, 1e300, 5e-324, 0.1 + 0.2, 1e16, 123456789.0}) {
    const Json back = Json::parse(Json(d).dump(), "x");
    EXPECT_FALSE(back.is_int()) << Json(d).dump();
    EXPECT_EQ(std::signbit(back.as_double("x")), std::signbit(d));
    EXPECT_EQ(back.as_double("x"), d);
  }
  EXPECT_EQ(Json(1.0).dump(), "1.0");
  EXPECT_EQ(Json(0.1F).dump(), "0.1");  // a float at its shortest, not as 0.10000000149011612
  EXPECT_EQ(static_cast<float>(Json(0.1F).as_double("x")), 0.1F);
  EXPECT_EQ(Json(std::numeric_limits<std::int64_t>::min()).dump(), "-9223372036854775808");
  EXPECT_EQ(Json::parse("9223372036854775808", "x").as_double("x"), 9223372036854775808.0);
}

TEST(Json, EscapesStrings) {
  EXPECT_EQ(Json("a\"b\\c\n\t\x01é").dump(), "\"a\\\"b\\\\c\\n\\t\\u0001é\"");
  EXPECT_EQ(Json(std::string("a\xff") + "b").dump(),
            "\"a\xef\xbf\xbd"
            "b\"");
  EXPECT_EQ(Json::parse(R"("\u00e9\ud83d\ude00")", "x").as_string("x"), "é😀");
}

TEST(Json, SaysWhereTextIsNotJson) {
  EXPECT_EQ(error_text([] { Json::parse("[1,2,}", "a.json"); }),
            "a.json is not JSON: byte 5 (near \"2,}\") does not fit; correct the text there");
  EXPECT_EQ(error_text([] { Json::parse("", "a.json"); }),
            "a.json is not JSON: byte 0 (near \"\") does not fit; correct the text there");
  EXPECT_NE(error_text([] { Json::parse("{} x", "a.json"); }), "(no error)");
  EXPECT_NE(error_text([] { Json::parse("\"\xff\"", "a.json"); }), "(no error)");
  EXPECT_NE(error_text([] { Json::parse("1e999", "a.json"); }), "(no error)");
  int code = 0;
  EXPECT_EQ(error_text([] { Json::parse(R"({"a":1,"b":2,"a":3})", "a.json"); }, &code),
            "a.json has the key \"a\" twice in one object; leave one of them out");
  EXPECT_EQ(code, 2);
}

TEST(Json, LimitsDepth) {
  EXPECT_EQ(Json::parse("[[1]]", "x", 2).size(), 1U);
  EXPECT_EQ(error_text([] { Json::parse("[[[1]]]", "a.json", 2); }),
            "a.json is nested deeper than 2 levels; flatten the JSON");
  EXPECT_NE(error_text([] { Json::parse(std::string(1000000, '['), "a.json"); }), "(no error)");
}

TEST(Json, AccessorsNameThePlace) {
  const Json json = Json::parse(R"({"steps": "many"})", "x");
  EXPECT_EQ(error_text([&] { (void)json.at("steps", "run").as_int("run: steps"); }),
            "run: steps must be an integer, but is a string; correct it there");
  EXPECT_EQ(error_text([&] { (void)json.at("lr", "run"); }), "run has no key \"lr\"; add it there");
  EXPECT_EQ(error_text([&] { (void)Json(3).at("lr", "run"); }),
            "run must be an object, but is an integer; correct it there");
  EXPECT_EQ(json.find("lr"), nullptr);
}

TEST(Json, ReadsNoMoreValuesThanItIsTold) {
  EXPECT_EQ(Json::parse("[1,2,3]", "x", 8, 4).size(), 3U);  // three numbers and their array
  EXPECT_EQ(test::error_text([] { Json::parse("[1,2,3]", "x", 8, 3); }),
            "x has more than 3 values, which is the most that is read here; check that it is the right file");
}

}  // namespace
}  // namespace plumb
