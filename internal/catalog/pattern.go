package catalog

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
)

// IsPattern reports whether the name of a quota is a pattern: it contains "*" and is not "*"
// itself, which is the quota of all models.
func IsPattern(name string) bool { return name != "*" && strings.IndexByte(name, '*') >= 0 }

// Covers reports whether pattern covers name. Each "*" stands for any run of bytes, also none and
// also "/"; all other bytes stand for themselves. Each part between two "*" is looked for once, so
// the time is linear in the length of name.
func Covers(pattern, name string) bool {
	star := strings.IndexByte(pattern, '*')
	if star < 0 {
		return pattern == name
	}
	if !strings.HasPrefix(name, pattern[:star]) {
		return false
	}
	for {
		name, pattern = name[star:], pattern[star+1:]
		if star = strings.IndexByte(pattern, '*'); star < 0 {
			return strings.HasSuffix(name, pattern)
		}
		at := strings.Index(name, pattern[:star])
		if at < 0 {
			return false
		}
		name = name[at:]
	}
}

// Overlap reports whether there is a name that both patterns cover. It takes time in proportion
// to the product of their lengths: it is for checking data, not for a decision.
func Overlap(a, b string) bool {
	// What stands before the first "*" and after the last settles nearly all cases.
	for len(a) > 0 && len(b) > 0 && a[0] != '*' && b[0] != '*' {
		if a[0] != b[0] {
			return false
		}
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] != '*' && b[len(b)-1] != '*' {
		if a[len(a)-1] != b[len(b)-1] {
			return false
		}
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if a == b {
		return true
	}
	// reach[j] says that what is left of a, and b[j:], cover a common name.
	reach, next := make([]bool, len(b)+1), make([]bool, len(b)+1)
	for i := len(a); i >= 0; i-- {
		for j := len(b); j >= 0; j-- {
			switch {
			case i == len(a) && j == len(b):
				next[j] = true
			case i < len(a) && a[i] == '*':
				next[j] = reach[j] || j < len(b) && next[j+1]
			case j < len(b) && b[j] == '*':
				next[j] = next[j+1] || i < len(a) && reach[j]
			default:
				next[j] = i < len(a) && j < len(b) && a[i] == b[j] && reach[j+1]
			}
		}
		reach, next = next, reach
	}
	return reach[0]
}

// PatternIndex holds the patterns among the names of quotas. Nil is an index without patterns, and
// costs nothing. A PatternIndex never changes, and is safe for concurrent use.
type PatternIndex struct {
	starts []start // in the order of their texts
}

// start is what the patterns that begin alike have before their first "*".
type start struct {
	text     string
	outer    int      // the longest other start that text begins with, -1 if none
	patterns []string // the best first
}

// NewPatternIndex returns the index of the patterns among names, nil if there are none.
func NewPatternIndex(names iter.Seq[string]) *PatternIndex {
	byStart := make(map[string][]string)
	for name := range names {
		if IsPattern(name) {
			text, _, _ := strings.Cut(name, "*")
			byStart[text] = append(byStart[text], name)
		}
	}
	if len(byStart) == 0 {
		return nil
	}
	x := &PatternIndex{starts: make([]start, 0, len(byStart))}
	for _, text := range slices.Sorted(maps.Keys(byStart)) {
		patterns := byStart[text]
		slices.SortFunc(patterns, byLength)
		outer := len(x.starts) - 1
		for outer >= 0 && !strings.HasPrefix(text, x.starts[outer].text) {
			outer = x.starts[outer].outer
		}
		x.starts = append(x.starts, start{text, outer, slices.Compact(patterns)})
	}
	return x
}

// byLength orders patterns of which Longest takes the first: the longer, else the one that comes
// first in the order of strings. It is negative if a comes before b.
func byLength(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) }

// Longest returns the longest pattern that covers model; of several of that length it is the
// first in the order of strings. It allocates nothing, and compares model only with patterns
// that begin like it.
//
// A quota of the model's own name comes before a pattern, and so does one that Match finds; the
// quota "*" comes after it. Longest knows of neither.
func (x *PatternIndex) Longest(model string) (pattern string, ok bool) {
	if x == nil {
		return "", false
	}
	// Of the starts that model begins with, each is one that the next longer begins with, and the
	// longest is the last in the order up to model, or one that this begins with.
	low, high := 0, len(x.starts)
	for low < high {
		if middle := int(uint(low+high) / 2); x.starts[middle].text <= model {
			low = middle + 1
		} else {
			high = middle
		}
	}
	for at := low - 1; at >= 0; at = x.starts[at].outer {
		if !strings.HasPrefix(model, x.starts[at].text) {
			continue
		}
		for _, p := range x.starts[at].patterns {
			if ok && byLength(pattern, p) < 0 {
				break
			}
			if Covers(p, model) {
				pattern, ok = p, true
				break
			}
		}
	}
	return pattern, ok
}
