package redislimit

import (
	"context"
	"fmt"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// part is a number of units of one state.
type part struct {
	*limiter
	key, state string
	n          int
}

// newPart returns units of the state of a limiter's key. The suffix of states has no further
// closing brace, so no two pairs of a key and a limiter have one state.
func newPart(l *limiter, key string, n int) part { return part{l, key, "{" + key + l.suffix, n} }

// call is a decision on parts: all or none are taken.
type call struct {
	parts   []part
	failure Failure
	// record is the key of the answer, which take completes by the operation. Empty keeps none.
	record string
	// keep is for how many milliseconds the record is kept. Zero is as long as repeats need it.
	keep int64

	answered bool // by the server
	taken    bool // answered, and all fit
}

// take has the server decide, or, if that fails, the failure of the call.
func (s *server) take(ctx context.Context, c *call) ([]limit.Decision, error) {
	ds, err := s.ask(ctx, c)
	if err != nil && failed(err) && c.failure != FailClosed {
		return without(c.parts, c.failure, time.Now())
	}
	return ds, err
}

// ask has the server decide.
func (s *server) ask(ctx context.Context, c *call) ([]limit.Decision, error) {
	op, named, err := operation(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case c.keep > 0:
	case named:
		c.keep = remembered.Milliseconds()
	default:
		c.keep = s.keep
	}
	script, single := takeAllScript, len(c.parts) == 1
	if single {
		script = c.parts[0].take
	}
	keys := make([]string, 0, len(c.parts)+1)
	args := append(make([]any, 0, 1+6*len(c.parts)), c.keep)
	for _, p := range c.parts {
		keys = append(keys, p.state)
		if !single {
			args = append(args, p.name)
		}
		args = append(p.cost(args, min(p.n, p.most+1)), p.args...) // one more than can ever pass does not, either
		for !single && (len(args)-1)%6 > 0 {
			args = append(args, 0)
		}
	}
	if c.record != "" && c.keep > 0 {
		c.record += op
		keys = append(keys, c.record)
	}
	text, err := s.eval(ctx, script, keys, args)
	if err != nil {
		return nil, err
	}
	a, err := parseAnswer(text)
	if n := strings.Count(a.states, "\n") + 1; err == nil && n != len(c.parts) {
		if named {
			return nil, fmt.Errorf("%w: the operation has taken %d states, not %d", limit.ErrInvalid, n, len(c.parts))
		}
		err = errReply
	}
	ds := make([]limit.Decision, len(c.parts))
	fits := true
	for i := 0; i < len(ds) && err == nil; i++ {
		var state string
		state, a.states, _ = strings.Cut(a.states, "\n")
		p := &c.parts[i]
		ds[i], err = p.decision(state, a.now, p.n, a.ok)
		if a.ok && named && !ds[i].OK { // the first call of the operation asked for fewer units
			ds[i], err = p.decision(state, a.now, 0, false)
		}
		fits = fits && ds[i].OK
	}
	if err == nil && fits != a.ok {
		err = errReply
	}
	if err != nil {
		return nil, s.report(err)
	}
	c.answered, c.taken = true, a.ok
	return ds, nil
}
