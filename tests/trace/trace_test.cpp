#include "plumb/trace/trace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "plumb/base/files.h"
#include "plumb/trace/reader.h"
#include "plumb/trace/writer.h"
#include "tests/support/error_text.h"
#include "tests/support/temp_dir.h"

namespace plumb {
namespace {

using test::error_text;

const std::string header = R"({"row":"header","schema":"plumb-trace/1","producer":"test","config":null})"
                           "\n";

void append(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::app) << text;
}

TraceWriter small_trace(const std::filesystem::path& path) {
  TraceWriter writer = TraceWriter::create(path, {"test", Json()});
  writer.fact({"tied", true});
  for (std::int64_t step = 0; step < 3; ++step)
    writer.step({step, {{"loss", 7.0 - static_cast<double>(step)}}, {{"act_std", {1.0, 2.0}}}});
  return writer;
}

// The check value that every catalogue of CRC algorithms gives for CRC-32/ISO-HDLC.
TEST(Crc32, GivesTheCheckValue) {
  EXPECT_EQ(crc32("123456789"), 0xcbf43926U);
  EXPECT_EQ(crc32(""), 0U);
}

// RFC 3720, appendix B.4.
TEST(Crc32c, GivesTheRfcsValues) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  std::string up;
  for (char c = 0; c < 32; ++c) up += c;
  EXPECT_EQ(crc32c(up), 0x46dd794eU);
}

TEST(Trace, RowsAreWrittenAsDocumented) {
  const test::TempDir dir;
  Json config;
  config["train"]["lr"] = 0.003;
  {
    TraceWriter writer = TraceWriter::create(dir / "t", {"test", config}, false);
    writer.fact({"tied", true});
    writer.step({25,
                 {{"loss", 6.5}, {"lr", std::nan("")}},
                 {{"act_std", {1.0, std::numeric_limits<double>::infinity()}}}});
  }
  EXPECT_EQ(read_file(dir / "t"),
            R"({"row":"header","schema":"plumb-trace/1","producer":"test","config":{"train":{"lr":0.003}}})"
            "\n"
            R"({"row":"fact","name":"tied","value":true})"
            "\n"
            R"({"row":"step","step":25,"loss":6.5,"lr":"NaN","layers":{"act_std":[1.0,"Infinity"]}})"
            "\n");
}

TEST(Trace, ComesBackAsItWasWritten) {
  const test::TempDir dir;
  {
    TraceWriter writer = small_trace(dir / "t");
    writer.fact({"tied", false});
    writer.step({3, {{"loss", std::nan("")}}, {}});
  }
  const Trace trace = read_trace(dir / "t");
  EXPECT_EQ(trace.header.producer, "test");
  EXPECT_EQ(trace.warning, "");
  EXPECT_EQ(*trace.fact("tied"), Json(false));  // the last one counts
  EXPECT_EQ(trace.fact("causal"), nullptr);
  ASSERT_EQ(trace.steps.size(), 4U);
  EXPECT_EQ(trace.steps[1].step, 1);
  EXPECT_EQ(*trace.steps[1].find("loss"), 6.0);
  EXPECT_EQ(*trace.steps[1].find_layers("act_std"), (std::vector<double>{1.0, 2.0}));
  EXPECT_EQ(trace.steps[1].find("lr"), nullptr);
  EXPECT_TRUE(std::isnan(*trace.steps[3].find("loss")));
}

TEST(Trace, RowsAreThereBeforeTheWriterIsGone) {
  const test::TempDir dir;
  const TraceWriter writer = small_trace(dir / "t");
  EXPECT_EQ(read_trace(dir / "t").steps.size(), 3U);
}

TEST(Trace, TheChecksumIsTheLastKeyAndCoversWhatIsBeforeIt) {
  const test::TempDir dir;
  small_trace(dir / "t");
  std::string text = read_file(dir / "t");
  const std::string first = text.substr(0, text.find('\n'));
  const std::size_t mark = first.find(",\"crc\":\"");
  ASSERT_NE(mark, std::string::npos);
  EXPECT_EQ(first.substr(mark), fmt::format(",\"crc\":\"{:08x}\"}}", crc32(first.substr(0, mark))));
  text.replace(text.find("\"loss\":6"), 8, "\"loss\":5");
  EXPECT_TRUE(error_text([&] { parse_trace(text, "t"); }).starts_with("t:4: the row's checksum is "));
  EXPECT_TRUE(error_text([&] {
                parse_trace(text, "t");
              }).ends_with("; the trace was altered or damaged, get it again"));
}

TEST(Trace, ATornLastRowIsLeftOutAndSaid) {
  const test::TempDir dir;
  small_trace(dir / "t");
  const std::string text = read_file(dir / "t");
  const std::size_t last = text.rfind('\n', text.size() - 2) + 1;
  for (std::size_t end = last + 1; end + 1 < text.size(); ++end) {
    const Trace trace = parse_trace(text.substr(0, end), "t");
    EXPECT_EQ(trace.steps.size(), 2U) << end;
    EXPECT_EQ(trace.warning, "the last row (t:5) is torn and was left out") << end;
  }
  // Only the newline is missing: the row is whole, as other producers may leave it.
  EXPECT_EQ(parse_trace(text.substr(0, text.size() - 1), "t").steps.size(), 3U);
}

TEST(Trace, ABrokenRowInTheMiddleIsRefused) {
  EXPECT_TRUE(error_text([] {
                parse_trace(header + "{\"row\":\n{\"row\":\"fact\",\"name\":\"a\",\"value\":1}\n", "t");
              }).starts_with("t:2 is not JSON: byte "));
  EXPECT_EQ(error_text([] { parse_trace(header + "{\"row\":\"step\"}\n", "t"); }),
            "t:2 has no key \"step\"; add it there");
  EXPECT_EQ(
      error_text([] { parse_trace(header + "{\"row\":\"step\",\"step\":1,\"loss\":\"high\"}\n", "t"); }),
      "t:2: loss must be a number, but is a string; correct it there");
}

TEST(Trace, ForeignFilesAreRefused) {
  const std::string sentence =
      "t is no plumb trace: its first row has no \"schema\"; check that it is the right file";
  EXPECT_EQ(error_text([] { parse_trace("step,loss\n1,2\n", "t"); }), sentence);
  EXPECT_EQ(error_text([] { parse_trace("{\"loss\":1}\n", "t"); }), sentence);
  EXPECT_EQ(error_text([] { parse_trace("", "t"); }),
            "t is empty and no plumb trace; check that it is the right file");
  EXPECT_EQ(error_text([] {
              parse_trace("{\"row\":\"header\",\"schema\":\"plumb-trace/9\",\"producer\":\"x\"}\n", "t");
            }),
            "t:1 has schema \"plumb-trace/9\", but \"plumb-trace/1\" is read here; write it again or use the "
            "matching version of plumb");
}

TEST(Trace, WhatIsNotKnownIsSkipped) {
  const Trace trace = parse_trace(
      header + R"({"row":"picture","data":[1]})"
               "\n"
               R"({"row":"step","step":1,"new_number":2,"new_thing":{"a":1},"layers":{"new":[3]}})"
               "\n",
      "t");
  ASSERT_EQ(trace.steps.size(), 1U);
  EXPECT_EQ(*trace.steps[0].find("new_number"), 2.0);
  EXPECT_EQ(trace.steps[0].find_layers("new")->at(0), 3.0);
}

TEST(Trace, ResumingGivesTheBytesOfAnUninterruptedRun) {
  const test::TempDir dir;
  small_trace(dir / "whole");
  const std::string whole = read_file(dir / "whole");
  for (const std::string torn : {"", "{\"row\":\"st", "{\"row\":\"step\",\"step\":3}"}) {
    small_trace(dir / "t");
    append(dir / "t", torn);
    TraceWriter writer = TraceWriter::resume(dir / "t", 1);
    for (std::int64_t step = 1; step < 3; ++step)
      writer.step({step, {{"loss", 7.0 - static_cast<double>(step)}}, {{"act_std", {1.0, 2.0}}}});
    EXPECT_EQ(read_file(dir / "t"), whole) << torn;
  }
  small_trace(dir / "t");
  append(dir / "t", "{\"row\":\"st");
  TraceWriter::resume(dir / "t", 100);
  EXPECT_EQ(read_file(dir / "t"), whole);
}

TEST(Trace, ResumingRefusesWhatIsNoTrace) {
  const test::TempDir dir;
  write_file_atomic(dir / "t", "notes\n");
  EXPECT_NE(error_text([&] { TraceWriter::resume(dir / "t", 0); }), "(no error)");
  EXPECT_EQ(read_file(dir / "t"), "notes\n");
  EXPECT_EQ(error_text([] { trace_keep_bytes(header.substr(0, header.size() - 1), "t", 0); }),
            "t ends in its first row, so nothing can be added to it; start the run anew");
}

TEST(Trace, AFullDiskIsCalledThat) {
  ASSERT_TRUE(std::filesystem::exists("/dev/full")) << "this test needs Linux's /dev/full";
  EXPECT_EQ(error_text([] {
              TraceWriter::create("/dev/full", {"test", Json()});
            }),
            "cannot write the trace /dev/full: the disk is full; free some space and try again");
}

TEST(Trace, EveryMetricIsDocumentedAndNoOther) {
  const std::string page = read_file(std::filesystem::path(__FILE__).parent_path() / "../../docs/trace.md");
  std::size_t rows = 0;
  for (std::size_t at = page.find("\n| `"); at != std::string::npos; at = page.find("\n| `", at + 1)) ++rows;
  EXPECT_EQ(rows, trace_metrics.size());
  for (const Metric& m : trace_metrics) {
    const std::string row = fmt::format("| `{}` | {} | {} | {} |\n", m.name,
                                        m.per_layer ? "per layer" : "number", m.unit, m.meaning);
    EXPECT_NE(page.find(row), std::string::npos) << "docs/trace.md lacks this row:\n" << row;
  }
}

}  // namespace
}  // namespace plumb
