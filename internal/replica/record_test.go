package replica

import (
	"fmt"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
)

// What was told to a log is told to the next one, if that has not heard it either; but settings are
// as they were told.
func TestJournalOfLogsLost(t *testing.T) {
	note := func(j *journal, n int64, c engine.Command) { j.end(c.Append(j.begin(1, n, 100, false))) }
	call := func(n int64) engine.Charged {
		return engine.Charged{ID: account.ID{Process: 1, N: n}, Name: engine.Name{Asked: "m", Counted: "m"}}
	}
	var first, second journal
	note(&first, 1, call(1))
	note(&first, 2, engine.RemoveQuota{Counted: "m"})
	note(&first, 3, call(3))
	second.precede(&first)
	note(&second, 4, engine.RemoveQuota{Counted: "n"})
	var told []string
	for _, c := range second.missing(func(_, n int64, _ account.ID) bool { return n <= 1 }, scanned, 100, 0) {
		told = append(told, fmt.Sprintf("%T", c))
	}
	if got, want := fmt.Sprint(told), "[engine.RemoveQuota engine.Charged]"; got != want || len(first.pages) != 0 {
		t.Errorf("told %s, want %s", got, want)
	}
}

// Of a call whose beginning a log has heard, the end is told; of another one, all, even where its
// end was heard: without its beginning that means nothing.
func TestJournalTellsEnds(t *testing.T) {
	const all = "[engine.Charged engine.Charged]"
	for _, tt := range []struct {
		name         string
		begins, ends bool // was heard
		want         string
	}{
		{"nothing was heard", false, false, all},
		{"its beginning was heard", true, false, "[engine.Settle]"},
		{"its end was heard", false, true, all},
		{"all was heard", true, true, "[]"},
	} {
		var j journal
		c := engine.Charged{ID: account.ID{Process: 1, N: 1}, Name: engine.Name{Asked: "m", Counted: "m"}, Open: true}
		j.end(c.Append(j.begin(1, 1, 100, false)))
		c.Open = false
		j.end(c.Append(j.begin(1, 2, 100, true)))
		told := []string{}
		for _, c := range j.missing(func(_, n int64, _ account.ID) bool { return n == 1 && tt.begins || n == 2 && tt.ends }, scanned, 100, 0) {
			told = append(told, fmt.Sprintf("%T", c))
		}
		if got := fmt.Sprint(told); got != tt.want {
			t.Errorf("%s: told %s, want %s", tt.name, got, tt.want)
		}
	}
}

// scanned has each entry of a page looked at.
func scanned(*page) bool { return false }
