#include "tandem/distributed/stores/prefix_store.h"

#include <utility>

namespace tandem::distributed {

PrefixStore::PrefixStore(std::string prefix, std::shared_ptr<Store> store)
    : prefix_(std::move(prefix) + "/"), store_(std::move(store)) {}

void PrefixStore::set(const std::string& key, const std::string& value) { store_->set(prefix_ + key, value); }

std::optional<std::string> PrefixStore::get(const std::string& key, Milliseconds timeout) {
  return store_->get(prefix_ + key, timeout);
}

std::int64_t PrefixStore::add(const std::string& key, std::int64_t amount) {
  return store_->add(prefix_ + key, amount);
}

std::optional<std::string> PrefixStore::compare_and_set(const std::string& key,
                                                        const std::optional<std::string>& expected,
                                                        const std::string& desired) {
  return store_->compare_and_set(prefix_ + key, expected, desired);
}

bool PrefixStore::set_at_end(const std::string& key, const std::optional<std::string>& value) {
  return store_->set_at_end(prefix_ + key, value);
}
bool PrefixStore::remove(const std::string& key) { return store_->remove(prefix_ + key); }

std::shared_ptr<Store> PrefixStore::connect_again() {
  return std::make_shared<PrefixStore>(prefix_.substr(0, prefix_.size() - 1), store_->connect_again());
}

std::string PrefixStore::str() const { return store_->str(); }

}  // namespace tandem::distributed
