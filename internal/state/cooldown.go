package state

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
)

// Cooldown says until when nothing is admitted for a model, and why. A file without a cause has
// the empty one.
type Cooldown struct {
	Until time.Time
	Cause string
}

// Same reports whether two cooldowns have the same cause and end at the same nanosecond, as a
// database tells them apart.
func (c Cooldown) Same(other Cooldown) bool {
	return c.Cause == other.Cause && clock.UnixNano(c.Until) == clock.UnixNano(other.Until)
}
