// A store in a file that all ranks see, on one machine or a shared file system that knows locks. The file is a log of
// changes, which each rank replays; it need not exist before. Who ends a run well removes it (world.h).
#pragma once

#include <filesystem>
#include <memory>

#include "tandem/distributed/store.h"

namespace tandem::distributed {

class FileStore final : public Store {
 public:
  /// Throws Error where the file cannot be opened, made or locked, or holds something else than a store.
  explicit FileStore(const std::filesystem::path& path);
  ~FileStore() override;

  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> get(const std::string& key, Milliseconds timeout) override;
  std::int64_t add(const std::string& key, std::int64_t amount) override;
  std::optional<std::string> compare_and_set(const std::string& key, const std::optional<std::string>& expected,
                                             const std::string& desired) override;
  bool remove(const std::string& key) override;
  std::shared_ptr<Store> connect_again() override;
  std::string str() const override;

 private:
  class Log;
  std::unique_ptr<Log> log_;
};

}  // namespace tandem::distributed
