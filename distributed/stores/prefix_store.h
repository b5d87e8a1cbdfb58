// Names of one's own in a store of any kind: key "a" of prefix "group" is "group/a" of the store below.
#pragma once

#include <memory>
#include <string>

#include "tandem/distributed/store.h"

namespace tandem::distributed {

class PrefixStore final : public Store {
 public:
  PrefixStore(std::string prefix, std::shared_ptr<Store> store);

  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> get(const std::string& key, Milliseconds timeout) override;
  std::int64_t add(const std::string& key, std::int64_t amount) override;
  std::optional<std::string> compare_and_set(const std::string& key, const std::optional<std::string>& expected,
                                             const std::string& desired) override;
  bool remove(const std::string& key) override;
  bool set_at_end(const std::string& key, const std::optional<std::string>& value) override;
  std::shared_ptr<Store> connect_again() override;
  std::string str() const override;

 private:
  std::string prefix_;
  std::shared_ptr<Store> store_;
};

}  // namespace tandem::distributed
