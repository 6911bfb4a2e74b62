package main

import (
	"slices"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// counts is the work of the agents up to one moment.
type counts struct {
	calls    int // sent, also those that were refused or failed
	tokens   int // their estimates, charged to the quota here
	answered int // prompts
	failed   int // prompts
	refused  int // calls answered with 429
	cut      int // calls that the end of the run cut off

	reported usage // as the provider reports it

	before  ratelimit.ModelStats // left in the window by an earlier run
	peakRPM int                  // the fullest minute
	peakTPM int

	waits   int           // calls that had to wait
	longest time.Duration // of one of them
	waited  time.Duration // in which at least one of them did
	waiting int           // at present
	next    prompt        // the one of them that has waited longest
}

// tally counts what the agents do. All its methods are safe for concurrent use.
type tally struct {
	mu    sync.Mutex
	c     counts
	line  []*wait   // at present, the first to come in front
	since time.Time // when the line began
}

// wait is one call that waits.
type wait struct {
	prompt prompt
	since  time.Time
}

func newTally(before ratelimit.ModelStats) *tally {
	return &tally{c: counts{before: before, peakRPM: before.RPM, peakTPM: before.TPM}}
}

func (t *tally) counts() counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.c
	if c.waiting = len(t.line); c.waiting > 0 {
		c.next = t.line[0].prompt
	}
	return c
}

func (t *tally) update(change func(*counts)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.c)
}

func (t *tally) answer() { t.update(func(c *counts) { c.answered++ }) }
func (t *tally) fail()   { t.update(func(c *counts) { c.failed++ }) }
func (t *tally) refuse() { t.update(func(c *counts) { c.refused++ }) }
func (t *tally) cutOff() { t.update(func(c *counts) { c.cut++ }) }

// use adds usage that the provider reported.
func (t *tally) use(u usage) {
	t.update(func(c *counts) {
		c.reported.PromptTokens += u.PromptTokens
		c.reported.CompletionTokens += u.CompletionTokens
	})
}

// call counts a call that is about to be sent, and the content of the window.
func (t *tally) call(p prompt, window ratelimit.ModelStats) {
	t.update(func(c *counts) {
		c.calls++
		c.tokens += p.estimate + p.maxTokens
	})
	t.look(window)
}

// look notes the content of the window, for the fullest minute.
func (t *tally) look(window ratelimit.ModelStats) {
	t.update(func(c *counts) {
		c.peakRPM = max(c.peakRPM, window.RPM)
		c.peakTPM = max(c.peakTPM, window.TPM)
	})
}

// startWait begins the wait of a call that d denies, and returns the function that ends
// it. A call that can never pass does not wait.
func (t *tally) startWait(d ratelimit.Decision, p prompt) (end func()) {
	if d.Never {
		return func() {}
	}
	w := &wait{p, time.Now()}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.line) == 0 {
		t.since = w.since
	}
	t.line = append(t.line, w)
	t.c.waits++
	return func() { t.endWait(w) }
}

func (t *tally) endWait(w *wait) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.c.longest = max(t.c.longest, now.Sub(w.since))
	t.line = slices.DeleteFunc(t.line, func(other *wait) bool { return other == w })
	if len(t.line) == 0 {
		t.c.waited += now.Sub(t.since)
	}
}
