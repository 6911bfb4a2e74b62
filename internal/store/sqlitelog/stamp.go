//go:build !nosqlite

package sqlitelog

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

// machineClock is the clock of the machine, which all its processes read alike and nobody sets.
// Where it is not known, and in a container whose clock is another one, the wall clock counts on.
type machineClock struct {
	line    clock.Clock
	machine clock.Machine
}

func newMachineClock() *machineClock {
	c := new(machineClock)
	c.line.Sync()
	c.machine = clock.ReadMachine(&c.line)
	return c
}

// boot names the start of the machine; "" where it is not known.
func (c *machineClock) boot() string { return c.machine.Boot }

// stamp returns what the store's clock shows now. The instant never goes back: not below that of
// the last entry.
func (c *machineClock) stamp(h *head) store.Stamp {
	wall := time.Now().UnixNano()
	instant := h.last.Instant + max(wall-h.last.Wall, 0)
	if c.boot() != "" && h.boot == c.boot() {
		instant = c.machine.At(c.line.Now()) + h.ahead
	}
	return store.Stamp{Instant: max(instant, h.last.Instant, 1), Wall: wall}
}

// settleBoot makes the machine's present start the one that the instants count from. While others
// use the file that count from another start, this process goes by the wall clock.
func (l *Log) settleBoot(r rows) error {
	h, err := r.head()
	if err != nil || l.clock.boot() == "" || h.boot == l.clock.boot() || h.boot != "" && l.othersLive() {
		return err
	}
	ahead := l.clock.stamp(h).Instant - l.clock.machine.At(l.clock.line.Now())
	_, err = r.Exec("UPDATE log_state SET boot = ?, ahead = ?", l.clock.boot(), ahead)
	return err
}
