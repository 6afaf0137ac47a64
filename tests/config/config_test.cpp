#include "plumb/config/config.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "plumb/base/files.h"
#include "plumb/model/decoder.h"
#include "tests/support/error_text.h"

namespace plumb {
namespace {

using test::error_text;

std::string refusal(const std::string& toml) {
  return error_text([&] { parse_config(toml, "run.toml"); });
}

// What the contract says the chapter's model and run are.
TEST(Config, DefaultsAreTheChapters) {
  const Config c = parse_config("", "run.toml");
  EXPECT_EQ(c.model.n_layer, 12);
  EXPECT_EQ(c.model.d_model, 128);
  EXPECT_EQ(c.model.n_head, 4);
  EXPECT_EQ(c.model.d_ff, 256);
  EXPECT_EQ(c.model.block_size, 64);
  EXPECT_EQ(c.model.norm, "layer");
  EXPECT_EQ(c.model.placement, "pre");
  EXPECT_EQ(c.ffn.kind, "gelu");
  EXPECT_EQ(c.train.steps, 1200);
  EXPECT_EQ(c.train.lr, 3e-3);
  EXPECT_EQ(c.data.vocab_size, 1200);
  EXPECT_FALSE(c.model.d_head || c.model.final_norm || c.model.tied_embeddings || c.attention.scale);
}

TEST(Config, ReadsEverySectionAndRemembersWhere) {
  const Config c = parse_config(
      "[model]\nn_layer = 4\nd_head = 16\nfinal_norm = false\n[model.attention]\nscale = \"none\"\nbias = "
      "true\n[model.ffn]\n"
      "kind = 'relu'\n[train]\nlr = 1 # a whole number where a real one is expected\n[data]\ncorpus = "
      "\"詩.txt\"\n[probe]\nevery = 5\n",
      "run.toml");
  EXPECT_EQ(c.model.n_layer, 4);
  EXPECT_EQ(c.model.d_head, 16);
  EXPECT_EQ(c.model.final_norm, false);
  EXPECT_EQ(c.attention.scale, "none");
  EXPECT_EQ(c.attention.bias, "true");
  EXPECT_EQ(c.ffn.kind, "relu");
  EXPECT_EQ(c.train.lr, 1.0);
  EXPECT_EQ(c.data.corpus, "詩.txt");
  EXPECT_EQ(c.probe.every, 5);
  EXPECT_EQ(c.where("model.attention.scale"), "run.toml:6");
  EXPECT_EQ(c.where("train.lr"), "run.toml:11");
  EXPECT_EQ(c.where("train.steps"), "the default");
  EXPECT_TRUE(c.given("train.lr"));
  EXPECT_FALSE(c.given("train.steps"));
}

TEST(Config, NamesTheNearestKeyAndSection) {
  int code = 0;
  EXPECT_EQ(error_text([] { parse_config("[train]\n\nlrr = 1\n", "run.toml"); }, &code),
            "unknown key 'train.lrr' (run.toml:3); did you mean 'train.lr'?");
  EXPECT_EQ(code, 2);
  EXPECT_EQ(refusal("[model]\nkind = 'relu'\n"),
            "unknown key 'model.kind' (run.toml:2); did you mean 'model.attention.kind'?");
  EXPECT_EQ(refusal("lr = 1\n"), "unknown key 'lr' (run.toml:1); did you mean 'train.lr'?");
  EXPECT_EQ(refusal("[probe]\nquantum = 1\n"),
            "unknown key 'probe.quantum' (run.toml:2); known in its section: every, all_every");
  EXPECT_EQ(refusal("[logging]\nlevel = 'x'\n"),
            "unknown section [logging] (run.toml:1); known: model, model.attention, model.ffn, model.rope, "
            "init, train, "
            "train.lr_scale, data, probe, fault");
  EXPECT_EQ(refusal("[trian]\nlr = 1\n"),
            "unknown section [trian] (run.toml:1); did you mean [train]? known: model, model.attention, "
            "model.ffn, model.rope, init, train, "
            "train.lr_scale, data, probe, fault");
}

TEST(Config, RefusesWrongTypes) {
  EXPECT_EQ(refusal("[train]\nsteps = 1.5\n"),
            "train.steps (run.toml:2) must be a whole number, but is 1.5; change it there");
  EXPECT_EQ(refusal("[train]\nsteps = '5'\n"),
            "train.steps (run.toml:2) must be a whole number, but is \"5\"; change it there");
  EXPECT_EQ(refusal("[train]\nlr = true\n"),
            "train.lr (run.toml:2) must be a number, but is true; change it there");
  EXPECT_EQ(refusal("[model]\nnorm = 3\n"),
            "model.norm (run.toml:2) must be a string, but is 3; change it there");
  EXPECT_EQ(refusal("[model]\nnorm_affine = 1\n"),
            "model.norm_affine (run.toml:2) must be true or false, but is 1; change it there");
  EXPECT_EQ(refusal("[train]\nlr = [1]\n"),
            "train.lr (run.toml:2) must be a number, but is an array; change it there");
  EXPECT_EQ(refusal("[train.lr]\n"),
            "train.lr (run.toml:1) must be a number, but is a table; change it there");
  EXPECT_EQ(refusal("[train]\nlr = 2020-01-01\n"),
            "train.lr (run.toml:2) must be a number, but is a date; change it there");
  EXPECT_EQ(refusal("train = 3\n"), "train (run.toml:1) is a section; write [train] and its keys below");
}

TEST(Config, RefusesValuesOutOfRange) {
  EXPECT_EQ(
      refusal("[model]\nblock_size = 0\n"),
      "model.block_size (run.toml:2) must be at least 1 and at most 1048576, but is 0; change it there");
  EXPECT_EQ(refusal("[train]\nlr = -1e-3\n"),
            "train.lr (run.toml:2) must be at least 0, but is -0.001; change it there");
  EXPECT_EQ(refusal("[train]\nlr = nan\n"),
            "train.lr (run.toml:2) must be finite, but is nan; change it there");
  EXPECT_EQ(refusal("[train]\nbeta1 = 1\n"),
            "train.beta1 (run.toml:2) must be at least 0 and below 1, but is 1.0; change it there");
  EXPECT_EQ(refusal("[data]\nsplit = 1.0\n"),
            "data.split (run.toml:2) must be above 0 and below 1, but is 1.0; change it there");
  EXPECT_EQ(
      refusal("[train]\nschedule = 'cosin'\n"),
      "train.schedule (run.toml:2) must be one of constant, cosine, linear, wsd, but is 'cosin' (did you "
      "mean 'cosine'?); change it "
      "there");
}

TEST(Config, SaysWhereTextIsNotToml) {
  EXPECT_TRUE(refusal("[train]\nlr = \n").starts_with("run.toml:2: not TOML ("))
      << refusal("[train]\nlr = \n");
  EXPECT_TRUE(refusal("[train]\nlr = 1\nlr = 2\n").starts_with("run.toml:3: not TOML ("))
      << refusal("[train]\nlr = 1\nlr = 2\n");
  EXPECT_EQ(refusal("[train]\nlr = 1 # \xff\n"),
            "run.toml:2: byte 0xff at offset 17 is not UTF-8; save the file as UTF-8");
}

// toml++ 3.3.0 reaches __builtin_unreachable on U+FEBF, and on many others, where it looks for white space.
TEST(Config, RefusesCharactersThatTomlPlusPlusCannotBear) {
  const std::string bad = "\xef\xba\xbf";
  const std::string sentence =
      ": a character beyond ASCII stands outside of a string or comment; put it in quotes";
  for (const std::string& toml :
       {bad, "[train]\nlr = " + bad, "[" + bad + "]", "[train]\nlr" + bad + " = 1", "[train]\nlr = 1" + bad,
        "[train]\nlr = 1 \"\\" + bad + "\"" + bad, "\"a\\\"b\"" + bad})
    EXPECT_TRUE(refusal(toml).ends_with(sentence)) << toml << "\n" << refusal(toml);
  EXPECT_EQ(refusal("\xef\xbb\xbf[train]\nlr = 1 # " + bad),
            "(no error)");  // a byte-order mark and a comment are fine
  EXPECT_EQ(
      refusal("[train]\nlr = \"\"\"a\"\"\"\n"),
      "run.toml:2: multi-line strings are not read here; put the text between single quotes on one line");
}

TEST(Config, RefusesHeadersThatTomlPlusPlusAsserts) {
  for (const char* toml : {"[=]", "[[[", "[#", "[.a]"})
    EXPECT_TRUE(refusal(toml).starts_with("run.toml:1: not TOML (")) << toml << "\n" << refusal(toml);
}

TEST(Config, RefusesKeysThatWouldExhaustTheStack) {
  std::string key = "a";
  for (int i = 0; i < 400000; ++i) key += ".a";
  const std::string sentence = "run.toml:1: a key has more than 16 parts; check its dots";
  EXPECT_EQ(refusal(key + " = 1"), sentence);
  EXPECT_EQ(refusal("[" + key + "]"), sentence);
  EXPECT_EQ(refusal("x = {" + key + " = 1}"), sentence);
  EXPECT_TRUE(refusal("x = " + std::string(500000, '[')).starts_with("run.toml:1: not TOML ("));
}

// Every code point of the basic plane inside of a string and of a comment: neither crashes, and strings come
// back.
TEST(Config, BearsEveryCharacterInStringsAndComments) {
  for (std::uint32_t code = 0x80; code < 0x10000; code += (code < 0x3100 || code > 0xf800) ? 1 : 97) {
    if (code >= 0xd800 && code < 0xe000) continue;
    std::string c;
    if (code < 0x800)
      c = {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
    else
      c = {static_cast<char>(0xe0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3f)),
           static_cast<char>(0x80 | (code & 0x3f))};
    Config config;
    const std::string text = refusal("[data]\ncorpus = \"" + c + "\" # " + c + "\n");
    EXPECT_TRUE(text == "(no error)" || text.starts_with("run.toml:2: not TOML (")) << code << ' ' << text;
  }
}

TEST(Config, SetsOneValue) {
  Config c;
  set_value(c, "train.lr=1e-2");
  set_value(c, "train.steps = 40");
  set_value(c, "model.norm=rms");
  set_value(c, "model.ffn.kind=\"relu\"");
  set_value(c, "model.final_norm=false");
  set_value(c, "data.corpus=a=b.txt");
  EXPECT_EQ(c.train.lr, 1e-2);
  EXPECT_EQ(c.train.steps, 40);
  EXPECT_EQ(c.model.norm, "rms");
  EXPECT_EQ(c.ffn.kind, "relu");
  EXPECT_EQ(c.model.final_norm, false);
  EXPECT_EQ(c.data.corpus, "a=b.txt");
  EXPECT_EQ(c.where("train.lr"), "--set");
  EXPECT_EQ(error_text([&] { set_value(c, "train.lr"); }),
            "--set train.lr has no '='; write --set section.key=value, for example --set train.lr=1e-3");
  EXPECT_EQ(error_text([&] { set_value(c, "train.lrr=1"); }),
            "unknown key 'train.lrr' (--set); did you mean 'train.lr'?");
  EXPECT_EQ(error_text([&] { set_value(c, "train.lr=fast"); }),
            "train.lr (--set) must be a number, but is \"fast\"; change it there");
  EXPECT_EQ(error_text([&] { set_value(c, "train.steps=12x"); }),
            "train.steps (--set) must be a whole number, but is \"12x\"; change it there");
  EXPECT_EQ(error_text([&] { set_value(c, "train.steps=99999999999999999999"); }),
            "train.steps (--set) must be a whole number, but is 1e+20; change it there");
}

TEST(Config, ComesBackFromItsDump) {
  Config c;
  set_value(c, "train.lr=0.1");
  set_value(c, "train.adam_eps=1e-12");
  set_value(c, "model.d_head=7");
  set_value(c, "model.attention.scale=none");
  set_value(c, "data.corpus=a \"b\" \\ 詩\x01");
  set_value(c, "train.weight_decay=3");
  for (const bool commented : {false, true}) {
    const Config back = parse_config(dump_toml(c, commented), "dump");
    for (const auto& field : config_fields()) EXPECT_EQ(field.get(back), field.get(c)) << field.path();
  }
  const Config back = config_from_json(Json::parse(config_to_json(c).dump(), "x"), "trace.jsonl");
  for (const auto& field : config_fields()) EXPECT_EQ(field.get(back), field.get(c)) << field.path();
}

TEST(Config, DumpShowsHelpAndWhatDiffers) {
  Config c;
  set_value(c, "probe.every=5");
  const std::string plain = dump_toml(c, false), full = dump_toml(c, true);
  EXPECT_NE(plain.find("\n\n[probe]\nevery = 5\nall_every = 100\n\n"), std::string::npos) << plain;
  EXPECT_NE(
      full.find(
          "\n\n[probe]\nevery = 5                       # steps between probe rows in the trace; 0: none "
          "[changed from 25]\n"),
      std::string::npos)
      << full;
  EXPECT_NE(full.find("\n# d_head =                      # width of a head; default: d_model / n_head\n"),
            std::string::npos)
      << full;
  EXPECT_EQ(plain.find("\nd_head"), std::string::npos);
}

TEST(Config, KeysAreUniqueAndExplained) {
  std::set<std::string> paths;
  for (const auto& field : config_fields()) {
    EXPECT_TRUE(paths.insert(field.path()).second) << field.path();
    EXPECT_FALSE(field.help.empty()) << field.path();
    FieldValue value = field.get(Config{});
    if (value.index() == 0) continue;
    EXPECT_EQ(field_refusal(field.type, field.check, value), "") << field.path();
  }
}

TEST(Config, DocumentationPageIsUpToDate) {
  const auto page = std::filesystem::path(__FILE__).parent_path() / "../../docs/config.md";
  const std::string text = config_markdown(known_names(Components{}));
  if (std::getenv("PLUMB_WRITE_DOCS")) write_file_atomic(page, text);
  EXPECT_EQ(read_file(page), text)
      << "run PLUMB_WRITE_DOCS=1 build/dev/plumb_tests --gtest_filter='*Document*'";
}

TEST(Config, JsonErrorsNameTheKey) {
  EXPECT_EQ(error_text([] { config_from_json(Json::parse(R"({"train":{"lr":"x"}})", "t"), "t"); }),
            "train.lr (t) must be a number, but is a string; correct it there");
  EXPECT_EQ(error_text([] { config_from_json(Json::parse(R"({"train":{"lrr":1}})", "t"), "t"); }),
            "unknown key 'train.lrr' (t); did you mean 'train.lr'?");
}

}  // namespace
}  // namespace plumb
