// The program `launch`.
int main() { return 1; }
