// A store in this process's memory, for ranks that are threads, and for a run of one rank.
#pragma once

#include <memory>

#include "tandem/distributed/store.h"

namespace tandem::distributed {

class MemoryStore final : public Store {
 public:
  MemoryStore();

  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> get(const std::string& key, Milliseconds timeout) override;
  std::int64_t add(const std::string& key, std::int64_t amount) override;
  std::optional<std::string> compare_and_set(const std::string& key, const std::optional<std::string>& expected,
                                             const std::string& desired) override;
  bool remove(const std::string& key) override;
  std::shared_ptr<Store> connect_again() override;
  std::string str() const override { return "memory"; }

 private:
  struct Contents;
  explicit MemoryStore(std::shared_ptr<Contents> contents);

  std::shared_ptr<Contents> contents_;  // shared by all connections
};

}  // namespace tandem::distributed
