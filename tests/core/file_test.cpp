#include "tandem/core/files/file.h"

#include <sys/stat.h>

#include "tests/data/temporary_folder.h"

namespace tandem::core {
namespace {

using data::TemporaryFolder;
using testing::error_of;
using testing::expect_contains;

std::size_t files_in(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(File, WrittenIsRead) {
  const TemporaryFolder folder;
  const std::string bytes("a\0b\nc", 5);
  write_file_atomically(folder / "f", bytes);
  EXPECT_EQ(read_file(folder / "f"), bytes);
  write_file_atomically(folder / "f", "");
  EXPECT_EQ(read_file(folder / "f"), "");
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(File, UncommittedLeavesNoTraceAndKeepsTheOldOne) {
  const TemporaryFolder folder;
  folder.put("f", "old");
  {
    AtomicFile file(folder / "f");
    file.write("new", 3);
    EXPECT_EQ(read_file(folder / "f"), "old");
    EXPECT_EQ(files_in(folder.path()), 2u);
  }
  EXPECT_EQ(read_file(folder / "f"), "old");
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(File, LinksAreFollowed) {
  const TemporaryFolder folder;
  folder.put("f", "old");
  std::filesystem::create_symlink("f", folder / "link");
  write_file_atomically(folder / "link", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "f"), "new");
}

TEST(File, ErrorsNameThePath) {
  const TemporaryFolder folder;
  expect_contains(error_of([&] { read_file(folder / "none"); }),
                  (folder / "none").string() + ": cannot be opened: No such");
  expect_contains(error_of([&] { read_file(folder.path()); }), "not a regular file");
  expect_contains(error_of([&] { write_file_atomically(folder.path(), "x"); }), "not a regular file");
  expect_contains(error_of([] { write_file_atomically("/dev/null", "x"); }), "/dev/null: is not a regular file");
  expect_contains(error_of([&] { write_file_atomically(folder / "no/f", "x"); }), "no/f: cannot be created: No such");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect_contains(error_of([&] { read_file(folder / "pipe"); }), "pipe: is not a regular file");
}

TEST(File, ReadingPastTheEndSaysWhere) {
  const TemporaryFolder folder;
  const InputFile file(folder.put("f", "12345"));
  EXPECT_EQ(file.size(), 5u);
  char bytes[4] = {};
  file.read(1, bytes, 4);
  EXPECT_EQ(std::string(bytes, 4), "2345");
  expect_contains(error_of([&] { file.read(3, bytes, 4); }), "f, byte 5: the file ends here, 2 more bytes");
}

}  // namespace
}  // namespace tandem::core
