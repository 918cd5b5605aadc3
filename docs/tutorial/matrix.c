/* The product of two square matrices of ints, in one of two orders of its loops.
 *
 *     matrix [SIZE [ORDER [TIMES]]]
 *
 * SIZE is the number of rows and columns (10). ORDER is ijk, which walks down the columns of the second matrix, or ikj, which
 * walks along its rows (ijk). TIMES is how often the product is computed (1): two counts with different TIMES differ by the
 * product alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Larger products are printed as their sum only. */
enum { SHOWN = 16, LARGEST = 4096 };

__attribute__((noinline)) static void multiply_ijk(int size, const int *first, const int *second, int *product) {
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++) {
            int sum = 0;
            for (int k = 0; k < size; k++)
                sum += first[i * size + k] * second[k * size + j];
            product[i * size + j] = sum;
        }
}

__attribute__((noinline)) static void multiply_ikj(int size, const int *first, const int *second, int *product) {
    for (int i = 0; i < size * size; i++)
        product[i] = 0;
    for (int i = 0; i < size; i++)
        for (int k = 0; k < size; k++) {
            int factor = first[i * size + k];
            for (int j = 0; j < size; j++)
                product[i * size + j] += factor * second[k * size + j];
        }
}

static void print(int size, const int *product) {
    long sum = 0;
    for (int i = 0; i < size * size; i++)
        sum += product[i];
    if (size > SHOWN) {
        printf("sum of the product: %ld\n", sum);
        return;
    }
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++)
            printf("%d%c", product[i * size + j], j + 1 < size ? ' ' : '\n');
}

/* A number from 1 to `largest`; anything else ends the program. */
static int number(const char *text, int largest) {
    char *end;
    long value = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || value < 1 || value > largest) {
        fprintf(stderr, "matrix: '%s' is no number from 1 to %d\n", text, largest);
        exit(2);
    }
    return (int)value;
}

int main(int argc, char **argv) {
    int size = argc > 1 ? number(argv[1], LARGEST) : 10;
    const char *order = argc > 2 ? argv[2] : "ijk";
    int times = argc > 3 ? number(argv[3], 1000000) : 1;
    int rows = strcmp(order, "ikj") == 0;
    size_t cells = (size_t)size * (size_t)size;
    int *first = malloc(3 * cells * sizeof *first);

    if (argc > 4 || (!rows && strcmp(order, "ijk") != 0)) {
        fputs("usage: matrix [SIZE [ijk|ikj [TIMES]]]\n", stderr);
        return 2;
    }
    if (first == NULL) {
        fputs("matrix: no memory\n", stderr);
        return 1;
    }
    for (size_t i = 0; i < 2 * cells; i++)
        first[i] = 2;
    for (int i = 0; i < times; i++)
        (rows ? multiply_ikj : multiply_ijk)(size, first, first + cells, first + 2 * cells);
    print(size, first + 2 * cells);
    free(first);
    return 0;
}
