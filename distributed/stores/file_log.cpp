#include "tandem/distributed/stores/file_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <thread>
#include <utility>

#include "tandem/core/fnv1a.h"
#include "tandem/distributed/error.h"
#include "tandem/distributed/network/deadline.h"
#include "tandem/distributed/network/socket.h"
#include "tandem/distributed/stores/bytes.h"

namespace tandem::distributed {
namespace {

constexpr std::string_view kMagic("TANDEM store 1\n\0", 16);
constexpr std::size_t kHead = 4 + 4 + 8, kPayloadHead = 1 + 4;
constexpr std::size_t kMaxPayload = kPayloadHead + Store::kMaxKey + Store::kMaxValue;
enum class Kind : std::uint8_t { set = 1, remove = 2 };

// Who holds the lock writes a few kilobytes; one that takes longer was stopped.
constexpr Milliseconds kLockTime(5000);
constexpr Milliseconds kLongestPause(10);

std::uint32_t check32(std::string_view bytes) { return core::fnv1a<std::uint32_t>(bytes); }
std::uint64_t check64(std::string_view bytes) { return core::fnv1a<std::uint64_t>(bytes); }

std::string make_payload(Kind kind, const std::string& key, const std::string& value) {
  std::string payload;
  append_number(payload, static_cast<std::uint8_t>(kind));
  append_number(payload, static_cast<std::uint32_t>(key.size()));
  return payload + key + value;
}

int open_or_make(const std::filesystem::path& path) {
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor >= 0) return descriptor;
  const int code = errno;
  const std::filesystem::path folder = path.parent_path();
  std::error_code ignored;
  if (code == ENOENT && !std::filesystem::exists(folder, ignored)) {
    core::fail("store file {}: the folder {} does not exist", path.string(), folder.string());
  }
  core::fail("store file {}: cannot open it: {}", path.string(), system_reason(code));
}

}  // namespace

FileLog::Descriptor::~Descriptor() { close(number); }

FileLog::FileLog(std::filesystem::path path) : path_(std::move(path)), file_(open_or_make(path_)) {
  struct stat information {};
  if (fstat(file_.number, &information) != 0 || !S_ISREG(information.st_mode)) {
    core::fail("store file {}: it is no regular file", path_.string());
  }
  const Turn turn(*this);
}

std::uint64_t FileLog::size_of_same_file() const {
  struct stat ours {
  }, there{};
  const auto gone = [&](const std::string& how) {
    throw PeerError(fmt::format("the store at file://{} is gone: {}", path_.string(), how));
  };
  if (fstat(file_.number, &ours) != 0) gone(system_reason(errno));
  if (stat(path_.c_str(), &there) != 0) gone(errno == ENOENT ? "the file was removed" : system_reason(errno));
  if (ours.st_ino != there.st_ino || ours.st_dev != there.st_dev) gone("the file was replaced");
  const auto size = static_cast<std::uint64_t>(ours.st_size);
  if (size < replayed_) gone(fmt::format("the file was cut from {} to {} bytes", replayed_, size));
  return size;
}

bool FileLog::has_grown() const { return size_of_same_file() != replayed_; }

void FileLog::lock() {
  const Deadline deadline(kLockTime);
  for (Milliseconds pause(1); flock(file_.number, LOCK_EX | LOCK_NB) != 0; pause = std::min(pause * 2, kLongestPause)) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) core::fail("store file {}: cannot lock it: {}", path_.string(), system_reason(errno));
    if (deadline.has_passed()) {
      throw TimeoutError(fmt::format("the store at file://{} hangs: another process has held its lock for {} s",
                                     path_.string(), kLockTime.count() / 1000));
    }
    std::this_thread::sleep_for(pause);
  }
}

void FileLog::unlock() { flock(file_.number, LOCK_UN); }

void FileLog::begin_file() {
  const std::string begin = read_at(0, kMagic.size());
  if (begin == kMagic) {
    replayed_ = kMagic.size();
  } else if (kMagic.substr(0, begin.size()) == begin) {  // new, or its maker was killed
    write_at(0, std::string(kMagic));
    replayed_ = kMagic.size();
  } else {
    damaged("it is no store of Tandem");
  }
}

void FileLog::replay() {
  if (replayed_ == 0) begin_file();
  for (std::uint64_t size = size_of_same_file(); size - replayed_ >= kHead;) {
    const std::string head = read_at(replayed_, kHead);
    std::string_view rest = head;
    const auto length = take_number<std::uint32_t>(rest);
    const auto length_check = take_number<std::uint32_t>(rest);
    const auto payload_check = take_number<std::uint64_t>(rest);
    if (length_check != check32(std::string_view(head).substr(0, 4))) damaged("the length of a record is wrong");
    if (length < kPayloadHead || length > kMaxPayload) damaged(fmt::format("a record of {} bytes", length));
    if (size - replayed_ - kHead < length) return;
    const std::string payload = read_at(replayed_ + kHead, length);
    if (payload.size() != length || payload_check != check64(payload)) damaged("the checksum of a record is wrong");
    apply(payload);
    replayed_ += kHead + length;
  }
}

void FileLog::apply(const std::string& payload) {
  std::string_view rest = payload;
  const auto kind = static_cast<Kind>(take_number<std::uint8_t>(rest));
  const auto key_length = take_number<std::uint32_t>(rest);
  if (key_length > std::min(rest.size(), Store::kMaxKey)) damaged(fmt::format("a key of {} bytes", key_length));
  const std::string key(rest.substr(0, key_length));
  rest.remove_prefix(key_length);
  if (kind == Kind::set && rest.size() <= Store::kMaxValue) {
    contents_.set(key, std::string(rest));
  } else if (kind == Kind::remove && rest.empty()) {
    contents_.remove(key);
  } else {
    damaged("a record of an unknown kind");
  }
}

void FileLog::append(const std::string& payload) {
  std::string record;
  append_number(record, static_cast<std::uint32_t>(payload.size()));
  append_number(record, check32(record));
  append_number(record, check64(payload));
  record += payload;
  // What a writer that was killed left behind.
  if (ftruncate(file_.number, static_cast<off_t>(replayed_)) != 0) {
    core::fail("store file {}: cannot write: {}", path_.string(), system_reason(errno));
  }
  write_at(replayed_, record);
  apply(payload);
  replayed_ += record.size();
}

std::string FileLog::read_at(std::uint64_t offset, std::size_t length) const {
  std::string bytes(length, '\0');
  std::size_t done = 0;
  while (done < length) {
    const ssize_t count = pread(file_.number, bytes.data() + done, length - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) core::fail("store file {}: cannot read: {}", path_.string(), system_reason(errno));
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  bytes.resize(done);
  return bytes;
}

void FileLog::write_at(std::uint64_t offset, const std::string& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count =
        pwrite(file_.number, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) core::fail("store file {}: cannot write: {}", path_.string(), system_reason(errno));
    done += static_cast<std::size_t>(count);
  }
}

void FileLog::damaged(const std::string& what) const {
  core::fail("store file {}: {}, at byte {}", path_.string(), what, replayed_);
}

FileLog::Turn::Turn(FileLog& log) : log_(log) {
  log_.lock();
  try {
    log_.replay();
  } catch (...) {
    log_.unlock();
    throw;
  }
}

FileLog::Turn::~Turn() { log_.unlock(); }

void FileLog::Turn::set(const std::string& key, const std::string& value) {
  log_.append(make_payload(Kind::set, key, value));
}

void FileLog::Turn::remove(const std::string& key) { log_.append(make_payload(Kind::remove, key, "")); }

}  // namespace tandem::distributed
