package main

import (
	"slices"
	"time"
)

// audit knows only the reports of the workers, and nothing from the limiter: it checks
// the limiter.
type audit struct {
	calls  []*call       // in the order of their admission
	open   map[int]*call // those that are not over, by the process
	dead   map[int]bool  // processes that were killed
	most   int           // concurrent calls
	tokens int           // the most that a minute held
}

// call is one call that was admitted.
type call struct {
	worker int
	at     time.Time
	tokens int // the estimate; the real usage once it is over
}

func newAudit() *audit {
	return &audit{open: make(map[int]*call), dead: make(map[int]bool)}
}

// add notes the report of a worker, which may have been killed since.
func (a *audit) add(e event) {
	if e.Done {
		if c := a.open[e.PID]; c != nil {
			c.tokens = e.Tokens
			delete(a.open, e.PID)
		}
		return
	}
	c := &call{worker: e.Worker, at: e.At, tokens: e.Tokens}
	// Two workers may tell in another order than they were admitted in.
	i, _ := slices.BinarySearchFunc(a.calls, c.at, func(c *call, at time.Time) int { return c.at.Compare(at) })
	a.calls = slices.Insert(a.calls, i, c)
	a.open[e.PID] = c
	_, tokens := a.lastMinute()
	a.tokens = max(a.tokens, tokens)
	a.most = max(a.most, a.atOnce())
}

// lose notes that a process is about to be killed. Whether it still holds its slot is
// unknown from then on. Its request stays counted, at its estimate.
func (a *audit) lose(pid int) { a.dead[pid] = true }

// atOnce returns how many calls are under way.
func (a *audit) atOnce() (calls int) {
	for pid := range a.open {
		if !a.dead[pid] {
			calls++
		}
	}
	return calls
}

// minute returns the usage in the minute that ends at a time.
func (a *audit) minute(end time.Time) (requests, tokens int) {
	for _, c := range slices.Backward(a.calls) {
		if end.Sub(c.at) > time.Minute {
			break
		}
		if !c.at.After(end) {
			requests++
			tokens += c.tokens
		}
	}
	return requests, tokens
}

// lastMinute returns the usage in the minute that ends with the last admission.
func (a *audit) lastMinute() (requests, tokens int) {
	return a.minute(a.calls[len(a.calls)-1].at)
}

// fullest returns the most requests, and the most tokens, that any minute held.
func (a *audit) fullest() (requests, tokens int) {
	for _, c := range a.calls {
		r, _ := a.minute(c.at)
		requests = max(requests, r)
	}
	return requests, a.tokens
}
