package fleet

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

// Slack is how far the store's clock may differ from the time that the members expect before they
// stop following it. It is half of the least margin with which shared windows are exact.
const Slack = int64(time.Second / 2)

// clock tells the time of the log. Its instant follows the store's clock while that counts on: it
// never goes back, and a jump of the store's clock moves the shift and not the time.
type clock struct {
	last  account.Now // of the last entry
	shift int64       // of the log's instant, beside the stamp
}

// read returns the instant of a stamp.
func (c *clock) read(s store.Stamp) int64 {
	if s.Instant == 0 {
		return s.Wall + c.shift
	}
	return s.Instant + c.shift
}

// date returns the moment of an entry. It follows the stamp while that is within Slack of the
// time that the sender expects, and otherwise takes the expected time. A sender that knows less
// than the last entry cannot tell a jump of the store's clock from a pause: if the stamp is far
// ahead then, time stands still.
func (c *clock) date(e *store.Entry) account.Now {
	at, expected := c.read(e.Stamp), max(c.last.Instant, e.Expect, 1)
	switch ahead := at - expected; {
	case ahead > Slack && e.Expect < c.last.Instant:
		at = expected
	case ahead > Slack || ahead < -Slack:
		c.shift -= ahead
		at = expected
	}
	c.last = account.Now{Instant: max(at, c.last.Instant), Wall: max(e.Stamp.Wall, 1)}
	return c.last
}
