// A load for a C++ compiler, and compiled: templates of the standard library.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

int main(int count, char **arguments) {
    long rounds = count > 1 ? std::atol(arguments[1]) : 1, sum = 0;
    const std::regex word("[a-z]+");
    for (long turn = 0; turn < rounds; turn++) {
        std::ostringstream text;
        for (int i = 0; i < 400; i++) text << std::hex << (i * 2654435761u >> 8) << ' ';
        const std::string all = text.str();
        std::map<std::string, int> counts;
        for (std::sregex_iterator at(all.begin(), all.end(), word), end; at != end; ++at) counts[at->str()]++;
        std::vector<std::pair<std::string, int>> ordered(counts.begin(), counts.end());
        std::sort(ordered.begin(), ordered.end(), [](auto &a, auto &b) {
            return a.second != b.second ? a.second > b.second : a.first < b.first;
        });
        for (auto &pair : ordered) sum = (sum * 31 + long(pair.first.size()) * pair.second) % 1000003;
    }
    std::printf("%ld\n", sum);
    return 0;
}
