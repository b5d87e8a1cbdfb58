// What ThreadSanitizer cannot see: that bytes which came over TCP depend on bytes which went.
//
// A range that a rank has sent is received into once all others have added to it. That may happen while the call that
// sent it has not returned yet, though the system has copied it; to the sanitizer this is a race of the two calls.
// Groups of threads run the same plans without TCP, and unsuppressed.

#if defined(__SANITIZE_THREAD__)
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() { return "race:gloo::transport::tcp::Pair::write\n"; }
#endif
