/* Regions of a program, counted from outside:
 *
 *     gcc markers.c $(pkg-config --cflags --libs cyclometer) -o markers
 *     cyclometer stat -m -e instructions ./markers
 *
 * Run in another way it is the same program, and counts nothing.
 */
#include <cyclometer.h>
#include <stdio.h>

#define SIZE 64

static double left[SIZE][SIZE], right[SIZE][SIZE], product[SIZE][SIZE];

static void fill(void)
{
    cyclometer_marker_begin("fill");
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++) {
            left[i][j] = i + j;
            right[i][j] = i - j;
        }
    cyclometer_marker_end("fill");
}

static void multiply(void)
{
    cyclometer_marker_begin("multiply");
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++)
            for (int k = 0; k < SIZE; k++)
                product[i][j] += left[i][k] * right[k][j];
    cyclometer_marker_end("multiply");
}

int main(void)
{
    fill();
    for (int n = 0; n < 3; n++)
        multiply();
    printf("%g, %s\n", product[1][2], cyclometer_marker_attached() ? "counted" : "not counted");
    return 0;
}
