package redislimit

import (
	"context"
	"errors"
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

// Group takes from several limiters, or from several keys of them, at once: all or none. What it
// has taken can be settled by its id, by any process: Commit says what was used in the end, Release
// that nothing was. Without that it stays charged.
//
// In a Cluster, all keys of one TakeAll must lie in one slot. The hash tag of a key is what stands
// before its first closing brace, so keys that begin with the same tag in braces go together:
// "{acme}requests" and "{acme}tokens". Make it with NewGroup: the zero Group must not be used. It
// is safe for concurrent use.
type Group struct {
	server  *server
	prefix  string
	failure Failure
	holdTTL time.Duration
	oneSlot bool // the client needs all keys of a call in one slot
}

// maxCharges is how many states a TakeAll may have.
const maxCharges = 100

// ErrNotHeld is returned by Commit and Release for an id of which the server knows nothing: it was
// made longer than Options.HoldTTL ago, or the server has lost it. What was taken stays charged.
var ErrNotHeld = errors.New("nothing is held by this id")

// NewGroup returns a Group. Its OnFailure holds in place of that of the limiters. It returns an
// error that matches limit.ErrInvalid and names what is out of range. It does not ask the server.
func NewGroup(client redis.UniversalClient, o Options) (*Group, error) {
	if err := o.check("new group", client); err != nil {
		return nil, err
	}
	g := &Group{
		server: newServer(client, o.Timeout, o.OnError), prefix: o.Prefix, failure: o.OnFailure, holdTTL: o.HoldTTL,
	}
	switch client.(type) {
	case *redis.ClusterClient, *redis.Ring:
		g.oneSlot = true
	}
	return g, nil
}

// part is the charges of a TakeAll for one state.
type part struct {
	limiter *limiter
	key     string
	n       int
}

// TakeAll charges all, up to 100, or, if one of them does not fit, nothing. It passed if and only
// if all Decisions, in the order of the charges, are OK; id then names what was taken, and is "" if
// that is nothing. Charges of one limiter and key count together. In a refusal, the Decisions that
// are not OK are those of the charges that stand in the way; the others are not charged either.
// The slice stays as it is.
//
// Its errors are those of Take, with the OnFailure of the Group. With FailOpen and Local there is
// no id if Redis fails; with Local each limiter decides by the share of the Group, apart from its
// own.
func (g *Group) TakeAll(ctx context.Context, charges ...Charge) (id string, ds []limit.Decision, err error) {
	parts, of, err := g.parts(charges)
	if err != nil {
		return "", nil, fmt.Errorf("take all: %w", err)
	}
	if len(parts) == 0 {
		return "", nil, nil
	}
	id, decisions, err := g.ask(ctx, parts)
	if err != nil && failed(err) && g.failure != FailClosed {
		decisions, err = g.without(parts, time.Now())
	}
	if err != nil {
		return "", nil, fmt.Errorf("take all: %w", err)
	}
	ds = make([]limit.Decision, len(charges))
	for i := range charges {
		ds[i] = decisions[of[i]]
	}
	return id, ds, nil
}

// parts returns the charges with those of one state together, and for each charge its part.
func (g *Group) parts(charges []Charge) (parts []part, of []int, err error) {
	of = make([]int, len(charges))
	states := make(map[string]int, len(charges))
	for i, c := range charges {
		field := func(err error) error { return fmt.Errorf("charges[%d]: %w", i, err) }
		if c.Limiter == nil || c.Limiter.core() == nil {
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
		if parts[k].n += c.N; parts[k].n < 0 || int64(parts[k].n) > maxUnits {
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
func (g *Group) ask(ctx context.Context, parts []part) (id string, ds []limit.Decision, err error) {
	op, named, err := operation(ctx)
	if err != nil {
		return "", nil, err
	}
	record := "{" + parts[0].key + "}:" + g.prefix + ":" + layout + ":held:" + op
	held := hold{Record: []byte(record)}
	keep := g.holdTTL.Milliseconds()
	keys := []string{record}
	args := append(make([]any, 0, 1+6*len(parts)), nil)
	for _, p := range parts {
		asked := p.n
		if p.n > p.limiter.most() {
			keep, asked = 0, 0
		}
		keys = append(keys, p.limiter.state(p.key))
		args = append(append(args, p.limiter.kind()), p.limiter.args(asked)...)
		held.Parts = append(held.Parts, heldPart{p.limiter.kind(), []byte(p.limiter.state(p.key)), p.n, p.limiter.basis()})
	}
	args[0] = max(keep, 0)
	answer, err := g.server.eval(ctx, takeAllScript, keys, args)
	if err != nil {
		return "", nil, err
	}
	ok, reports, err := verdict(answer)
	if err == nil && named && len(reports) != len(parts) {
		return "", nil, fmt.Errorf("%w: the operation has taken %d states, not %d", limit.ErrInvalid, len(reports), len(parts))
	}
	if err != nil || len(reports) != len(parts) {
		return "", nil, g.server.odd(errReply)
	}
	fits := true
	for i, p := range parts {
		d, err := p.limiter.decision(reports[i], p.n, ok && keep > 0)
		if err != nil {
			return "", nil, g.server.odd(err)
		}
		ds = append(ds, d)
		fits = fits && d.OK
	}
	switch {
	case keep > 0 && fits != ok:
		return "", nil, g.server.odd(errReply)
	case ok && keep > 0:
		id = held.String()
	}
	return id, ds, nil
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
			h.Release()
		}
	}
	return ds, err
}

// Commit settles what TakeAll has taken: actual are the units that were used, in the order of the
// states that the charges had, which is that of the charges where no limiter and key comes twice.
// What was taken beyond them is given back as of the time at which it was taken, if it still
// counts, and what was used beyond is charged now, even if that is more than the limit. Without
// all of actual, the rest was used as taken. The first Commit or Release of an id ends it; later
// calls, and those of the empty id, do nothing. It is safe to repeat a call that failed.
//
// It returns ErrNotHeld if the server knows nothing of the id, and otherwise the errors of Take,
// with FailClosed.
func (g *Group) Commit(ctx context.Context, id string, actual ...int) error {
	if err := g.settle(ctx, id, func(i, n int) int {
		if i < len(actual) {
			return actual[i]
		}
		return n
	}, actual...); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// Release gives back all that TakeAll has taken. It is Commit of nothing.
func (g *Group) Release(ctx context.Context, id string) error {
	if err := g.settle(ctx, id, func(int, int) int { return 0 }); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

func (g *Group) settle(ctx context.Context, id string, used func(i, n int) int, actual ...int) error {
	if id == "" {
		return nil
	}
	held, err := parseHold(id)
	if err != nil {
		return err
	}
	if len(actual) > len(held.Parts) {
		return fmt.Errorf("%w: there are %d actual numbers, want at most %d", limit.ErrInvalid, len(actual), len(held.Parts))
	}
	keys, args := []string{string(held.Record)}, []any{g.holdTTL.Milliseconds()}
	for i, p := range held.Parts {
		n := used(i, p.N)
		if n < 0 || int64(n) > maxUnits {
			return fmt.Errorf("%w: actual[%d] is %d, want 0 to 2^50", limit.ErrInvalid, i, n)
		}
		sign, change := "0", 0
		switch {
		case n > p.N:
			sign, change = "+", n-p.N
		case n < p.N:
			sign, change = "-", p.N-n
		}
		keys = append(keys, string(p.State))
		args = append(append(args, p.Kind, sign), p.change(change)...)
	}
	answer, err := g.server.eval(ctx, settleScript, keys, args)
	switch {
	case err != nil:
		return err
	case answer == "unknown":
		return ErrNotHeld
	case answer != "settled":
		return g.server.odd(errReply)
	}
	return nil
}
