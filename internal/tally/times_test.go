package tally

import "testing"

func TestTimes(t *testing.T) {
	for factor, want := range map[float64]string{0: "less than 0.01", 0.0099: "less than 0.01", 0.01: "0.01", 0.234: "0.23", 2.36: "2.4", 9.96: "10", 12.4: "12"} {
		if got := Times(factor); got != want {
			t.Errorf("%v is %q, want %q", factor, got, want)
		}
	}
}
