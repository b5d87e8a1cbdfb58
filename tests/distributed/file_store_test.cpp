// What happens to a store's file: killed writers, damage, removal, and processes that do not let go.
#include "tandem/distributed/stores/file_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <string>

#include "tandem/distributed/error.h"
#include "tests/data/temporary_folder.h"
#include "tests/errors.h"

namespace tandem::distributed {
namespace {

constexpr Milliseconds kNow(0), kLong(60000);

class FileStoreFile : public ::testing::Test {
 protected:
  std::string bytes() const {
    std::ifstream stream(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  void put(const std::string& bytes) const { std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes; }

  data::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "store";
};

TEST_F(FileStoreFile, StaysWithoutItsMakers) {
  FileStore(path_).set("k", "v");
  FileStore second(path_);
  EXPECT_EQ(second.get("k", kNow), "v");
  EXPECT_EQ(second.str(), "file://" + path_.string());
}

TEST_F(FileStoreFile, IsSharedByProcesses) {
  FileStore store(path_);
  constexpr int kProcesses = 3, kTimes = 100;
  pid_t children[kProcesses];
  for (pid_t& child : children) {
    child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      int code = 1;
      try {
        FileStore own(path_);
        for (int i = 0; i < kTimes; ++i) own.add("n", 1);
        code = 0;
      } catch (...) {
      }
      _exit(code);
    }
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(store.get("n", kNow), std::to_string(kProcesses * kTimes));
}

// A writer that is killed leaves the beginning of its record: whatever it wrote of it, nothing happened.
TEST_F(FileStoreFile, ForgetsARecordThatWasCutOff) {
  FileStore(path_).set("first", "1");
  const std::string whole_first = bytes();
  FileStore(path_).set("second", "2");
  const std::string whole = bytes();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    put(whole.substr(0, length));
    FileStore store(path_);
    EXPECT_EQ(store.get("first", kNow).has_value(), length >= whole_first.size()) << length;
    EXPECT_EQ(store.get("second", kNow), std::nullopt) << length;
    FileStore reader(path_);
    store.set("third", "3");
    EXPECT_EQ(reader.get("third", kNow), "3") << length;
    EXPECT_EQ(FileStore(path_).get("third", kNow), "3") << length;
  }
}

TEST_F(FileStoreFile, RefusesDamage) {
  {
    FileStore store(path_);
    store.set("first", "1");
    store.set("second", "2");
    store.remove("first");
  }
  const std::string whole = bytes();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    put(damaged);
    TANDEM_EXPECT_ERROR(FileStore store(path_), "store file " + path_.string() + ": ");
    TANDEM_EXPECT_ERROR(FileStore store(path_), ", at byte ");
  }
  put("something else entirely");
  TANDEM_EXPECT_ERROR(FileStore store(path_), "it is no store of Tandem, at byte 0");
  EXPECT_EQ(bytes(), "something else entirely");
}

TEST_F(FileStoreFile, SaysWhereItCannotBe) {
  TANDEM_EXPECT_ERROR(FileStore store(folder_ / "no/store"),
                      "the folder " + (folder_ / "no").string() + " does not exist");
  TANDEM_EXPECT_ERROR(FileStore store(folder_.path()), "is a directory");
  TANDEM_EXPECT_ERROR(FileStore store("/dev/null"), "store file /dev/null: it is no regular file");
}

TEST_F(FileStoreFile, NoticesThatItIsGone) {
  const std::string gone = "the store at file://" + path_.string() + " is gone: ";
  FileStore store(path_);
  store.set("k", "v");
  const std::string whole = bytes();
  auto waiting = std::async(std::launch::async, [&] {
    FileStore own(path_);
    own.set("begun", "");
    own.get("never", kLong);
  });
  ASSERT_TRUE(store.get("begun", kLong));
  std::filesystem::remove(path_);
  TANDEM_EXPECT_ERROR(waiting.get(), gone + "the file was removed");
  EXPECT_THROW(store.set("k", "w"), PeerError);
  TANDEM_EXPECT_ERROR(store.connect_again(), gone + "the file was removed");
  EXPECT_FALSE(std::filesystem::exists(path_));
  put(whole);
  TANDEM_EXPECT_ERROR(store.get("k", kNow), gone + "the file was replaced");
  FileStore second(path_);
  put("");
  TANDEM_EXPECT_ERROR(second.add("n", 1), gone + "the file was cut from ");
  EXPECT_THROW(second.get("k", kNow), PeerError);
}

TEST_F(FileStoreFile, DoesNotWaitForEverForTheLock) {
  FileStore store(path_);
  const int holder = open(path_.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(holder, 0);
  ASSERT_EQ(flock(holder, LOCK_EX), 0);
  EXPECT_EQ(store.get("k", kNow), std::nullopt);  // nothing new to read: no lock
  try {
    store.set("k", "w");
    ADD_FAILURE() << "two hold the lock";
  } catch (const TimeoutError& error) {
    testing::expect_contains(error.what(), "another process has held its lock for 5 s");
  }
  close(holder);
  store.set("k", "v");
  EXPECT_EQ(store.get("k", kNow), "v");
}

}  // namespace
}  // namespace tandem::distributed
