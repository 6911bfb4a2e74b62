package batch

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// counts are what has become of the lines so far.
type counts struct {
	done, failed, retries atomic.Int64
	prompt, output        atomic.Int64 // tokens

	mu       sync.Mutex
	failures map[string]int // by their codes
}

// add counts an outcome, which may not have been written.
func (c *counts) add(o *outcome, lost bool) {
	switch {
	case o.failure != nil:
		c.failed.Add(1)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.failures == nil {
			c.failures = make(map[string]int)
		}
		c.failures[o.failure.Code]++
	case o.text != nil && !lost:
		c.done.Add(1)
	}
}

// Summary is what a run has done, as its JSON tells it.
type Summary struct {
	Lines     int            `json:"lines"`               // of IN
	Before    int            `json:"done_before"`         // that OUT had
	Done      int            `json:"done"`                // by this run
	Failed    int            `json:"failed"`              // in this run
	Failures  map[string]int `json:"failures,omitempty"`  // of the failed ones, by their codes
	BadLines  int            `json:"bad_lines,omitempty"` // of the failed ones
	NeverFits int            `json:"never_fits,omitempty"`
	Left      int            `json:"left"` // that were not sent
	Retries   int            `json:"retries"`
	Tokens    Tokens         `json:"tokens"`
	Dollars   float64        `json:"dollars"`       // of this run
	AllCost   float64        `json:"dollars_total"` // of all runs of this OUT
	Seconds   float64        `json:"seconds"`
	Stopped   Stop           `json:"stopped,omitempty"` // why before the end
}

// Tokens are those that answers report.
type Tokens struct {
	Prompt int64 `json:"prompt"`
	Output int64 `json:"output"`
}

func (b *Batch) summary() Summary {
	s := Summary{
		Lines: b.survey.lines, Before: b.survey.finished,
		Done: int(b.count.done.Load()), Failed: int(b.count.failed.Load()), Retries: int(b.count.retries.Load()),
		Tokens:  Tokens{b.count.prompt.Load(), b.count.output.Load()},
		Seconds: time.Since(b.began).Round(time.Millisecond).Seconds(),
	}
	s.Left = s.Lines - s.Before - s.Done - s.Failed
	b.count.mu.Lock()
	s.Failures = maps.Clone(b.count.failures)
	b.count.mu.Unlock()
	s.BadLines, s.NeverFits = s.Failures[codeBadLine], s.Failures[codeNeverFits]
	spent, _ := b.room.costs()
	s.Dollars, s.AllCost = spent.Dollars(), b.survey.state.Spent.Add(spent).Dollars()
	b.mu.Lock()
	defer b.mu.Unlock()
	s.Stopped = b.stopped
	return s
}
