package modelname

import (
	"cmp"
	"iter"
)

// maxNearest is the longest name, in bytes, that Nearest compares: its work is up to the product
// of both lengths.
const maxNearest = 64

// Nearest returns the name that is most like model, for a hint to who has mistyped it: the one
// that takes the fewest changes of a byte to make of model, and of those the first in order. It is
// empty where all would take more than half of the bytes, or more than one where there is only
// one, and for a model of more than 64. Patterns and the quota of all models are no names.
func Nearest(model string, names iter.Seq[string]) (nearest string) {
	if len(model) > maxNearest {
		return ""
	}
	least := max(len(model)/2, 1) + 1
	for name := range names {
		if !IsName(name) || len(name) > maxNearest || isPattern(name) {
			continue
		}
		if n := distance(model, name, least); n < least || n == least && nearest != "" && cmp.Less(name, nearest) {
			least, nearest = n, name
		}
	}
	return nearest
}

func isPattern(name string) bool {
	for i := range len(name) {
		if name[i] == '*' {
			return true
		}
	}
	return false
}

// distance returns how many bytes have to be inserted, removed or replaced to make b of a; or any
// number above most, if it is more than that. Neither is longer than maxNearest.
func distance(a, b string, most int) int {
	if max(len(a)-len(b), len(b)-len(a)) > most {
		return most + 1
	}
	var row [maxNearest + 1]int // the distances of the part of a so far to all beginnings of b
	for j := range len(b) + 1 {
		row[j] = j
	}
	for i := range len(a) {
		before, least := row[0], i+1
		row[0] = i + 1
		for j := range len(b) {
			replaced := before
			if a[i] != b[j] {
				replaced++
			}
			before = row[j+1]
			row[j+1] = min(replaced, row[j+1]+1, row[j]+1)
			least = min(least, row[j+1])
		}
		if least > most {
			return least
		}
	}
	return row[len(b)]
}
