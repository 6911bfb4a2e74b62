package redisstore

import (
	"sync"
	"time"
)

// jumped is how far the log's time may be off what a process expects before it is taken for a jump
// of a clock. The scripts have the same number.
const jumped = time.Second

// logClock estimates the log's time by the replies of the scripts. It counts on by the monotonic
// clock, so that a step of this machine's wall clock changes nothing. The zero value knows nothing.
// A logClock is safe for concurrent use.
type logClock struct {
	mu    sync.Mutex
	known bool
	ref   time.Time // a reading of the monotonic and the wall clock
	wall  int64     // of ref, in UnixNano
	at    int64     // the log's time at ref, in UnixNano
}

// sinceRef returns what went by since ref by the monotonic clock.
func (c *logClock) sinceRefLocked(t time.Time) int64 { return int64(t.Sub(c.ref)) }

// heard notes a reply that tells the log's time in microseconds. The estimate stays if the reply
// allows it, and moves as little as possible otherwise.
func (c *logClock) heard(sent, received time.Time, micros int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	told := nanos(micros)
	if !c.known {
		c.known, c.ref, c.wall, c.at = true, received, received.UnixNano(), told
		return
	}
	least := told // now, at received
	most := told + int64(received.Sub(sent)) + int64(time.Microsecond)
	estimate := c.at + c.sinceRefLocked(received)
	c.ref, c.wall, c.at = received, received.UnixNano(), min(max(estimate, least), most)
}

// expect returns what the log's time should be, in microseconds; 0 where that is not known, or this
// machine was asleep: its monotonic clock then stood still, and its wall clock did not.
func (c *logClock) expect() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := time.Now()
	since := c.sinceRefLocked(t)
	if !c.known || time.Duration(t.UnixNano()-c.wall-since).Abs() > jumped/2 {
		return 0
	}
	return (c.at + since) / 1000
}

// skew returns how far the log's time is ahead of this machine's wall clock.
func (c *logClock) skew() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return 0
	}
	t := time.Now()
	return time.Duration(c.at + c.sinceRefLocked(t) - t.UnixNano())
}

// now returns the log's time in UnixNano.
func (c *logClock) now() int64 { return time.Now().UnixNano() + int64(c.skew()) }
