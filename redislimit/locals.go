package redislimit

import (
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

const (
	maxLocals  = 100_000
	localsIdle = time.Minute
	// localRetry is when to come back with more units than the share can ever admit.
	localRetry = 5 * time.Second
)

// locals returns the limiters in memory that have a share, one for each key.
func (l *limiter) locals(share Failure) *limit.Keyed[string] {
	of, ok := l.shares.Load(share)
	if !ok {
		all, err := limit.NewKeyed(maxLocals, localsIdle, func(string) (limit.Limiter, error) { return l.local(share) })
		if err != nil {
			panic(err) // the parameters are constants
		}
		of, _ = l.shares.LoadOrStore(share, all)
	}
	return of.(*limit.Keyed[string])
}

// without decides on parts without the server, by FailOpen or by Local. What is too much for the
// share is refused, but not for ever: Redis may admit it when it is back.
func without(parts []part, failure Failure, now time.Time) (ds []limit.Decision, err error) {
	var holds []limit.Hold
	passes := true
	for _, p := range parts {
		var d limit.Decision
		if failure == FailOpen {
			d, err = p.decision("", 0, p.n, true)
		} else {
			var h limit.Hold
			h, d, err = p.locals(failure).HoldAt(p.key, now, p.n)
			holds = append(holds, h)
			if d.Never && p.n <= p.most {
				d.Never, d.RetryAfter = false, localRetry
			}
		}
		if err != nil {
			passes = false
			break
		}
		passes = passes && d.OK
		ds = append(ds, d)
	}
	for _, h := range holds {
		if passes {
			h.Commit()
		} else {
			h.Cancel()
		}
	}
	return ds, err
}
