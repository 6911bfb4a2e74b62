package redislimit

import (
	"context"
	"fmt"
	"strings"

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
	c := call{parts: parts, failure: g.failure, record: "{" + parts[0].key + "}:" + g.prefix + ":" + layout + ":taken:"}
	if holds {
		c.record, c.keep = "{"+parts[0].key+"}:"+g.prefix+":"+layout+":held:", g.holdTTL
	}
	decisions, err := g.server.take(ctx, &c)
	if err != nil {
		return Hold{}, nil, err
	}
	ds = make([]limit.Decision, len(charges))
	for i := range charges {
		ds[i] = decisions[of[i]]
	}
	if holds && c.taken {
		h = newHold(g, &c)
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
		p := newPart(l, c.Key, 0)
		k, known := states[p.state]
		if !known {
			k, states[p.state] = len(parts), len(parts)
			parts = append(parts, p)
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
