# Writes a C file of so many functions: awk -v functions=40 -v name=part -f source.awk
BEGIN {
    print "#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
    for (i = 0; i < functions; i++) {
        printf "static int64_t %s_%d(const char *text, int64_t seed)\n{\n", name, i
        printf "    int64_t sum = seed * %d, table[%d] = { 0 };\n", i + 3, i % 9 + 4
        printf "    for (const char *at = text; *at; at++) {\n        switch ((*at + %d) %% 7) {\n", i
        for (j = 0; j < 6; j++)
            printf "        case %d: sum += table[(*at * %d) %% %d] ^ %d; break;\n", j, j + i + 1, i % 9 + 4, i * j + 11
        printf "        default: table[*at %% %d] += sum %% %d;\n        }\n    }\n", i % 9 + 4, i + 5
        printf "    for (size_t i = 0; i < sizeof table / sizeof *table; i++)\n        sum = sum * 31 + table[i];\n"
        print "    return sum % 1000003;\n}\n"
    }
    printf "int64_t %s(const char *text)\n{\n    int64_t sum = 1;\n", name
    for (i = 0; i < functions; i++) printf "    sum = %s_%d(text, sum);\n", name, i
    print "    return sum;\n}"
}
