package limit_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/limit"
)

// windowLimiter is what every limiter in a window can do.
type windowLimiter interface {
	limit.Holder
	Take(n int) limit.Decision
}

// windowKind is a limiter in a window, and by its definition how many units of a history
// count at an instant. Instants are nanoseconds since the epoch.
type windowKind struct {
	name string
	make func(n int, window time.Duration) (windowLimiter, error)
	used func(history []windowEntry, now, window int64) int
}

// windowEntry is units that were charged, or are on hold; or 0 units of a hold that was
// cancelled, which may have begun an anchored window.
type windowEntry struct {
	at   int64
	n    int
	open bool
	gone bool // with an anchored window that has never begun
}

// orNil keeps a nil pointer from becoming an interface that is not nil.
func orNil[T any, P interface {
	*T
	windowLimiter
}](l P, err error) (windowLimiter, error) {
	if l == nil {
		return nil, err
	}
	return l, err
}

var windowKinds = []windowKind{
	{"fixed", func(n int, w time.Duration) (windowLimiter, error) { return orNil(limit.NewFixedWindow(n, w)) }, fixedUsed},
	{"anchored", func(n int, w time.Duration) (windowLimiter, error) { return orNil(limit.NewAnchoredWindow(n, w)) }, anchoredUsed},
	{"log", func(n int, w time.Duration) (windowLimiter, error) { return orNil(limit.NewSlidingLog(n, w)) }, logUsed},
	{"counter", func(n int, w time.Duration) (windowLimiter, error) { return orNil(limit.NewSlidingCounter(n, w)) }, counterUsed},
}

// calendarCell is the number of the cell in which an instant lies, and how much of it
// has elapsed.
func calendarCell(at, window int64) (number, elapsed int64) {
	number, elapsed = at/window, at%window
	if elapsed < 0 {
		number--
		elapsed += window
	}
	return number, elapsed
}

func fixedUsed(history []windowEntry, now, window int64) (used int) {
	cell, _ := calendarCell(now, window)
	for _, e := range history {
		if c, _ := calendarCell(e.at, window); c == cell && !e.open {
			used += e.n
		}
	}
	return used
}

// anchoredStarts is where the window of each entry begins.
func anchoredStarts(history []windowEntry, window int64) []int64 {
	starts := make([]int64, len(history))
	start, begun := int64(0), false
	for i, e := range history {
		if !e.gone && (!begun || e.at >= start+window) {
			start, begun = e.at, true
		}
		starts[i] = start
	}
	return starts
}

func anchoredUsed(history []windowEntry, now, window int64) (used int) {
	start, begun := int64(0), false
	for _, e := range history {
		if e.gone {
			continue
		}
		if !begun || e.at >= start+window {
			start, begun, used = e.at, true, 0
		}
		if !e.open {
			used += e.n
		}
	}
	if now >= start+window {
		return 0
	}
	return used
}

func logUsed(history []windowEntry, now, window int64) (used int) {
	for _, e := range history {
		if e.at > now-window && !e.open {
			used += e.n
		}
	}
	return used
}

func counterUsed(history []windowEntry, now, window int64) int {
	cell, elapsed := calendarCell(now, window)
	var previous, current int64
	for _, e := range history {
		switch c, _ := calendarCell(e.at, window); {
		case e.open:
		case c == cell:
			current += int64(e.n)
		case c == cell-1:
			previous += int64(e.n)
		}
	}
	return int(previous*(window-elapsed)/window + current)
}

// windowOracle keeps all that was admitted, with its instant, and counts by definition.
type windowOracle struct {
	kind    windowKind
	limit   int
	window  int64
	latest  int64
	history []windowEntry
}

func (o *windowOracle) used(now int64) int {
	if len(o.history) > 0 {
		now = max(now, o.latest)
	}
	return o.kind.used(o.history, now, o.window)
}

func (o *windowOracle) held() (units int) {
	for _, e := range o.history {
		if e.open {
			units += e.n
		}
	}
	return units
}

func (o *windowOracle) passes(now int64, n int) bool { return o.used(now)+o.held()+n <= o.limit }

// add notes units, charged or on hold, and returns their place in the history.
func (o *windowOracle) add(now int64, n int, open bool) int {
	if len(o.history) > 0 {
		now = max(now, o.latest)
	}
	o.latest = now
	o.history = append(o.history, windowEntry{at: now, n: n, open: open})
	return len(o.history) - 1
}

// end ends the hold at a place in the history.
func (o *windowOracle) end(i int, commit bool) {
	o.history[i].open = false
	if commit {
		return
	}
	o.history[i].n = 0
	if o.kind.name != "anchored" {
		return
	}
	// A window in which nothing was charged or put on hold has never begun.
	starts := anchoredStarts(o.history, o.window)
	for j, e := range o.history {
		if starts[j] == starts[i] && e.n > 0 {
			return
		}
	}
	for j := range o.history {
		o.history[j].gone = o.history[j].gone || starts[j] == starts[i]
	}
}

// check tells what of a decision is not as defined. The history has what was charged.
func (o *windowOracle) check(d limit.Decision, passes bool, now int64, n int) error {
	never := n < 0 || n > o.limit
	held := o.held()
	switch {
	case d.Never != never:
		return fmt.Errorf("Never, want %v", never)
	case d.OK != passes:
		return fmt.Errorf("OK, want %v", passes)
	case d.Remaining != o.limit-o.used(now)-held:
		return fmt.Errorf("Remaining, want %d", o.limit-o.used(now)-held)
	}
	wait := int64(d.RetryAfter)
	if passes || never || held+n > o.limit {
		if wait != 0 {
			return fmt.Errorf("RetryAfter, want 0")
		}
	} else if wait <= 0 || !o.passes(now+wait, n) || o.passes(now+wait-1, n) {
		return fmt.Errorf("RetryAfter is not exact")
	}
	if reset := int64(d.ResetAfter); reset < 0 || o.used(now+reset) > 0 || reset > 0 && o.used(now+reset-1) == 0 {
		return fmt.Errorf("ResetAfter is not exact")
	}
	return nil
}

// Every limiter in a window decides by its definition: with charges and holds that end in
// any order, instants on the edges of windows and in the past, and long gaps.
func TestWindowsDecideByDefinition(t *testing.T) {
	decisions := 1_000_000 / racetest.Factor
	if testing.Short() {
		decisions /= 10
	}
	for _, kind := range windowKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(7, 1))
			for done := 0; done < decisions; {
				made, err := playWindow(kind, r)
				if err != nil {
					t.Fatal(err)
				}
				done += made
			}
		})
	}
}

// playWindow plays one limiter from its beginning, and returns how often it decided.
func playWindow(kind windowKind, r *rand.Rand) (decisions int, err error) {
	windows := []int64{1, 2, 3, 7, 10, 60, 1000, int64(time.Second), int64(time.Minute)}
	o := &windowOracle{kind: kind, limit: 1 + r.IntN(12), window: windows[r.IntN(len(windows))]}
	l, err := kind.make(o.limit, time.Duration(o.window))
	if err != nil {
		return 0, err
	}
	type hold struct {
		limit.Hold
		place int
	}
	var open []hold
	now := r.Int64N(1<<61) - 1<<60
	steps := []int64{0, 0, 0, 1, 1, o.window / int64(o.limit), o.window / 3, o.window - 1, o.window, -1, -o.window / 2, -2 * o.window}
	for decisions < 60 {
		if len(open) > 0 && r.IntN(3) == 0 {
			i, commit := r.IntN(len(open)), r.IntN(2) == 0
			h := open[i]
			open = append(open[:i], open[i+1:]...)
			o.end(h.place, commit)
			if commit {
				h.Commit()
				h.Cancel()
			} else {
				h.Cancel()
				h.Commit()
			}
		}
		if r.IntN(40) == 0 {
			now += 5*o.window + r.Int64N(1+r.Int64N(1+1000*o.window))
		} else if now += steps[r.IntN(len(steps))]; r.IntN(4) == 0 {
			now += r.Int64N(o.window)
		}
		n := 1
		if r.IntN(3) == 0 {
			n = r.IntN(o.limit+4) - 1
		}
		holds := r.IntN(5) == 0
		passes := n >= 0 && o.passes(now, n)
		at := time.Unix(0, now)
		var d limit.Decision
		if holds {
			var h limit.Hold
			h, d = l.HoldAt(at, n)
			if passes && n > 0 {
				open = append(open, hold{h, o.add(now, n, true)})
			} else if h != (limit.Hold{}) {
				return 0, fmt.Errorf("a hold of nothing")
			}
		} else {
			d = l.TakeAt(at, n)
			if passes && n > 0 {
				o.add(now, n, false)
			}
		}
		decisions++
		if err := o.check(d, passes, now, n); err != nil {
			return 0, fmt.Errorf("limit %d, window %d, hold %v, %d units at %d: %+v: %w\nhistory: %+v",
				o.limit, o.window, holds, n, now, d, err, o.history)
		}
	}
	return decisions, nil
}
