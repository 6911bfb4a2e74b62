package replica

import (
	"context"
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

// Looker is a Replica that takes no part in a log: it has the state of one moment, from which its
// clock goes on. It may be read, and nothing may be asked of it.
type Looker struct {
	*Replica
	State *fleet.State
	now   account.Now // the moment
}

// Look returns what a log leads to now. It writes nothing.
func Look(ctx context.Context, from store.Store) (*Looker, error) {
	viewer, is := from.(store.Viewer)
	if !is {
		return nil, fmt.Errorf("a %T cannot be looked at without a part in it", from)
	}
	view, err := viewer.View(ctx)
	if err != nil {
		return nil, err
	}
	s, now, err := fleet.ViewOf(&view)
	if err != nil {
		return nil, err
	}
	r := newReplica(context.Background(), Options{})
	r.state = s
	r.clock.set(now)
	return &Looker{Replica: r, State: s, now: now}, nil
}

// Part is the part of a process in what its members share: numbers by the counted names of models.
type Part struct {
	ID       string
	HeardAt  time.Time // zero for one that is no member
	InFlight map[string]int
	Tokens   map[string]int
	Waiting  map[string]int
}

// Parts returns the part of each process.
func (l *Looker) Parts() (parts []Part) {
	for _, p := range l.State.Parts() {
		is := Part{ID: fmt.Sprintf("%016x", p.Process), InFlight: p.Open, Tokens: p.Tokens, Waiting: p.Waiting}
		if p.Member {
			is.HeardAt = l.now.TimeAt(p.HeardAt)
		}
		parts = append(parts, is)
	}
	return parts
}
