package replica

import (
	"sync"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
)

// clock is what a process knows of the time of the log. From there it goes on by the clock of the
// process. Those who only read it need no lock.
type clock struct {
	mu   sync.Mutex // of those that learn
	mark atomic.Pointer[mark]
}

// mark is a moment of the log, and when that was here. It never changes.
type mark struct {
	at   account.Now
	here time.Time
}

func (m *mark) now() account.Now {
	if m == nil {
		return account.Now{}
	}
	passed := int64(time.Since(m.here))
	return account.Now{Instant: m.at.Instant + passed, Wall: m.at.Wall + passed}
}

// now returns the present moment of the log; zero where it is not known.
func (c *clock) now() account.Now { return c.mark.Load().now() }

// expected returns the present instant of the log; 0 where it is not known.
func (c *clock) expected() int64 { return c.now().Instant }

func (c *clock) setLocked(at account.Now) { c.mark.Store(&mark{at, time.Now()}) }

// entry learns from an entry that was applied: it is no earlier than that.
func (c *clock) entry(now account.Now) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.mark.Load(); m != nil && m.now().Instant < now.Instant {
		c.setLocked(now)
	}
}

// reply learns from the store's clock in a reply to what was sent at a time: the present lies
// between that and as much later as the reply took. What is far from there is a jump of the store's
// clock, and teaches nothing.
func (c *clock) reply(instant, wall int64, sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.mark.Load()
	if m == nil {
		return
	}
	now, took := m.now().Instant, int64(time.Since(sent))
	switch {
	case now < instant && instant-now <= fleet.Slack:
		now = instant
	case now > instant+took && now-instant-took <= fleet.Slack:
		now = instant + took
	}
	c.setLocked(account.Now{Instant: now, Wall: wall + min(max(now-instant, 0), took)})
}

// set sets the moment.
func (c *clock) set(now account.Now) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setLocked(now)
}
