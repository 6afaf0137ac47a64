#include "plumb/base/files.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

#include "tests/support/error_text.h"
#include "tests/support/temp_dir.h"

namespace plumb {
namespace {

using test::error_text;

TEST(Files, AreReadAsTheyWereWritten) {
  const test::TempDir dir;
  const std::string bytes("a\0b\n\xff", 5);
  write_file_atomic(dir / "x", bytes);
  EXPECT_EQ(read_file(dir / "x"), bytes);
  const std::vector<std::string_view> pieces{"ab", "", "c"};
  write_file_atomic(dir / "x", pieces);  // replaces
  EXPECT_EQ(read_file(dir / "x"), "abc");
  write_file_atomic(dir / "empty", "");
  EXPECT_EQ(read_file(dir / "empty"), "");
}

TEST(Files, LeaveNothingBehindWhenWritingFails) {
  const test::TempDir dir;
  make_dirs(dir / "x");  // a directory cannot be replaced by a file
  EXPECT_EQ(error_text([&] { write_file_atomic(dir / "x", "abc"); }),
            "cannot write " + (dir / "x").string() + ": it is a directory; name a file");
  const std::filesystem::directory_iterator entries(dir.path);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST(Files, SayWhatIsWrong) {
  const test::TempDir dir;
  const std::string x = (dir / "x").string();
  int code = 0;
  EXPECT_EQ(error_text([&] { read_file(x); }, &code),
            "cannot read " + x + ": no such file or directory; check the path");
  EXPECT_EQ(code, 2);
  EXPECT_EQ(error_text([&] { read_file(dir.path); }),
            "cannot read " + dir.path.string() + ": it is a directory; name a file");
  EXPECT_EQ(error_text([&] { write_file_atomic(x + "/y", "a"); }, &code),
            "cannot write " + x + "/y: no such file or directory; check the path");
  EXPECT_EQ(code, 2);
  write_file_atomic(x, "abc");
  EXPECT_EQ(error_text([&] { make_dirs(x); }),
            "cannot make the directory " + x + ": a part of the path is not a directory; check the path");
  EXPECT_EQ(read_file(x, 3), "abc");
  EXPECT_EQ(
      error_text([&] { read_file(x, 2); }),
      x + " is larger than 2 bytes, which is the most that is read here; check that it is the right file");
  EXPECT_EQ(reason_of(ENOSPC), "the disk is full; free some space and try again");
}

TEST(Files, AreReadInPieces) {
  const test::TempDir dir;
  write_file_atomic(dir / "f", "0123456789");
  const FileReader file(dir / "f");
  EXPECT_EQ(file.size(), 10U);
  EXPECT_EQ(file.read_text(3, 4), "3456");
  EXPECT_EQ(file.read_text(10, 0), "");
  EXPECT_EQ(test::error_text([&] { file.read_text(8, 3); }), (dir / "f").string() + " ends before byte 11; it is cut off, get it again");
  EXPECT_TRUE(test::error_text([&] { FileReader{dir.path}; }).ends_with("it is a directory; name a file"));
  EXPECT_EQ(test::error_text([] { FileReader{"/dev/null"}; }), "/dev/null is no regular file; name one");
}

}  // namespace
}  // namespace plumb
