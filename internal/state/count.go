package state

import "math"

// Count is a number of tokens: input and output apart, because a quota may limit them apart.
// Neither is negative, except in an unvalidated estimate. The zero value is no tokens. All sums of
// counts saturate at the largest int. It is a plain value: copies may be used concurrently.
type Count struct{ Input, Output int }

// AddSaturated adds two numbers that are not negative; a sum beyond the largest int is the largest
// int.
func AddSaturated(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}

// SaturatedInt returns a stored count as an int, which has 32 bits on some machines. A negative
// count is zero.
func SaturatedInt(count int64) int { return int(min(max(count, 0), math.MaxInt)) }

// Plus returns the sum of c and d.
func (c Count) Plus(d Count) Count {
	return Count{AddSaturated(c.Input, d.Input), AddSaturated(c.Output, d.Output)}
}

// Clamp returns c with so much less output that the total does not saturate.
func (c Count) Clamp() Count { return Count{c.Input, min(c.Output, math.MaxInt-c.Input)} }

// Over returns by how much c exceeds d, input and output apart.
func (c Count) Over(d Count) Count {
	return Count{max(c.Input-d.Input, 0), max(c.Output-d.Output, 0)}
}

// Total returns input and output together.
func (c Count) Total() int { return AddSaturated(c.Input, c.Output) }

// Saturated reports whether c may stand for more than it says.
func (c Count) Saturated() bool { return c.Input == math.MaxInt || c.Output == math.MaxInt }

// Replace returns the sum c after one of its parts changed. c must not be saturated.
func (c Count) Replace(was, is Count) Count {
	return Count{AddSaturated(c.Input-was.Input, is.Input), AddSaturated(c.Output-was.Output, is.Output)}
}

// SumCounts adds counts up.
func SumCounts(counts []Count) (sum Count) {
	for _, c := range counts {
		sum = sum.Plus(c)
	}
	return sum
}

// TokenKind says which tokens of a Count a limit counts. The zero value is AllTokens.
type TokenKind int

// The kinds of tokens.
const (
	AllTokens    TokenKind = iota // input and output together
	InputTokens                   // of the prompt
	OutputTokens                  // of the answer
)

// Of returns the tokens of a kind.
func (c Count) Of(k TokenKind) int {
	switch k {
	case InputTokens:
		return c.Input
	case OutputTokens:
		return c.Output
	}
	return c.Total()
}
