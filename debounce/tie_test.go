package debounce_test

import (
	"slices"
	"testing"

	"dappco.re/go/core/go-ratelimit/debounce"
)

// When something is called at the very instant at which the timer rings, either
// may come first. Each order is right, each has to come about, and nothing else may.
func TestCallsAtTheInstantOfTheTimer(t *testing.T) {
	tests := []struct {
		name   string
		opts   debounce.Options
		takes  int
		script string
		want   []string
	}{
		{"trigger: trailing", trailing, 0, "0 trigger 1, 100 trigger 2",
			[]string{"100 run 1, 200 run 2", "200 run 2"}},
		{"trigger: leading", leading, 0, "0 trigger 1, 100 trigger 2",
			[]string{"0 run 1, 100 run 2", "0 run 1"}},
		{"trigger: both", both, 0, "0 trigger 1, 100 trigger 2",
			[]string{"0 run 1, 100 run 2", "0 run 1, 200 run 2"}},
		{"trigger: MaxWait", withMaxWait(trailing, 100*ms), 0, "0 trigger 1, 50 trigger 2, 100 trigger 3",
			[]string{"100 run 2, 200 run 3", "100 run 3"}},
		{"trigger: MaxWait, leading", withMaxWait(leading, 100*ms), 0, "0 trigger 1, 50 trigger 2, 100 trigger 3",
			[]string{"0 run 1, 100 run 3"}},
		{"trigger: MaxWait, both", withMaxWait(both, 100*ms), 0, "0 trigger 1, 50 trigger 2, 100 trigger 3, 150 trigger 4",
			[]string{"0 run 1, 100 run 2, 200 run 4", "0 run 1, 100 run 3, 200 run 4"}},
		{"trigger: MaxWait, slow", withMaxWait(trailing, 100*ms), 30, "0 trigger 1, 50 trigger 2, 100 trigger 3",
			[]string{"100 run 2, 200 run 3", "100 run 3"}},
		{"cancel", trailing, 0, "0 trigger 1, 100 cancel, 150 trigger 2",
			[]string{"100 run 1, 250 run 2", "250 run 2"}},
		{"flush", trailing, 0, "0 trigger 1, 100 flush, 150 trigger 2",
			[]string{"100 run 1, 100 flushed, 250 run 2"}},
		{"stop", trailing, 0, "0 trigger 1, 100 stop, 150 trigger 2",
			[]string{"100 run 1, 100 stopped <nil>"}},
		{"stop that drops", withDropOnStop(trailing), 0, "0 trigger 1, 100 stop, 150 trigger 2",
			[]string{"100 run 1, 100 stopped <nil>", "100 stopped <nil>"}},
		{"trigger at the end of a run", both, 100, "0 trigger 1, 50 trigger 2, 100 trigger 3",
			[]string{"0 run 1, 200 run 3"}},
		{"cancel at the end of a run", both, 150, "0 trigger 1, 10 trigger 2, 150 cancel",
			[]string{"0 run 1, 150 run 2", "0 run 1"}},
		{"flush at the end of a run", both, 150, "0 trigger 1, 100 trigger 2, 150 flush",
			[]string{"0 run 1, 150 run 2, 150 flushed", "0 run 1, 150 run 2, 300 flushed"}},
		{"the timer at the end of a run", both, 100, "0 trigger 1, trigger 2",
			[]string{"0 run 1, 100 run 2"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			script := parseScript(t, tt.script)
			seen := make(map[string]int)
			for range 300 {
				got := formatNotes(playScript(t, takes(tt.takes), script, func(action func(int)) *debounce.Debouncer[int] {
					return debounce.New(tt.opts, action)
				}))
				if seen[got]++; !slices.Contains(tt.want, got) {
					t.Fatalf("got  %s\nwant one of %q", got, tt.want)
				}
			}
			for _, want := range tt.want {
				if seen[want] == 0 {
					t.Errorf("never %s", want)
				}
			}
		})
	}
}
