// stdin, stdout and stderr of a program that was started without some of them.
#pragma once

namespace tandem::core {

/// Opens those of the three that are closed, on /dev/null. To be called before anything else is opened: a file would
/// get their number, and what is printed would be written into it.
void open_standard_streams();

}  // namespace tandem::core
