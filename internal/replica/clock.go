package replica

import (
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
)

// clock is what a process knows of the time of the log: a moment of it, and when that was here.
// From there it goes on by the clock of the process.
type clock struct {
	mu    sync.Mutex
	known bool
	at    account.Now
	here  time.Time
}

// now returns the present moment of the log.
func (c *clock) now() account.Now {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nowLocked()
}

func (c *clock) nowLocked() account.Now {
	passed := int64(time.Since(c.here))
	return account.Now{Instant: c.at.Instant + passed, Wall: c.at.Wall + passed}
}

// expected returns the present instant of the log; 0 where it is not known.
func (c *clock) expected() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return 0
	}
	return c.nowLocked().Instant
}

// entry learns from an entry that was applied: it is no earlier than that.
func (c *clock) entry(now account.Now) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known && c.nowLocked().Instant < now.Instant {
		c.at, c.here = now, time.Now()
	}
}

// reply learns from the store's clock in a reply to what was sent at a time: the present lies
// between that and as much later as the reply took. What is far from there is a jump of the store's
// clock, and teaches nothing.
func (c *clock) reply(instant, wall int64, sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return
	}
	now, took := c.nowLocked().Instant, int64(time.Since(sent))
	switch {
	case now < instant && instant-now <= fleet.Slack:
		now = instant
	case now > instant+took && now-instant-took <= fleet.Slack:
		now = instant + took
	}
	c.at, c.here = account.Now{Instant: now, Wall: wall + min(max(now-instant, 0), took)}, time.Now()
}

// set sets the moment.
func (c *clock) set(now account.Now) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.at, c.here = true, now, time.Now()
}
