package redislimit

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/limit"
)

// SlidingLog admits up to limit units of a key in any time as long as the window, and is exact: it
// remembers each charge until its age reaches the window. Charges at a and at a+window, to the
// microsecond, are not in one window.
//
// It gives up memory: an entry of up to 50 bytes for each microsecond with a charge, of which there
// are up to limit. With a limit above 4,096, the charges of window/4,095 share an entry, which has
// the latest of their times: never more passes, but a unit may leave the window that much later. A
// decision takes time logarithmic in the number of entries. Make it with NewSlidingLog: the zero
// SlidingLog must not be used. It is safe for concurrent use.
type SlidingLog struct{ *limiter }

// maxEntries is how many entries a log has at most, but for those of Hold.Commit.
const maxEntries = 4096

// NewSlidingLog returns a SlidingLog. Its parameters and errors are those of NewFixedWindow.
func NewSlidingLog(client redis.UniversalClient, units int, length time.Duration, o Options) (*SlidingLog, error) {
	w, err := newWindow("new sliding log", client, units, length, &o)
	if err != nil {
		return nil, err
	}
	grain := int64(1)
	if units > maxEntries {
		grain = (w.length + maxEntries - 2) / (maxEntries - 1)
	}
	return &SlidingLog{w.newLimiter(client, slidingLog{w, grain}, slidingLogKind, grain, o, grain, (w.length+999)/1000+1)}, nil
}

type slidingLog struct {
	window
	grain int64 // microseconds of which the charges share an entry
}

func (s slidingLog) decide(state string, now int64, n int, charged bool) (d limit.Decision, err error) {
	var used, leaves, newest int64
	if err := numbers(state, &used, &leaves, &newest); err != nil {
		return d, err
	}
	// until returns when what was charged at an instant has left. 0 is never.
	until := func(at int64) int64 {
		if at == 0 {
			return 0
		}
		return at + s.length - now
	}
	retry, reset := until(leaves), until(newest)
	if min(retry, reset) < 0 || max(retry, reset) > s.length {
		return d, errReply
	}
	remaining := int64(s.limit) - used
	switch units := int64(n); {
	case n == 0:
		d.OK = true
	case units > remaining:
		if retry == 0 {
			return d, fmt.Errorf("%w: a refusal for no time", errReply)
		}
		d.RetryAfter = microseconds(retry)
	default:
		d.OK = true
		if charged {
			remaining -= units
			reset = s.length
		}
	}
	d.Remaining = int(max(remaining, 0))
	d.ResetAfter = microseconds(reset)
	return d, nil
}

func (s slidingLog) local(share Failure) (limit.Limiter, error) {
	return limit.NewSlidingLog(share.of(s.limit), s.duration())
}
