package redislimit

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/limit"
)

// Charge is a number of units of a key of a limiter.
type Charge struct {
	Limiter Limiter // one of this package, made with the client of the Group
	Key     string  // not empty
	N       int     // units, not negative
}

// Group takes from several limiters, or from several keys of them, at once: all or none. TakeAll
// charges for good, and HoldAll what is settled when it is known how much was used.
//
// In a Cluster, all keys of one call must lie in one slot. The hash tag of a key is what stands
// before its first closing brace, so keys that begin with the same tag in braces go together:
// "{acme}requests" and "{acme}tokens". Make it with NewGroup: the zero Group must not be used. It
// is safe for concurrent use.
type Group struct {
	server  *server
	prefix  string
	failure Failure
	holdTTL int64 // milliseconds
	oneSlot bool  // the client needs all keys of a call in one slot
}

// maxCharges is how many states a call may have.
const maxCharges = 100

// NewGroup returns a Group. Its OnFailure holds in place of that of the limiters. It returns an
// error that matches limit.ErrInvalid and names what is out of range. It does not ask the server.
func NewGroup(client redis.UniversalClient, o Options) (*Group, error) {
	if err := o.check("new group", client); err != nil {
		return nil, err
	}
	g := &Group{
		server: newServer(client, o.Timeout, o.OnError), prefix: o.Prefix, failure: o.OnFailure,
		holdTTL: max(1, o.HoldTTL.Milliseconds()),
	}
	switch client.(type) {
	case *redis.ClusterClient, *redis.Ring:
		g.oneSlot = true
	}
	return g, nil
}

// part is the charges of a call for one state.
type part struct {
	limiter *limiter
	key     string
	n       int
}

// TakeAll charges all, up to 100, or, if one of them does not fit, nothing. It passed if and only
// if all Decisions, in the order of the charges, are OK. Charges of one limiter and key count
// together. In a refusal, the Decisions that are not OK are those of the charges that stand in the
// way; the others are not charged either. The slice stays as it is.
//
// Its errors are those of Take, with the OnFailure of the Group; with Local each limiter decides by
// the share of the Group, apart from its own.
func (g *Group) TakeAll(ctx context.Context, charges ...Charge) ([]limit.Decision, error) {
	_, ds, err := g.all(ctx, charges, false)
	if err != nil {
		return nil, fmt.Errorf("take all: %w", err)
	}
	return ds, nil
}

// HoldAll is TakeAll of what can be settled. The Hold is the zero Hold if nothing was taken, and
// with FailOpen and Local if Redis fails.
func (g *Group) HoldAll(ctx context.Context, charges ...Charge) (Hold, []limit.Decision, error) {
	h, ds, err := g.all(ctx, charges, true)
	if err != nil {
		return Hold{}, nil, fmt.Errorf("hold all: %w", err)
	}
	return h, ds, nil
}

func (g *Group) all(ctx context.Context, charges []Charge, holds bool) (h Hold, ds []limit.Decision, err error) {
	parts, of, err := g.parts(charges)
	if err != nil || len(parts) == 0 {
		return Hold{}, nil, err
	}
	h, decisions, err := g.ask(ctx, parts, holds)
	if err != nil && failed(err) && g.failure != FailClosed {
		decisions, err = g.without(parts, time.Now())
	}
	if err != nil {
		return Hold{}, nil, err
	}
	ds = make([]limit.Decision, len(charges))
	for i := range charges {
		ds[i] = decisions[of[i]]
	}
	return h, ds, nil
}

// parts returns the charges with those of one state together, and for each charge its part.
func (g *Group) parts(charges []Charge) (parts []part, of []int, err error) {
	of = make([]int, len(charges))
	states := make(map[string]int, len(charges))
	for i, c := range charges {
		field := func(err error) error { return fmt.Errorf("charges[%d]: %w", i, err) }
		if isNil(c.Limiter) || c.Limiter.core() == nil {
			return nil, nil, field(fmt.Errorf("%w: Limiter is nil", limit.ErrInvalid))
		}
		if err := checkTake(c.Key, c.N); err != nil {
			return nil, nil, field(err)
		}
		l := c.Limiter.core()
		if l.server.client != g.server.client {
			return nil, nil, field(fmt.Errorf("%w: Limiter has another client than the Group", limit.ErrInvalid))
		}
		if g.oneSlot && tag(c.Key) != tag(charges[0].Key) {
			return nil, nil, field(fmt.Errorf("%w: Key is %q, want one of the hash tag %q, which charges[0] has",
				limit.ErrInvalid, c.Key, tag(charges[0].Key)))
		}
		state := l.state(c.Key)
		k, known := states[state]
		if !known {
			k, states[state] = len(parts), len(parts)
			parts = append(parts, part{limiter: l, key: c.Key})
		}
		if parts[k].n += c.N; parts[k].n < 0 || parts[k].n > maxUnits {
			parts[k].n = maxUnits + 1 // which never passes
		}
		of[i] = k
	}
	if len(parts) > maxCharges {
		return nil, nil, fmt.Errorf("%w: there are %d charges, want at most %d", limit.ErrInvalid, len(parts), maxCharges)
	}
	return parts, of, nil
}

// tag returns the hash tag of the states of a key.
func tag(key string) string {
	before, _, _ := strings.Cut(key, "}")
	return before
}

// ask has the server decide.
func (g *Group) ask(ctx context.Context, parts []part, holds bool) (h Hold, ds []limit.Decision, err error) {
	op, named, err := operation(ctx)
	if err != nil {
		return Hold{}, nil, err
	}
	what, keep := ":taken:", g.server.keep
	switch {
	case holds:
		what, keep = ":held:", g.holdTTL
	case named:
		keep = remembered.Milliseconds()
	}
	record := "{" + parts[0].key + "}:" + g.prefix + ":" + layout + what + op
	held, keys := hold{Record: []byte(record)}, []string{record}
	args := append(make([]any, 0, 1+6*len(parts)), nil)
	for _, p := range parts {
		asked := p.n
		if p.n > p.limiter.most() {
			keep, asked = -1, 0
		}
		state := p.limiter.state(p.key)
		keys = append(keys, state)
		args = append(append(args, p.limiter.kind()), p.limiter.args(asked)...)
		if holds {
			held.Parts = append(held.Parts, heldPart{p.limiter.kind(), []byte(state), p.n, p.limiter.basis()})
		}
	}
	args[0] = keep
	answer, err := g.server.eval(ctx, takeAllScript, keys, args)
	if err != nil {
		return Hold{}, nil, err
	}
	ok, reports, err := verdict(answer)
	if err == nil && named && len(reports) != len(parts) {
		return Hold{}, nil, fmt.Errorf("%w: the operation has taken %d states, not %d", limit.ErrInvalid, len(reports), len(parts))
	}
	if err != nil || len(reports) != len(parts) {
		return Hold{}, nil, g.server.report(errReply)
	}
	fits := true
	for i, p := range parts {
		d, err := p.limiter.decision(reports[i], p.n, ok && keep >= 0)
		if err != nil {
			return Hold{}, nil, g.server.report(err)
		}
		ds = append(ds, d)
		fits = fits && d.OK
	}
	switch {
	case keep >= 0 && fits != ok:
		return Hold{}, nil, g.server.report(errReply)
	case ok && keep >= 0 && holds:
		h = Hold{g, &held}
	}
	return h, ds, nil
}

// without decides without the server.
func (g *Group) without(parts []part, now time.Time) (ds []limit.Decision, err error) {
	var holds []limit.Hold
	passes := true
	for _, p := range parts {
		var d limit.Decision
		if g.failure == FailOpen {
			d, err = p.limiter.decision(p.limiter.fresh(), p.n, true)
		} else {
			var h limit.Hold
			h, d, err = p.limiter.locals(g.failure).hold(p.key, p.n, now)
			holds = append(holds, h)
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
