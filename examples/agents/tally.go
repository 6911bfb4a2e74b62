package main

import (
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// counts is what the agents did up to one moment.
type counts struct {
	calls    int // sent, also those that were refused or failed
	answered int // prompts
	failed   int // prompts
	refused  int // calls answered with 429
	cut      int // calls that the end of the run cut off

	requests, tokens int   // charged to the quota here, by estimate
	reported         usage // what the provider says was used

	before         ratelimit.ModelStats // what an earlier run had left in the window
	peakRPM        int                  // the fullest minute
	peakTPM        int
	waitsRPM       int // waits for requests, and for tokens
	waitsTPM       int
	waited         time.Duration // all of them together
	longest        time.Duration
	waiting        bool
	since, freesAt time.Time // of the present wait
}

// tally counts what the agents do. All its methods are safe for concurrent use.
type tally struct {
	mu sync.Mutex
	c  counts
}

func newTally(before ratelimit.ModelStats) *tally {
	return &tally{c: counts{before: before, peakRPM: before.RPM, peakTPM: before.TPM}}
}

func (t *tally) counts() counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.c
}

func (t *tally) update(change func(*counts)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.c)
}

func (t *tally) call()   { t.update(func(c *counts) { c.calls++ }) }
func (t *tally) answer() { t.update(func(c *counts) { c.answered++ }) }
func (t *tally) fail()   { t.update(func(c *counts) { c.failed++ }) }
func (t *tally) refuse() { t.update(func(c *counts) { c.refused++ }) }
func (t *tally) cutOff() { t.update(func(c *counts) { c.cut++ }) }

// use adds what the provider reported.
func (t *tally) use(u usage) {
	t.update(func(c *counts) {
		c.reported.PromptTokens += u.PromptTokens
		c.reported.CompletionTokens += u.CompletionTokens
	})
}

// charge adds what was recorded, with what the window then held.
func (t *tally) charge(tokens int, window ratelimit.ModelStats) {
	t.update(func(c *counts) {
		c.requests++
		c.tokens += tokens
		c.peakRPM = max(c.peakRPM, window.RPM)
		c.peakTPM = max(c.peakTPM, window.TPM)
	})
}

// startWait begins a wait for the room that d denies.
func (t *tally) startWait(d ratelimit.Decision) {
	now := time.Now()
	t.update(func(c *counts) {
		if d.Code == ratelimit.DecisionRPMLimit {
			c.waitsRPM++
		} else {
			c.waitsTPM++
		}
		c.waiting, c.since, c.freesAt = true, now, now.Add(d.RetryAfter)
	})
}

func (t *tally) endWait() {
	t.update(func(c *counts) {
		wait := time.Since(c.since)
		c.waited += wait
		c.longest = max(c.longest, wait)
		c.waiting = false
	})
}
