#include "tandem/distributed/notice.h"

#include <cstdio>

namespace tandem::distributed {

void print_notice(const std::string& line) { std::fputs((line + '\n').c_str(), stderr); }

}  // namespace tandem::distributed
