// A load for a program with a scheduler of its own: goroutines, channels, a map, a garbage collector.
package main

import (
	"fmt"
	"os"
	"sort"
	"strconv"
)

func words(turn int) int {
	counts := map[string]int{}
	for i := 0; i < 20000; i++ {
		counts[strconv.FormatInt(int64(uint32(i*2654435761)>>20), 36)] += i * turn
	}
	ordered := make([]string, 0, len(counts))
	for word := range counts {
		ordered = append(ordered, word)
	}
	sort.Strings(ordered)
	sum := 0
	for _, word := range ordered {
		sum = (sum*31 + counts[word]%1000003) % 1000003
	}
	return sum
}

func main() {
	rounds, _ := strconv.Atoi(os.Args[1])
	results := make(chan int)
	for worker := 0; worker < 4; worker++ {
		go func(first int) {
			sum := 0
			for turn := first; turn < rounds; turn += 4 {
				sum += words(turn)
			}
			results <- sum
		}(worker)
	}
	total := 0
	for worker := 0; worker < 4; worker++ {
		total += <-results
	}
	fmt.Println(total)
}
