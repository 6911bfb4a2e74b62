package state_test

import (
	"math"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

const most = math.MaxInt

func count(input, output int) state.Count { return state.Count{Input: input, Output: output} }

func TestCountArithmetic(t *testing.T) {
	tests := []struct {
		name      string
		got, want state.Count
	}{
		{"plus", count(1, 2).Plus(count(3, 4)), count(4, 6)},
		{"plus saturates each", count(most, 2).Plus(count(1, most-2)), count(most, most)},
		{"clamp leaves what fits", count(5, most-5).Clamp(), count(5, most-5)},
		{"clamp takes from the output", count(5, most).Clamp(), count(5, most-5)},
		{"over is never negative", count(5, 1).Over(count(3, 4)), count(2, 0)},
		{"replace", count(10, 20).Replace(count(4, 4), count(1, 9)), count(7, 25)},
		{"replace saturates", count(10, 20).Replace(count(4, 4), count(most, 0)), count(most, 16)},
		{"sum", state.SumCounts([]state.Count{count(1, 2), count(3, 4), {}}), count(4, 6)},
		{"sum of none", state.SumCounts(nil), state.Count{}},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, tt.got, tt.want)
		}
	}
}

func TestCountOfEachKind(t *testing.T) {
	tests := []struct {
		count              state.Count
		all, input, output int
	}{
		{state.Count{}, 0, 0, 0},
		{count(3, 4), 7, 3, 4},
		{count(most, 1), most, most, 1},
		{count(most-1, 1), most, most - 1, 1},
	}
	for _, tt := range tests {
		c := tt.count
		if c.Of(state.AllTokens) != tt.all || c.Total() != tt.all || c.Of(state.InputTokens) != tt.input || c.Of(state.OutputTokens) != tt.output {
			t.Errorf("%+v: all %d, input %d, output %d; want %d, %d, %d", c,
				c.Of(state.AllTokens), c.Of(state.InputTokens), c.Of(state.OutputTokens), tt.all, tt.input, tt.output)
		}
	}
}

func TestCountIsSaturated(t *testing.T) {
	for c, want := range map[state.Count]bool{
		count(most, 0): true, count(0, most): true, count(most-1, most-1): false, {}: false,
	} {
		if c.Saturated() != want {
			t.Errorf("Saturated of %+v is %t, want %t", c, !want, want)
		}
	}
}
